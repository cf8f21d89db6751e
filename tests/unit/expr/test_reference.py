"""Random trees: the compiled functions agree with a naive interpreter of plain data, which shares no code with them."""

from __future__ import annotations

import json
import operator
from dataclasses import make_dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st

from millstream.errors import ExpressionError
from millstream.expr import (
    BIGINT,
    BOOLEAN,
    STRING,
    Expr,
    StructType,
    array,
    col,
    compile_expr,
    from_dict,
    functions as f,
    key,
    lit,
    struct,
    to_dict,
    type_of,
    value,
    when,
)

ARITHMETIC: list[Any] = [operator.add, operator.sub, operator.mul]
COMPARISONS: list[Any] = [operator.eq, operator.ne, operator.lt, operator.ge]
SCHEMA = StructType((("n", BIGINT), ("m", BIGINT), ("flag", BOOLEAN), ("name", STRING)))

small = st.integers(-5, 5)
words = st.text("abC% '", max_size=4)
rows = st.fixed_dictionaries(
    {},
    optional={"n": st.none() | small, "m": st.none() | small, "flag": st.none() | st.booleans(), "name": words},
)


def choices(of: st.SearchStrategy[Expr], conditions: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    def build(branches: list[tuple[Expr, Expr]], default: Expr | None) -> Expr:
        case = when(*branches[0])
        for branch in branches[1:]:
            case = case.when(*branch)
        return case if default is None else case.otherwise(default)

    return st.builds(build, st.lists(st.tuples(conditions, of), min_size=1, max_size=2), st.none() | of)


numbers: st.SearchStrategy[Expr] = st.deferred(
    lambda: st.one_of(
        st.sampled_from([col("n"), col("m"), key()]),
        (st.none() | small).map(lit),
        st.builds(lambda op, a, b: op(a, b), st.sampled_from(ARITHMETIC), numbers, numbers),
        numbers.map(lambda a: -a),
        strings.map(lambda a: a.length()),
        st.lists(numbers, min_size=1, max_size=3).map(lambda args: f.coalesce(*args)),
        st.builds(f.nullif, numbers, numbers),
        st.lists(numbers, min_size=1, max_size=3).map(lambda args: f.greatest(*args)),
        choices(numbers, booleans),
    )
)
strings: st.SearchStrategy[Expr] = st.deferred(
    lambda: st.one_of(
        st.just(col("name")),
        (st.none() | words).map(lit),
        st.builds(lambda a, b: a + b, strings, strings),
        strings.map(lambda a: a.upper()),
        numbers.map(lambda a: a.cast("string")),
        st.lists(strings, min_size=1, max_size=3).map(lambda args: f.concat(*args)),
        choices(strings, booleans),
    )
)
booleans: st.SearchStrategy[Expr] = st.deferred(
    lambda: st.one_of(
        st.just(col("flag")),
        (st.none() | st.booleans()).map(lit),
        st.builds(lambda op, a, b: op(a, b), st.sampled_from(COMPARISONS), numbers, numbers),
        st.builds(lambda op, a, b: op(a, b), st.sampled_from(COMPARISONS), strings, strings),
        st.builds(lambda a, b: a & b, booleans, booleans),
        st.builds(lambda a, b: a | b, booleans, booleans),
        booleans.map(lambda a: ~a),
        (numbers | strings).map(lambda a: a.is_null()),
        st.builds(lambda a, b: a.is_distinct_from(b), numbers, numbers),
        st.builds(lambda a, options: a.in_(*options), numbers, st.lists(numbers, min_size=1, max_size=3)),
        st.builds(lambda a, low, high: a.between(low, high), numbers, numbers, numbers),
    )
)
exprs = numbers | strings | booleans | st.builds(lambda a, b: struct(a=a, b=array(b)), numbers, strings)


def both(a: Any, b: Any) -> Any:
    return False if False in (a, b) else None if None in (a, b) else True


def either(a: Any, b: Any) -> Any:
    return True if True in (a, b) else None if None in (a, b) else False


STRICT: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "negative": lambda a: -a,
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "not": lambda a: not a,
    "upper": lambda a: a.upper(),
    "length": len,
}


def naive(tree: dict[str, Any], roles: dict[str, Any]) -> Any:
    """Evaluates a tree in the simplest possible way."""
    if "root" in tree:
        return roles[tree["root"]]
    if "field" in tree:
        base = naive(tree["of"], roles)
        return None if base is None else base.get(tree["field"])
    if "literal" in tree:
        return tree["literal"]
    if "cast" in tree:
        operand = naive(tree["cast"], roles)
        return None if operand is None else str(operand)
    if "struct" in tree:
        return {name: naive(field, roles) for name, field in tree["struct"]}
    if "case" in tree:
        for condition, result in tree["case"]:
            if naive(condition, roles) is True:
                return naive(result, roles)
        return None if tree["else"] is None else naive(tree["else"], roles)
    return naive_call(tree["call"], [naive(arg, roles) for arg in tree["args"]])


def naive_in(x: Any, *options: Any) -> Any:
    result: Any = False
    for option in options:
        result = either(result, naive_call("=", [x, option]))
    return result


SEEING_NULLS: dict[str, Any] = {
    "and": both,
    "or": either,
    "coalesce": lambda *args: next((a for a in args if a is not None), None),
    "greatest": lambda *args: max((a for a in args if a is not None), default=None),
    "concat": lambda *args: "".join(a for a in args if a is not None),
    "array": lambda *args: list(args),
    "is_null": lambda a: a is None,
    "is_distinct_from": lambda a, b: a != b,
    "nullif": lambda a, b: None if a == b else a,
    "between": lambda x, low, high: both(naive_call(">=", [x, low]), naive_call(">=", [high, x])),
    "in": naive_in,
}


def naive_call(name: str, args: list[Any]) -> Any:
    if name in SEEING_NULLS:
        return SEEING_NULLS[name](*args)
    return None if None in args else STRICT[name](*args)


@given(exprs, rows, st.none() | small)
def test_compiled_trees_agree_with_the_interpreter(expr: Expr, row: dict[str, Any], record_key: int | None) -> None:
    expected = naive(to_dict(expr), {"key": record_key, "value": row})
    assert compile_expr(expr, ("key", "value"))(record_key, row) == expected
    assert compile_expr(expr, ("value", "timestamp", "key"))(row, 0, record_key) == expected


@given(exprs, rows, st.none() | small)
def test_schemas_and_objects_do_not_change_the_result(expr: Expr, row: dict[str, Any], record_key: int | None) -> None:
    types = {"key": BIGINT, "value": SCHEMA}
    full = {name: row.get(name) for name, _ in SCHEMA.fields}
    record = make_dataclass("Row", list(full), slots=True)(**full)
    expected = compile_expr(expr, ("key", "value"))(record_key, row)
    assert compile_expr(expr, ("key", "value"), types)(record_key, record) == expected


@given(exprs)
def test_trees_round_trip_as_plain_data(expr: Expr) -> None:
    stored = json.dumps(to_dict(expr))
    assert from_dict(json.loads(stored)).same_as(expr)
    assert from_dict(json.loads(json.dumps(to_dict(expr), sort_keys=True))).same_as(expr)
    assert json.dumps(to_dict(from_dict(json.loads(stored)))) == stored


@given(exprs)
def test_every_tree_prints_and_has_a_type(expr: Expr) -> None:
    assert str(expr)
    type_of(expr, {"key": BIGINT, "value": SCHEMA})


@pytest.mark.parametrize(
    "scalar",
    [
        None,
        True,
        1,
        -(1 << 63),
        1.0,
        -0.0,
        float("inf"),
        float("nan"),
        "é'\0",
        b"\x00\xff",
        Decimal("1.20"),
        Decimal("1E+5"),
    ],
)
def test_every_literal_round_trips_as_plain_data(scalar: Any) -> None:
    tree = from_dict(json.loads(json.dumps(to_dict(lit(scalar)), allow_nan=False)))
    assert tree.same_as(lit(scalar))


def test_all_other_nodes_round_trip_as_plain_data() -> None:
    tree = struct(a=value()["x"][0].cast("array<decimal(4, 2)>"), b=f.date_trunc("hour", 5))
    assert from_dict(to_dict(tree)).same_as(tree)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"nothing": 1},
        {"literal": [1]},
        {"call": "+", "args": [{"literal": 1}]},
        {"call": "no_such", "args": []},
        {"call": "upper"},
        {"field": "a"},
        {"field": 5, "of": {"root": "value"}},
        {"root": "nowhere"},
        {"root": ["value"]},
        {"cast": {"literal": 1}, "to": "no_type"},
        {"case": [], "else": None},
        {"decimal": "x"},
        {"bytes": "zz"},
        [],
        "text",
        None,
    ],
)
def test_data_that_is_not_a_tree_is_refused(data: Any) -> None:
    with pytest.raises(ExpressionError):
        from_dict(data)
