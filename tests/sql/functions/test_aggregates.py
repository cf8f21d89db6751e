"""Aggregate functions: states, undo, merge, and results."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest

from millstream.errors import SqlStatementError
from millstream.sql.functions import TypedArgument, literal_type, resolve_aggregate, resolve_table
from millstream.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    ArrayType,
    DecimalType,
    MapType,
    StructType,
)


def resolve(name: Any, *types: Any, literals: Any = (), config: Any = None) -> Any:
    arguments = [TypedArgument(type_) for type_ in types]
    arguments += [TypedArgument(literal_type(value), value) for value in literals]
    return resolve_aggregate(name, arguments, config)


def run(call: Any, rows: Any) -> Any:
    state = call.accumulator.initial()
    for row in rows:
        values = row if isinstance(row, tuple) else (row,)
        state = call.accumulator.add(state, *values)
    return state


CASES = [
    ("COUNT", [INTEGER], (), [1, None, 3], 2),
    ("COUNT", [], (), [(), ()], 2),
    ("SUM", [INTEGER], (), [2**31 - 1, None, 1], -(2**31)),
    ("SUM", [BIGINT], (), [2**63 - 1, 1], -(2**63)),
    ("SUM", [DOUBLE], (), [0.5, None], 0.5),
    ("SUM", [DecimalType(4, 2)], (), [Decimal("1.10"), Decimal("2.20")], Decimal("3.30")),
    ("SUM", [INTEGER], (), [], 0),
    ("SUM_LIST", [ArrayType(INTEGER)], (), [[1, None], None, [2]], 3),
    ("AVG", [INTEGER], (), [1, None, 2], 1.5),
    ("AVG", [DOUBLE], (), [None], 0.0),
    ("AVG", [INTEGER], (), [2**31 - 1, 1], -(2**30)),
    ("MIN", [STRING], (), ["b", None, "a"], "a"),
    ("MAX", [BYTES], (), [b"\x80", b"\x01"], b"\x01"),
    ("MAX", [DATE], (), [None], None),
    ("COLLECT_LIST", [INTEGER], (), [1, None, 1], [1, None, 1]),
    ("COLLECT_SET", [MapType(STRING, INTEGER)], (), [{"a": 1}, None, {"a": 1}, None], [{"a": 1}, None]),
    ("TOPK", [INTEGER], (2,), [1, None, 3, 2], [3, 2]),
    ("TOPK", [STRING], (2,), ["a", "c", "b"], ["c", "b"]),
    ("TOPKDISTINCT", [DecimalType(2, 1)], (2,), [Decimal("1.0"), Decimal("2.0"), Decimal("2.0")], None),
    ("LATEST_BY_OFFSET", [INTEGER], (), [1, 2, None], 2),
    ("LATEST_BY_OFFSET", [INTEGER], (False,), [1, 2, None], None),
    ("LATEST_BY_OFFSET", [INTEGER], (2,), [1, None, 2, 3], [2, 3]),
    ("LATEST_BY_OFFSET", [INTEGER], (2, False), [1, 2, None], [2, None]),
    ("EARLIEST_BY_OFFSET", [INTEGER], (), [None, 1, 2], 1),
    ("EARLIEST_BY_OFFSET", [INTEGER], (False,), [None, 1], None),
    ("EARLIEST_BY_OFFSET", [INTEGER], (2,), [None, 1, 2, 3], [1, 2]),
    ("HISTOGRAM", [STRING], (), ["a", "b", "a", None], {"a": 2, "b": 1}),
    ("COUNT_DISTINCT", [INTEGER], (), [1, 2, None, 1], 2),
    ("STDDEV_SAMP", [INTEGER], (), [0, 10, None], 50.0),
    ("STDDEV_SAMPLE", [DOUBLE], (), [1.0, 3.0], math.sqrt(2)),
    ("STDDEV_SAMP", [BIGINT], (), [7], 0.0),
    ("CORRELATION", [INTEGER, INTEGER], (), [(1, 2), (None, 5), (2, 4)], 1.0),
    ("ATTR", [STRING], (), ["a", "a"], "a"),
    ("ATTR", [STRING], (), ["a", None], None),
    ("ATTR", [INTEGER], (), [], None),
]


@pytest.mark.parametrize(("name", "types", "literals", "rows", "expected"), CASES)
def test_the_result_of_an_aggregate(name: Any, types: Any, literals: Any, rows: Any, expected: Any) -> None:
    call = resolve(name, *types, literals=literals)
    result = call.accumulator.finish(run(call, rows))
    if name == "TOPKDISTINCT":
        expected = [Decimal("2.0"), Decimal("1.0")]
    assert result == (pytest.approx(expected) if isinstance(expected, float) else expected)
    assert call.columns == len(types)


@pytest.mark.parametrize(("name", "types", "literals", "rows", "expected"), CASES)
def test_merging_two_halves_gives_the_same(name: Any, types: Any, literals: Any, rows: Any, expected: Any) -> None:
    del expected
    call = resolve(name, *types, literals=literals)
    whole = call.accumulator.finish(run(call, rows))
    for cut in range(len(rows) + 1):
        parts = [run(call, rows[:cut]), run(call, rows[cut:])]
        merged = call.accumulator.initial()
        for part in parts:
            merged = call.accumulator.merge(merged, part)
        result = call.accumulator.finish(merged)
        assert result == (pytest.approx(whole) if isinstance(whole, float) else whole)


@pytest.mark.parametrize(("name", "types", "literals", "rows", "expected"), CASES)
def test_undo_takes_a_row_out_again(name: Any, types: Any, literals: Any, rows: Any, expected: Any) -> None:
    del expected
    call = resolve(name, *types, literals=literals)
    names = "COUNT SUM SUM_LIST AVG COLLECT_LIST HISTOGRAM CORRELATION STDDEV_SAMP STDDEV_SAMPLE ATTR"
    tables = set(names.split())
    assert (call.undo is not None) == (name in tables)
    if call.undo is None or not rows:
        return
    state = call.undo(run(call, rows), *(rows[-1] if isinstance(rows[-1], tuple) else (rows[-1],)))
    assert _rounded(call.accumulator.finish(state)) == _rounded(call.accumulator.finish(run(call, rows[:-1])))


def _rounded(value: Any) -> Any:
    return str(round(value, 9)) if isinstance(value, float) else value


@pytest.mark.parametrize(("name", "types", "literals", "rows", "expected"), CASES)
def test_states_are_values_of_their_type(name: Any, types: Any, literals: Any, rows: Any, expected: Any) -> None:
    del expected
    call = resolve(name, *types, literals=literals)
    _check(run(call, rows), call.state)
    _check(call.accumulator.initial(), call.state)


def _check(value: Any, type_: Any) -> None:
    if value is None:
        return
    if isinstance(type_, ArrayType):
        assert isinstance(value, list)
        for item in value:
            _check(item, type_.element)
    elif isinstance(type_, MapType):
        for key, item in value.items():
            _check(key, type_.key)
            _check(item, type_.value)
    elif isinstance(type_, StructType):
        assert list(value) == [name for name, _type in type_.fields]
        for name, part in type_.fields:
            _check(value[name], part)
    else:
        plain = {BIGINT: int, INTEGER: int, DOUBLE: float, STRING: str, BYTES: bytes, BOOLEAN: bool, DATE: int}
        assert type(value) is plain.get(type_, Decimal)


def test_simple_aggregates_have_simple_states() -> None:
    for name in ("COUNT", "SUM", "MIN", "MAX"):
        assert not resolve(name, INTEGER).state.parts
    for name in ("AVG", "COLLECT_LIST", "COUNT_DISTINCT", "STDDEV_SAMP", "ATTR", "LATEST_BY_OFFSET"):
        assert resolve(name, INTEGER).state.parts


def test_adding_leaves_the_old_state_alone() -> None:
    call = resolve("COLLECT_LIST", INTEGER)
    state = run(call, [1])
    call.accumulator.add(state, 2)
    assert state == [1]


def test_undo_of_collect_list_removes_the_last_equal_element() -> None:
    call = resolve("COLLECT_LIST", STRING)
    assert call.undo is not None
    assert call.undo(["a", "b", "a"], "a") == ["a", "b"]
    assert call.undo(["a"], "x") == ["a"]


def test_a_decimal_sum_that_does_not_fit_raises() -> None:
    call = resolve("SUM", DecimalType(2, 1))
    with pytest.raises(ArithmeticError, match="Numeric field overflow"):
        run(call, [Decimal("9.9"), Decimal("9.9")])


def test_one_pair_has_no_correlation() -> None:
    call = resolve("CORRELATION", DOUBLE, DOUBLE)
    assert math.isnan(call.accumulator.finish(run(call, [(1.0, 2.0)])))


def test_merged_sessions_of_whole_numbers_have_whole_averages() -> None:
    whole, real = resolve("STDDEV_SAMP", INTEGER), resolve("STDDEV_SAMP", DOUBLE)
    merged = whole.accumulator.merge(run(whole, [1, 2]), run(whole, [4]))
    assert whole.accumulator.finish(merged) == pytest.approx((0.5 + 2 * 1 * 9 / 3) / 2)
    exact = real.accumulator.merge(run(real, [1.0, 2.0]), run(real, [4.0]))
    assert real.accumulator.finish(exact) == pytest.approx(7 / 3)


def test_properties_limit_what_is_collected() -> None:
    call = resolve("COLLECT_LIST", INTEGER, config={"ksql.functions.collect_list.limit": "2"})
    assert run(call, [1, 2, 3]) == [1, 2]
    assert call.accumulator.merge([1], [2, 3]) == [1, 2]
    call = resolve("COLLECT_SET", INTEGER, config={"ksql.functions.collect_set.limit": 1})
    assert run(call, [1, 2]) == [1]
    with pytest.raises(SqlStatementError, match="whole number"):
        resolve("COLLECT_SET", INTEGER, config={"ksql.functions.collect_set.limit": "many"})


def test_topk_with_columns_gives_structs() -> None:
    arguments = [TypedArgument(INTEGER), TypedArgument(STRING), TypedArgument(BOOLEAN), TypedArgument(INTEGER, 2)]
    call = resolve_aggregate("TOPK", arguments)
    assert str(call.result) == "ARRAY<STRUCT<`sort_col` INTEGER, `col0` STRING, `col1` BOOLEAN>>"
    state = run(call, [(1, "a", None), (2, "b", True), (2, "c", False)])
    assert [item["col0"] for item in call.accumulator.finish(state)] == ["b", "c"]
    assert call.columns == 3


def test_histogram_keeps_a_thousand_keys() -> None:
    call = resolve("HISTOGRAM", STRING)
    state = run(call, [str(index) for index in range(1001)] + ["0"])
    assert (len(state), state["0"]) == (1000, 2)


def test_count_distinct_is_close() -> None:
    call = resolve("COUNT_DISTINCT", INTEGER)
    assert call.accumulator.finish(run(call, range(500))) == pytest.approx(500, rel=0.02)
    assert len(json.dumps(run(call, range(10)))) < 200


@pytest.mark.parametrize(
    ("name", "types", "literals"),
    [
        ("MIN", [BOOLEAN], ()),
        ("SUM", [STRING], ()),
        ("AVG", [BOOLEAN], ()),
        ("TOPK", [INTEGER], (0,)),
        ("LATEST_BY_OFFSET", [INTEGER], (0,)),
        ("TOPK", [BOOLEAN], (1,)),
        ("HISTOGRAM", [INTEGER], ()),
    ],
)
def test_arguments_that_do_not_fit_are_refused(name: Any, types: Any, literals: Any) -> None:
    with pytest.raises(SqlStatementError):
        resolve(name, *types, literals=literals)


def test_trailing_arguments_must_be_literals() -> None:
    with pytest.raises(SqlStatementError, match="Parameter 2 passed to function TOPK must be a literal constant"):
        resolve("TOPK", INTEGER, INTEGER)
    with pytest.raises(SqlStatementError, match="must not be NULL"):
        resolve_aggregate(
            "EARLIEST_BY_OFFSET", [TypedArgument(INTEGER), TypedArgument(INTEGER, 2), TypedArgument(None, None)]
        )


def test_table_functions() -> None:
    cube = resolve_table("CUBE_EXPLODE", [TypedArgument(ArrayType(INTEGER))])
    assert cube.result == ArrayType(INTEGER)
    assert cube.call([1, None]) == [[None, None], [1, None]]
    assert resolve_table("EXPLODE", [TypedArgument(ArrayType(STRING))]).call([]) == []
    with pytest.raises(ValueError, match="at most 16"):
        cube.call([1] * 17)
