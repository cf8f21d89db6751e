"""The functions that ksqlDB registers only in its tests."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from millstream.sql.functions import TypedArgument
from millstream.sql.syntax import parse_type
from millstream.sql.syntax.tree import KnownType
from millstream.sql.testing import functions
from millstream.sql.types import SqlType


def type_of(text: str) -> SqlType:
    type_ = parse_type(text)
    assert isinstance(type_, KnownType)
    return type_.type


def columns(*types: str) -> list[TypedArgument]:
    return [TypedArgument(type_of(text)) for text in types]


@pytest.mark.parametrize(
    ("types", "values", "expected"),
    [
        (["INT", "STRING"], [1, "a"], "doStuffIntString"),
        (["BIGINT", "STRING"], [1, "a"], "doStuffLongString"),
        (["BIGINT", "BIGINT", "STRING"], [1, 2, "a"], "doStuffLongLongString"),
        (["BIGINT", "BIGINT"], [1, 2], "doStuffLongVarargs"),
        (["STRUCT<A STRING>"], [{"A": "x"}], "x"),
        ([], [], {"A": "foo"}),
    ],
)
def test_test_udf(types: list[str], values: list[Any], expected: object) -> None:
    call = functions.test_catalogue().resolve_scalar("TEST_UDF", columns(*types))
    assert call.call(*values) == expected


def test_bad_udf_counts_the_calls_of_its_own_case() -> None:
    for _case in range(2):
        call = functions.test_catalogue().resolve_scalar("BAD_UDF", columns("STRING"))
        assert [call.call("x") for _ in range(4)] == [None, "x", None, "x"]
    with pytest.raises(ValueError, match="boom"):
        functions.test_catalogue().resolve_scalar("BAD_UDF", columns("BOOLEAN")).call(True)


def test_when_functions_raise_where_they_must_not_be_called() -> None:
    call = functions.test_catalogue().resolve_scalar("WHENRESULT", columns("INT", "BOOLEAN"))
    assert call.call(3, True) == 3
    with pytest.raises(ValueError, match="must not"):
        call.call(3, False)


SEVEN = ["INT", "BIGINT", "DOUBLE", "BOOLEAN", "STRING", "DECIMAL(3, 1)", "STRUCT<A STRING>"]
VALUES = [1, 2, 3.5, True, "x", Decimal("1.5"), {"A": "y"}]


def test_test_udtf() -> None:
    catalogue = functions.test_catalogue()
    texts = ["1", "2", "3.5", "true", "x", "1.5", "Struct{A=y}"]

    assert catalogue.resolve_table("TEST_UDTF", columns("INT")).call(4) == [4]
    assert str(catalogue.resolve_table("TEST_UDTF", columns("DECIMAL(3, 1)")).result) == "DECIMAL(30, 10)"
    assert catalogue.resolve_table("TEST_UDTF", columns(*SEVEN)).call(*VALUES) == texts
    arrays = columns(*(f"ARRAY<{text}>" for text in SEVEN))
    assert catalogue.resolve_table("TEST_UDTF", arrays).call(*([value] for value in VALUES)) == texts
    with pytest.raises(ValueError, match="throw"):
        catalogue.resolve_table("THROWING_UDTF", columns("BOOLEAN")).call(True)


@pytest.mark.parametrize(
    ("name", "types", "literals", "rows", "expected"),
    [
        ("TEST_UDAF", ["BIGINT"], [], [[1], [2]], 3),
        ("TEST_UDAF", ["INT"], [], [[1], [None]], 101),
        ("TEST_UDAF", ["DOUBLE"], [], [[1.5], [2.0]], 3.5),
        ("TEST_UDAF", ["STRING"], ["init"], [["ab"], ["c"]], 7),
        ("TEST_UDAF", ["STRUCT<A INT, B INT>"], [], [[{"A": 1, "B": 2}], [{"A": 3, "B": 4}]], {"A": 4, "B": 6}),
        ("MULTI_ARG", ["BIGINT", "STRING"], [5], [[1, "ab"], [None, None]], 8),
        ("MULTI_ARG", ["BIGINT", "STRING"], [5, "10", "200"], [[1, "ab"]], 13),
        ("FOUR_ARG", ["BIGINT", "STRING", "STRING", "STRING"], [5, "x"], [[1, "a", "b", "c"]], 10),
        ("FIVE_ARG", ["BIGINT", "STRING", "STRING", "STRING", "INT"], [5, "x"], [[1, "a", "b", "c", 2]], 12),
        ("VAR_ARG", ["BIGINT", "STRING", "STRING"], [], [[1, "a", "bc"]], 4),
        ("MID_VAR_ARG", ["BIGINT", "STRING"], [7, 3], [[1, "a"], [1, "b"]], 14),
        ("OBJ_COL_ARG", ["INT", "STRING", "BOOLEAN"], [], [[1, "a", True], [2, None, True]], [1]),
        ("GENERIC_VAR_ARG", ["STRING", "INT", "INT"], [], [["a", 1, 2], ["b", 1, None]], ["a"]),
    ],
)
def test_aggregates(name: str, types: list[str], literals: list[Any], rows: list[list[Any]], expected: object) -> None:
    given = [TypedArgument(type_of("INT" if isinstance(value, int) else "STRING"), value) for value in literals]
    config = {"ksql.functions.test_udaf.init": 100}
    call = functions.test_catalogue().resolve_aggregate(name, [*columns(*types), *given], config)
    accumulator = call.accumulator

    state = accumulator.initial()
    for row in rows:
        state = accumulator.add(state, *row)

    assert accumulator.finish(state) == expected
    if accumulator.can_undo:
        assert accumulator.undo(state, *rows[-1]) == accumulator.add(accumulator.initial(), *rows[0])
