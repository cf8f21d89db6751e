"""Three-valued logic and nulls."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from millstream.expr import Expr, col, compile_expr, evaluate, functions as f, lit, when
from millstream.expr.catalog import CATALOG
from millstream.expr.tree import Call

T, F, N = True, False, None
VALUES = [T, F, N]


def ways(build: Any, *operands: Any) -> list[Any]:
    """Returns the results with operands as constants, as fields of a dict, and mixed: each is compiled differently."""
    row = {f"x{i}": operand for i, operand in enumerate(operands)}
    fields = [col(name) for name in row]
    constants = [lit(operand) for operand in operands]
    shapes = itertools.product(*zip(fields, constants, strict=True))
    return [evaluate(build(*shape), value=row) for shape in shapes]


@pytest.mark.parametrize(
    ("a", "b", "conjunction", "disjunction"),
    [
        (T, T, T, T),
        (T, F, F, T),
        (T, N, N, T),
        (F, T, F, T),
        (F, F, F, F),
        (F, N, F, N),
        (N, T, N, T),
        (N, F, F, N),
        (N, N, N, N),
    ],
)
def test_and_and_or(a: Any, b: Any, conjunction: Any, disjunction: Any) -> None:
    for result in ways(lambda x, y: x & y, a, b):
        assert result is conjunction
    for result in ways(lambda x, y: x | y, a, b):
        assert result is disjunction
    # The functions of the catalog, for other backends, have the same results as the lazy closures.
    assert CATALOG["and"].implementation(a, b) is conjunction
    assert CATALOG["or"].implementation(a, b) is disjunction


@pytest.mark.parametrize(("a", "result"), [(T, F), (F, T), (N, N)])
def test_not(a: Any, result: Any) -> None:
    assert all(actual is result for actual in ways(lambda x: ~x, a))


@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "//", "%"])
@pytest.mark.parametrize("operands", [(1, None), (None, 1), (None, None)])
def test_operators_return_null_for_null(operator: str, operands: tuple[Any, Any]) -> None:
    assert ways(lambda x, y: Call(operator, (x, y)), *operands) == [None] * 4


@pytest.mark.parametrize(
    ("x", "options", "result"),
    [
        (1, (1, 2), T),
        (3, (1, 2), F),
        (1, (1, None), T),
        (3, (1, None), N),
        (None, (1, 2), N),
        (1.0, (1, 2), T),
        ("a", ("b", "a"), T),
    ],
)
def test_in(x: Any, options: tuple[Any, ...], result: Any) -> None:
    for actual in ways(lambda e, *rest: e.in_(*rest), x, *options):
        assert actual is result


@pytest.mark.parametrize(
    ("operands", "result"),
    [
        ((2, 1, 3), T),
        ((1, 1, 1), T),
        ((4, 1, 3), F),
        ((4, None, 3), F),
        ((2, None, 3), N),
        ((0, 1, None), F),
        ((None, 1, 2), N),
    ],
)
def test_between(operands: tuple[Any, ...], result: Any) -> None:
    for actual in ways(lambda x, low, high: x.between(low, high), *operands):
        assert actual is result


@pytest.mark.parametrize(("a", "b", "result"), [(1, 1, F), (1, 2, T), (1, N, T), (N, 1, T), (N, N, F)])
def test_is_distinct_from(a: Any, b: Any, result: Any) -> None:
    assert all(actual is result for actual in ways(lambda x, y: x.is_distinct_from(y), a, b))


@pytest.mark.parametrize(
    ("expr", "result"),
    [
        (f.is_null(None), True),
        (lit(None).is_not_null(), False),
        (f.coalesce(None, None), None),
        (f.coalesce(None, 0, 1), 0),
        (f.ifnull(None, 1), 1),
        (f.ifnull(0, 1), 0),
        (f.nullif(None, 1), None),
        (f.nullif(1, None), 1),
        (f.nullif(1, 1), None),
        (f.greatest(None, 2, 1), 2),
        (f.least(None, 2, 1), 1),
        (f.greatest(None, None), None),
        (f.least("b", "a"), "a"),
    ],
)
def test_functions_of_nulls(expr: Expr, result: Any) -> None:
    assert evaluate(expr) == result


def test_a_case_takes_the_first_condition_that_is_true() -> None:
    size = compile_expr(when(col("n") > 10, "big").when(col("n") > 5, "middle").otherwise("small"), ("value",))
    assert [size({"n": n}) for n in (20, 7, 1, None)] == ["big", "middle", "small", "small"]
    assert evaluate(when(lit(None), 1)) is None


def test_operands_that_are_not_needed_are_not_evaluated() -> None:
    fails = 1 / col("zero")
    row = {"zero": 0, "n": 1}
    assert evaluate((col("n") == 2) & (fails > 1), value=row) is False
    assert evaluate((col("n") == 1) | (fails > 1), value=row) is True
    assert evaluate(f.coalesce(col("n"), fails), value=row) == 1
    assert evaluate(f.ifnull(col("n"), fails), value=row) == 1
    assert evaluate(when(col("n") == 1, 5).otherwise(fails), value=row) == 5
    assert evaluate(when(col("n") == 2, fails).when(col("n") == 1, 6).otherwise(fails), value=row) == 6


def test_other_values_are_used_by_their_truth_value() -> None:
    row = {"one": 1, "zero": 0, "text": "x"}
    assert evaluate(col("one") & col("text"), value=row) is True
    assert evaluate(col("one") & col("zero"), value=row) is False
    assert evaluate(col("zero") | col("text"), value=row) is True
    assert evaluate(~col("zero"), value=row) is True
