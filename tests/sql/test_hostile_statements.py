"""Whatever the text of a statement: it is executed, or refused with an error of SQL that has a place.

`hostile.py` beside this file makes the statements; as a program it executes any number of them, and prints times.
"""

from __future__ import annotations

from itertools import islice

import pytest
from tests.sql.hostile import Hostile

from millstream.errors import SqlError

DEEP = 10_000
QUERY = "CREATE STREAM x AS SELECT k, {} AS e FROM st;"


@pytest.fixture(scope="module")
def hostile() -> Hostile:
    return Hostile(seed=7)


def test_random_and_mutated_statements_only_give_errors_of_sql(hostile: Hostile) -> None:
    errors = [hostile.execute(text) for text in islice(hostile.statements(), 600)]

    refused = [error for error in errors if error is not None]
    assert 300 < len(refused) < 590, "the statements are neither all right nor all wrong"
    assert all(error.line is not None and error.column is not None for error in refused)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * DEEP + "1" + ")" * DEEP,
        "ABS(" * DEEP + "i" + ")" * DEEP,
        "i" + " + 1" * DEEP,
        "NOT " * DEEP + "b",
        "ARRAY[" * DEEP + "1" + "]" * DEEP,
        "o" + "->a" * DEEP,
        "CASE WHEN b THEN " * DEEP + "1" + " END" * DEEP,
        "TRANSFORM(xs, x => " * DEEP + "1" + ")" * DEEP,
        "CAST(" * DEEP + "i" + " AS INT)" * DEEP,
    ],
    ids=lambda text: text[:12],
)
def test_deep_expressions_are_refused(expression: str, hostile: Hostile) -> None:
    error = hostile.execute(QUERY.format(expression))
    assert isinstance(error, SqlError)
    assert "nested more than" in error.message


@pytest.mark.parametrize("levels", [90, 199])
def test_expressions_of_the_allowed_depth_go_through_every_pass(levels: int, hostile: Hostile) -> None:
    for text in ("ABS(" * levels + "i" + ")" * levels, "i" + " + 1" * levels, "NOT " * levels + "b"):
        error = hostile.execute(QUERY.format(text))
        assert error is None or "nested more than" in error.message


def listed(count: int, item: str, separator: str = ", ") -> str:
    """Returns items with running numbers."""
    return separator.join(item.format(number) for number in range(count))


@pytest.mark.parametrize(
    "expression",
    [
        f"i IN ({listed(140_000, '{}')})",
        f"CASE {listed(38_000, 'WHEN i = {0} THEN {0}', ' ')} END",
        f"'{'x' * 1_000_000}'",
    ],
    ids=lambda text: text[:8],
)
def test_a_statement_of_a_megabyte_is_executed(expression: str, hostile: Hostile) -> None:
    text = QUERY.format(expression)
    assert 890_000 < len(text) < 1_100_000

    assert hostile.execute(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"CREATE STREAM x AS SELECT k, {listed(70_000, 'i AS c{}')} FROM st;", "more than 10000 items"),
        (f"CREATE STREAM x ({listed(70_000, 'c{} INT')}) WITH (kafka_topic='x', format='JSON');", "more than 10000"),
        (QUERY.format(f"STRUCT({listed(20_000, 'f{} := i')})"), "more than 10000 fields"),
        (QUERY.format(listed(90_000, "i + {}", " + ")), "nested more than"),
        (QUERY.format(listed(90_000, "i = {}", " AND ")), "nested more than"),
        ("x" * 5_000_000, "at most 4000000 are read"),
    ],
    ids=["items", "columns", "fields", "sum", "and", "word"],
)
def test_what_exceeds_a_limit_is_refused(text: str, message: str, hostile: Hostile) -> None:
    error = hostile.execute(text)

    assert isinstance(error, SqlError)
    assert message in error.message


def test_ten_thousand_fields_of_structs_have_names(hostile: Hostile) -> None:
    assert hostile.execute(f"CREATE STREAM x AS SELECT k, {listed(9_999, 'o->a')} FROM st;") is None
