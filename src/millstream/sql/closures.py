"""Compiles bound expressions to Python functions of a row.

A row is a dict of columns by name. An error in an isolated operand (`Bound.isolated`) becomes a null, and so does an
error in an element of a constructor. Every other error reaches the caller: `guarded` makes it a null or false, and
reports it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from millstream.sql.binder import bound

Row = dict[str, Any]
Run = Callable[[Row], Any]
Report = Callable[[str, Exception], None]

_LOG = logging.getLogger("millstream.sql.processing")
_PARAMETER = "=>"  # the prefix of parameters of lambdas in a row: names of columns do not begin with it


class NullOperandError(ArithmeticError):
    """An operator that needs values was given a null."""


def log_error(what: str, error: Exception) -> None:
    """Writes the error of an expression to the processing log."""
    _LOG.info("%s: %s: %s", what, type(error).__name__, error)


def compile_bound(expression: bound.Bound) -> Run:
    """Returns the function of a row that evaluates an expression, without a guard."""
    return _COMPILERS[type(expression)](expression)


def guarded(expression: bound.Bound, what: str, otherwise: Any = None, report: Report = log_error) -> Run:
    """Returns the function of a row that evaluates an expression; an error is reported, and gives ``otherwise``."""
    if isinstance(expression, bound.ColumnValue):
        return _column(expression)
    run = compile_bound(expression)

    def evaluate(row: Row) -> Any:
        try:
            return run(row)
        except Exception as error:  # noqa: BLE001  (every error of an expression gives a null)
            report(what, error)
            return otherwise

    return evaluate


def _isolated(expression: bound.Bound) -> Run:
    return guarded(expression, "operand") if expression.isolated else compile_bound(expression)


def _constant(expression: bound.Constant) -> Run:
    value = expression.value
    return lambda _row: value


def _column(expression: bound.ColumnValue) -> Run:
    return itemgetter(expression.name)


def _parameter(expression: bound.ParameterValue) -> Run:
    name = _PARAMETER + expression.name
    return lambda row: row[name]


def _lambda(expression: bound.LambdaValue) -> Run:
    names = [_PARAMETER + name for name in expression.parameters]
    body = compile_bound(expression.body)

    def close(row: Row) -> Callable[..., Any]:
        inner = dict(row)

        def call(*arguments: Any) -> Any:
            inner.update(zip(names, arguments, strict=True))
            return body(inner)

        return call

    return close


def _apply(expression: bound.Apply) -> Run:
    operand = _isolated if expression.is_function else compile_bound
    operands: list[Run] = [operand(item) for item in expression.operands]
    converters = expression.converters or (None,) * len(operands)
    runs = [
        run if convert is None else _converted(run, convert) for run, convert in zip(operands, converters, strict=True)
    ]
    # The last operand if it is a constant that is used as it is.
    last = expression.operands[-1] if converters and converters[-1] is None else None
    if expression.nulls == "see":
        return _seeing(expression.call, runs)
    if expression.nulls == "raise":
        return _raising(expression.call, runs, expression.name, last)
    default = False if expression.nulls == "false" else None
    if len(runs) == 2 and isinstance(last, bound.Constant) and last.value is not None:
        return _with_constant(expression.call, runs[0], last.value, default)
    return _with_default(expression.call, runs, default)


def _converted(run: Run, convert: Callable[[Any], Any]) -> Run:
    def evaluate(row: Row) -> Any:
        value = run(row)
        return None if value is None else convert(value)

    return evaluate


def _seeing(call: Callable[..., Any], runs: Sequence[Run]) -> Run:
    if len(runs) == 1:
        (only,) = runs
        return lambda row: call(only(row))
    return lambda row: call(*[run(row) for run in runs])


def _raising(call: Callable[..., Any], runs: Sequence[Run], name: str, last: bound.Bound | None) -> Run:
    if len(runs) == 2 and isinstance(last, bound.Constant) and last.value is not None:
        (first, _), constant = runs, last.value

        def with_constant(row: Row) -> Any:
            value = first(row)
            if value is None:
                raise NullOperandError(f"an operand of {name} is null")
            return call(value, constant)

        return with_constant
    if len(runs) == 2:
        left, right = runs

        def binary(row: Row) -> Any:
            a, b = left(row), right(row)
            if a is None or b is None:
                raise NullOperandError(f"an operand of {name} is null")
            return call(a, b)

        return binary

    def evaluate(row: Row) -> Any:
        values = [run(row) for run in runs]
        if None in values:
            raise NullOperandError(f"an operand of {name} is null")
        return call(*values)

    return evaluate


def _with_constant(call: Callable[..., Any], run: Run, constant: Any, default: Any) -> Run:
    def evaluate(row: Row) -> Any:
        value = run(row)
        return default if value is None else call(value, constant)

    return evaluate


def _with_default(call: Callable[..., Any], runs: Sequence[Run], default: Any) -> Run:
    if len(runs) == 1:
        (only,) = runs

        def unary(row: Row) -> Any:
            value = only(row)
            return default if value is None else call(value)

        return unary
    if len(runs) == 2:
        left, right = runs

        def binary(row: Row) -> Any:
            a, b = left(row), right(row)
            return default if a is None or b is None else call(a, b)

        return binary

    def evaluate(row: Row) -> Any:
        values = [run(row) for run in runs]
        return default if any(value is None for value in values) else call(*values)

    return evaluate


def _conversion(expression: bound.Conversion) -> Run:
    run, convert = compile_bound(expression.operand), expression.convert

    def evaluate(row: Row) -> Any:
        try:
            value = run(row)
            return None if value is None else convert(value)
        except Exception as error:  # noqa: BLE001  (likewise)
            log_error("CAST", error)
            return None

    return evaluate


def _field(expression: bound.FieldValue) -> Run:
    run, name = compile_bound(expression.operand), expression.field

    def evaluate(row: Row) -> Any:
        value = run(row)
        return None if value is None else value[name]

    return evaluate


def _truth(value: Any, operator: str) -> bool:
    if value is None:
        raise NullOperandError(f"an operand of {operator} is null")
    return bool(value)


def _junction(expression: bound.Junction) -> Run:
    left, right = compile_bound(expression.left), compile_bound(expression.right)
    if expression.operator == "AND":
        return lambda row: _truth(left(row), "AND") and _truth(right(row), "AND")
    return lambda row: _truth(left(row), "OR") or _truth(right(row), "OR")


def _negation(expression: bound.Negation) -> Run:
    run = compile_bound(expression.operand)
    return lambda row: not _truth(run(row), "NOT")


def _null_test(expression: bound.NullTest) -> Run:
    run = compile_bound(expression.operand)
    if expression.negated:
        return lambda row: run(row) is not None
    return lambda row: run(row) is None


def _choice(expression: bound.Choice) -> Run:
    branches = [(compile_bound(when), compile_bound(then)) for when, then in expression.branches]
    default = compile_bound(expression.default)

    def evaluate(row: Row) -> Any:
        for when, then in branches:
            if when(row):
                return then(row)
        return default(row)

    return evaluate


def _element(constructor: bound.Constructor, element: bound.Bound, what: str) -> Run:
    return guarded(element, what) if constructor.isolates else compile_bound(element)


def _array(expression: bound.MakeArray) -> Run:
    items = [_element(expression, item, "ARRAY element") for item in expression.items]
    return lambda row: [item(row) for item in items]


def _map(expression: bound.MakeMap) -> Run:
    entries = [
        (_element(expression, key, "MAP key"), _element(expression, value, "MAP value"))
        for key, value in expression.entries
    ]
    return lambda row: {key(row): value(row) for key, value in entries}


def _struct(expression: bound.MakeStruct) -> Run:
    fields = [(name, _element(expression, value, f"STRUCT field {name}")) for name, value in expression.fields]
    return lambda row: {name: value(row) for name, value in fields}


_COMPILERS: Mapping[type[bound.Bound], Callable[[Any], Run]] = {
    bound.Constant: _constant,
    bound.ColumnValue: _column,
    bound.ParameterValue: _parameter,
    bound.LambdaValue: _lambda,
    bound.Apply: _apply,
    bound.Conversion: _conversion,
    bound.FieldValue: _field,
    bound.Junction: _junction,
    bound.Negation: _negation,
    bound.NullTest: _null_test,
    bound.Choice: _choice,
    bound.MakeArray: _array,
    bound.MakeMap: _map,
    bound.MakeStruct: _struct,
}
