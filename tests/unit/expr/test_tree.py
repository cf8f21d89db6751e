"""Building trees, their text, and trees that cannot be built."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest

from millstream.errors import ExpressionError
from millstream.expr import (
    Expr,
    agg,
    array,
    call,
    col,
    functions as f,
    key,
    left,
    lit,
    right,
    roles_of,
    struct,
    timestamp,
    value,
    when,
)
from millstream.expr.tree import Call, Literal, Root, Struct

a, b = col("a"), col("b")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (a * 2, "a * 2"),
        ((a + 1) * 2, "(a + 1) * 2"),
        (a + b * 2, "a + b * 2"),
        (a - (b - 1), "a - (b - 1)"),
        (a - b - 1, "a - b - 1"),
        (2 / a, "2 / a"),
        (7 // a % 2, "7 // a % 2"),
        (2**a, "power(2, a)"),
        (a**2, "power(a, 2)"),
        (a.abs(), "abs(a)"),
        (a.lower().replace("x", "y"), "replace(lower(a), 'x', 'y')"),
        (a.contains("x") | a.starts_with("y"), "contains(a, 'x') OR starts_with(a, 'y')"),
        (False | a.ends_with("x"), "FALSE OR ends_with(a, 'x')"),
        (-a, "-a"),
        (-(a + 1), "-(a + 1)"),
        (a - lit(-1), "a - -1"),
        (abs(a), "abs(a)"),
        ((a > 1) & (b <= 2) | ~(a == b), "a > 1 AND b <= 2 OR NOT a = b"),
        ((a > 1) & ((b < 2) | (b != 3)), "a > 1 AND (b < 2 OR b <> 3)"),
        (~(a & b), "NOT (a AND b)"),
        ((a == b) == True, "(a = b) = TRUE"),  # noqa: E712
        (a.is_null() | a.is_not_null(), "a IS NULL OR a IS NOT NULL"),
        (a.in_(1, 2), "a IN (1, 2)"),
        (a.in_([1, "x"]), "a IN (1, 'x')"),
        (a.in_({3, 1, 2}), "a IN (1, 2, 3)"),
        (a.in_([]), "FALSE"),
        (a.between(1, b + 1), "a BETWEEN 1 AND b + 1"),
        (a.like("x%"), "a LIKE 'x%'"),
        (f.like(a, "x!%", "!"), "like(a, 'x!%', '!')"),
        (a.is_distinct_from(None), "a IS DISTINCT FROM NULL"),
        (a.cast("decimal(4, 2)"), "CAST(a AS DECIMAL(4, 2))"),
        (when(a > 3, "big").otherwise("small"), "CASE WHEN a > 3 THEN 'big' ELSE 'small' END"),
        (when(a > 3, 1).when(a > 2, 2), "CASE WHEN a > 3 THEN 1 WHEN a > 2 THEN 2 END"),
        (col("a.b"), "a.b"),
        (value()["a.b"], "`a.b`"),
        (col("key"), "`key`"),
        (key(), "key"),
        (key("id"), "key.id"),
        (value(), "value"),
        (timestamp(), "timestamp"),
        (left("x") + right("y"), "left.x + right.y"),
        (agg()["n"], "agg.n"),
        (a[0], "a[0]"),
        (a[b]["c"], "a[b].c"),
        ((a + b)["c"], "(a + b).c"),
        (struct(x=a, y=array(1, 2)), "STRUCT(x := a, y := ARRAY[1, 2])"),
        (a.upper().trim(), "trim(upper(a))"),
        (a.substring(2), "substring(a, 2)"),
        (a.substring(2, 3), "substring(a, 2, 3)"),
        (a.round(), "round(a, 0)"),
        (a.fill_null(0), "ifnull(a, 0)"),
        (call("UPPER", a), "upper(a)"),
        (f.try_(1 / a), "try(1 / a)"),
        (lit("it's"), "'it''s'"),
        (lit(None), "NULL"),
        (lit(b"\xff"), "X'ff'"),
        (lit(Decimal("1.20")), "DECIMAL '1.20'"),
        (lit(1.5), "1.5"),
        (lit(datetime(2024, 1, 2, tzinfo=UTC)), "CAST('2024-01-02T00:00:00.000' AS TIMESTAMP)"),
        (lit(date(2024, 1, 2)), "CAST('2024-01-02' AS DATE)"),
        (lit(time(10, 30)), "CAST('10:30:00' AS TIME)"),
        (lit(timedelta(seconds=2)), "2000"),
        (lit([1, None]), "ARRAY[1, NULL]"),
        (lit({"x": 1}), "STRUCT(x := 1)"),
    ],
)
def test_expressions_print_as_sql(expr: Expr, text: str) -> None:
    assert str(expr) == text
    assert repr(expr) == f"<expression {text}>"


@pytest.mark.parametrize(
    ("reflected", "plain"),
    [
        (1 + a, "1 + a"),
        (1 - a, "1 - a"),
        (2 * a, "2 * a"),
        (7 % a, "7 % a"),
        (a > 1, "a > 1"),
        (True & a, "TRUE AND a"),
    ],
)
def test_constants_can_be_on_the_left(reflected: Expr, plain: str) -> None:
    assert str(reflected) == plain


def test_an_enum_member_is_its_value() -> None:
    class Colour(Enum):
        RED = "red"

    assert str(a == Colour.RED) == "a = 'red'"


def test_values_of_scalar_subclasses_become_plain_literals() -> None:
    class Text(str):
        __slots__ = ()

    literal = lit(Text("x"))
    assert isinstance(literal, Literal)
    assert type(literal.value) is str


def test_expressions_have_no_truth_value() -> None:
    with pytest.raises(ExpressionError, match="has no truth value") as caught:
        bool(a > 1)
    assert "use & | ~ instead of and/or/not" in str(caught.value.hint)
    with pytest.raises(ExpressionError):
        _ = 1 < a < 3


def test_expressions_are_not_sequences() -> None:
    with pytest.raises(TypeError, match="cannot be iterated"):
        list(a)
    with pytest.raises(TypeError, match=r"use \.in_"):
        _ = 1 in a


@pytest.mark.parametrize("compare", [lambda: a == None, lambda: a != None, lambda: a < None])  # noqa: E711
def test_a_comparison_with_none_is_refused(compare: Any) -> None:
    with pytest.raises(ExpressionError, match="is null for every record") as caught:
        compare()
    assert caught.value.hint == "use is_null() or is_not_null()"


def test_objects_without_a_literal_form_are_refused() -> None:
    with pytest.raises(ExpressionError, match="a function cannot be part of an expression") as caught:
        when(a > 1, lambda: 1)
    assert "cannot call a Python function" in str(caught.value.hint)
    with pytest.raises(ExpressionError, match="a slice cannot be part"):
        a[1:2]
    with pytest.raises(ExpressionError, match="more than 64 bits"):
        lit(1 << 63)
    with pytest.raises(ExpressionError, match="a list cannot be a literal"):
        Literal([])  # type: ignore[arg-type]


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(ExpressionError, match="there is no function 'uper'") as function:
        call("uper", a)
    assert function.value.hint == "did you mean 'upper'?"
    with pytest.raises(ExpressionError, match="there is no role 'valeu'") as role:
        Root("valeu")
    assert role.value.hint == "did you mean 'value'?"
    with pytest.raises(AttributeError, match=r"there is no function 'uper'; did you mean 'upper'\?"):
        _ = f.uper
    assert not hasattr(f, "no_such_thing_at_all")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (f.upper, r"upper takes other arguments than the 0 given: upper\(text: string\)"),
        (lambda: f.upper(a, b), "than the 2 given"),
        (lambda: f.substring(a), "than the 1 given"),
        (f.coalesce, "than the 0 given"),
        (lambda: f.date_trunc("huor", a), "cannot use 'huor' as its unit: .*did you mean 'hour'"),
        (lambda: f.extract("century", a), "unknown part of time 'century'; there are year"),
        (lambda: f.regexp_like(a, "("), "cannot use '\\(' as its pattern"),
        (lambda: f.format_timestamp(a, "%Y", "Europe/Atlantis"), "unknown time zone 'Europe/Atlantis'"),
        (lambda: f.json_extract(a, "x["), "cannot read the JSON path"),
        (lambda: f.to_bytes(a, "rot13"), "unknown encoding 'rot13'"),
        (lambda: when(a, 1).otherwise(2).otherwise(3), "has an otherwise"),
        (lambda: when(a, 1).otherwise(2).when(b, 3), "put when\\(\\) before it"),
        (lambda: Struct((("x", a), ("x", b))), "has a field twice"),
        (lambda: col(""), "the name of a field is a text"),
        (lambda: col("a..b"), "the name of a field is a text"),
    ],
)
def test_mistakes_are_found_when_the_tree_is_built(build: Any, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        build()


def test_trees_are_compared_by_same_as() -> None:
    assert (a + 1).same_as(col("a") + 1)
    assert not (a + 1).same_as(a + 2)
    assert not lit(1).same_as(lit(True))
    assert not lit(1).same_as(lit(1.0))


def test_trees_hash_by_identity() -> None:
    first, second = a + 1, a + 1
    assert {first: 1, second: 2} == {first: 1, second: 2}
    assert len({first, second}) == 2


def test_trees_can_be_copied_and_pickled() -> None:
    tree = when(col("x.y") > 1, struct(n=lit(b"\x00"))).otherwise(None).cast("string")
    assert pickle.loads(pickle.dumps(tree)).same_as(tree)
    assert copy.deepcopy(tree).same_as(tree)


def test_trees_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="a Root cannot be changed"):
        key().role = "value"
    with pytest.raises(AttributeError, match="a Root cannot be changed"):
        del key().role  # type: ignore[attr-defined]


def test_nodes_take_their_fields_by_position_or_name() -> None:
    assert Call(function="upper", args=(a,)).same_as(a.upper())
    with pytest.raises(TypeError, match="is missing its field args"):
        Call("upper")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="has 2 fields, not 3"):
        Call("upper", (a,), 1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Call has no 'argument'"):
        Call("upper", (a,), argument=1)  # type: ignore[call-arg]


def test_roles_of_returns_the_roles_that_a_tree_reads() -> None:
    tree = when(key() == "a", left("x")).otherwise(struct(y=right("y"), n=agg() + 1, at=timestamp()))
    assert roles_of(tree) == {"key", "left", "right", "agg", "timestamp"}
    assert roles_of(lit(1)) == frozenset()
