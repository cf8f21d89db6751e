"""Compiles bound expressions to Python functions of many rows, which evaluate one operator for all rows at once.

Such a function has no other effects than its result. It raises if the expression fails for one of the rows; then
`guarded_columns` evaluates the rows one by one with the functions of `closures`, which report errors. So both give the
same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import compress, repeat
from operator import itemgetter
from typing import Any

from millstream.sql.binder import bound
from millstream.sql.closures import NullOperandError, Report, Row, guarded, log_error
from millstream.sql.functions.arithmetic import for_columns

Rows = Sequence[Row]
RunAll = Callable[[Rows], list[Any]]


def guarded_columns(expression: bound.Bound, what: str, otherwise: Any = None, report: Report = log_error) -> RunAll:
    """Returns the function of rows that evaluates an expression; an error is reported, and gives ``otherwise``."""
    run, run_all = guarded(expression, what, otherwise, report), compile_columns(expression)
    if run_all is None:
        return lambda rows: list(map(run, rows))

    def evaluate(rows: Rows) -> list[Any]:
        with suppress(Exception):
            values = run_all(rows)
            if len(values) == len(rows):  # a StopIteration of a function ends a `map`
                return values
        return list(map(run, rows))

    return evaluate


def compile_columns(expression: bound.Bound) -> RunAll | None:
    """Returns the function of rows that evaluates an expression, without a guard; None if it needs single rows."""
    compiler = _COMPILERS.get(type(expression))
    return None if compiler is None else compiler(expression)


def _constant(expression: bound.Constant) -> RunAll:
    value = expression.value
    return lambda rows: [value] * len(rows)


def _column(expression: bound.ColumnValue) -> RunAll:
    get = itemgetter(expression.name)
    return lambda rows: list(map(get, rows))


def _apply(expression: bound.Apply) -> RunAll | None:
    if not expression.deterministic or not expression.operands:
        return None
    converters = expression.converters or (None,) * len(expression.operands)
    operands: list[RunAll] = []
    for operand, convert in zip(expression.operands, converters, strict=True):
        run_all = compile_columns(operand)
        if run_all is None:
            return None
        operands.append(run_all if convert is None else _converted(run_all, convert))
    if expression.nulls == "see":
        call_all = for_columns(expression.call)
        return lambda rows: call_all(*[run_all(rows) for run_all in operands])
    last = expression.operands[-1]
    if len(operands) == 2 and converters[-1] is None and isinstance(last, bound.Constant) and last.value is not None:
        return _with_constant(expression, operands[0], last.value)
    return _with_nulls(expression, operands)


def _converted(run_all: RunAll, convert: Callable[[Any], Any]) -> RunAll:
    return lambda rows: [None if value is None else convert(value) for value in run_all(rows)]


def _with_constant(expression: bound.Apply, run_all: RunAll, constant: Any) -> RunAll:
    call, call_all, default = expression.call, for_columns(expression.call), _default(expression)
    raises, name = expression.nulls == "raise", expression.name

    def evaluate(rows: Rows) -> list[Any]:
        values = run_all(rows)
        if None not in values:
            return call_all(values, repeat(constant))
        if raises:
            raise NullOperandError(f"an operand of {name} is null")
        return [default if value is None else call(value, constant) for value in values]

    return evaluate


def _with_nulls(expression: bound.Apply, operands: Sequence[RunAll]) -> RunAll:
    call, call_all, default = expression.call, for_columns(expression.call), _default(expression)
    raises, name = expression.nulls == "raise", expression.name

    def evaluate(rows: Rows) -> list[Any]:
        columns = [run_all(rows) for run_all in operands]
        if not any(None in column for column in columns):
            return call_all(*columns)
        if raises:
            raise NullOperandError(f"an operand of {name} is null")
        return [default if None in values else call(*values) for values in zip(*columns, strict=True)]

    return evaluate


def _default(expression: bound.Apply) -> Any:
    return False if expression.nulls == "false" else None


def _conversion(expression: bound.Conversion) -> RunAll | None:
    run_all = compile_columns(expression.operand)
    return None if run_all is None else _converted(run_all, expression.convert)


def _field(expression: bound.FieldValue) -> RunAll | None:
    run_all = compile_columns(expression.operand)
    return None if run_all is None else _converted(run_all, itemgetter(expression.field))


def _truths(values: Iterable[Any], operator: str) -> list[bool]:
    truths = list(values)
    if None in truths:
        raise NullOperandError(f"an operand of {operator} is null")
    return list(map(bool, truths))


def _junction(expression: bound.Junction) -> RunAll | None:
    """The right operand is evaluated only for the rows that need it."""
    left, right = compile_columns(expression.left), compile_columns(expression.right)
    if left is None or right is None:
        return None
    operator, decided = expression.operator, expression.operator == "OR"

    def evaluate(rows: Rows) -> list[Any]:
        truths = _truths(left(rows), operator)
        needed = [not truth for truth in truths] if decided else truths
        rest = iter(_truths(right(list(compress(rows, needed))), operator))
        return [next(rest) if need else decided for need in needed]

    return evaluate


def _negation(expression: bound.Negation) -> RunAll | None:
    run_all = compile_columns(expression.operand)
    return None if run_all is None else lambda rows: [not truth for truth in _truths(run_all(rows), "NOT")]


def _null_test(expression: bound.NullTest) -> RunAll | None:
    run_all, negated = compile_columns(expression.operand), expression.negated
    return None if run_all is None else lambda rows: [(value is None) is not negated for value in run_all(rows)]


_COMPILERS: Mapping[type[bound.Bound], Callable[[Any], RunAll | None]] = {
    bound.Constant: _constant,
    bound.ColumnValue: _column,
    bound.Apply: _apply,
    bound.Conversion: _conversion,
    bound.FieldValue: _field,
    bound.Junction: _junction,
    bound.Negation: _negation,
    bound.NullTest: _null_test,
}
