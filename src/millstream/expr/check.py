"""Computes and checks the types of expressions, without records."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from millstream.errors import ExpressionError, suggestion
from millstream.expr.casts import can_cast
from millstream.expr.catalog import lookup
from millstream.expr.tree import Call, Case, Cast, Expr, Field, Literal, Root, Scalar, Struct
from millstream.expr.types import (
    ANY,
    BIGINT,
    BOOLEAN,
    BYTES,
    DECIMAL,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    DataType,
    MapType,
    MismatchError,
    StructType,
    common_type,
)


def type_of(expr: Expr, roles: Mapping[str, DataType]) -> DataType:
    """Returns the type of an expression, or raises ExpressionError if it does not fit the types of its roles.

    A role without a type is not checked, and neither are expressions of a value of type ANY.

    >>> from millstream.expr import col, schema_of
    >>> from typing import TypedDict
    >>> Order = TypedDict("Order", {"amount": int})
    >>> type_of(col("amount") / 2, {"value": schema_of(Order)})
    DOUBLE
    >>> type_of(col("amonut") / 2, {"value": schema_of(Order)})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    millstream.errors.ExpressionError: ...: the value has no field 'amonut', in `amonut / 2`
      hint: did you mean 'amount'?
    """
    try:
        return _Checker(roles).type(expr)
    except _ProblemError as problem:
        whole = problem.where is None or problem.where is expr
        place = f"`{expr}`" if whole else f"`{problem.where}`, part of `{expr}`"
        raise ExpressionError(f"{problem.message}, in {place}", hint=problem.hint) from None


class _ProblemError(Exception):
    """``where`` is the part of the expression that is wrong, or None if the message contains it."""

    def __init__(self, where: Expr | None, message: str, hint: str | None = None) -> None:
        self.where, self.message, self.hint = where, message, hint


class _Checker:
    def __init__(self, roles: Mapping[str, DataType]) -> None:
        self.roles: Mapping[str, DataType] = {"timestamp": TIMESTAMP, **roles}

    def type(self, expr: Expr) -> DataType:
        if isinstance(expr, Root):
            return self.roles.get(expr.role, ANY)
        if isinstance(expr, Field):
            return self.field(expr)
        if isinstance(expr, Literal):
            return _literal(expr.value)
        if isinstance(expr, Call):
            return self.call(expr)
        if isinstance(expr, Cast):
            return self.cast(expr)
        if isinstance(expr, Struct):
            return StructType(tuple((name, self.type(field)) for name, field in expr.fields))
        if isinstance(expr, Case):
            return self.case(expr)
        raise AssertionError(f"a {type(expr).__name__} is not a node")

    def field(self, expr: Field) -> DataType:
        base = self.type(expr.base)
        if base in (ANY, NULL):
            return ANY
        if isinstance(base, MapType) and base.key in (STRING, ANY):
            return base.value
        owner = f"the {expr.base.role}" if isinstance(expr.base, Root) else f"`{expr.base}`"
        if not isinstance(base, StructType):
            raise _ProblemError(None, f"{owner} is {base} and has no field {expr.name!r}")
        fields = dict(base.fields)
        if expr.name not in fields:
            hint = suggestion(expr.name, fields) or f"its fields are {', '.join(fields)}"
            raise _ProblemError(None, f"{owner} has no field {expr.name!r}", hint)
        return fields[expr.name]

    def call(self, expr: Call) -> DataType:
        types = [self.type(arg) for arg in expr.args]
        try:
            return lookup(expr.function).type_for(types)
        except MismatchError as error:
            hint = "cast one of them" if "common type" in str(error) else None
            raise _ProblemError(expr, str(error), hint) from None

    def cast(self, expr: Cast) -> DataType:
        source = self.type(expr.operand)
        if not can_cast(source, expr.to):
            raise _ProblemError(expr, f"{source} cannot be cast to {expr.to}")
        return expr.to

    def case(self, expr: Case) -> DataType:
        for when, _ in expr.branches:
            condition = self.type(when)
            if condition not in (BOOLEAN, ANY, NULL):
                raise _ProblemError(when, f"a condition is BOOLEAN, not {condition}")
        results = [then for _, then in expr.branches] + ([] if expr.default is None else [expr.default])
        try:
            return common_type(self.type(result) for result in results)
        except MismatchError as error:
            raise _ProblemError(expr, str(error), "cast the results to one type") from None


def _literal(value: Scalar) -> DataType:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int):
        return INT if -(1 << 31) <= value < 1 << 31 else BIGINT
    if isinstance(value, float):
        return DOUBLE
    if isinstance(value, Decimal):
        return DECIMAL
    return STRING if isinstance(value, str) else BYTES
