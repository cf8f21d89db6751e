"""Converts expressions to plain data with a JSON form, and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from millstream.errors import ExpressionError
from millstream.expr.tree import Call, Case, Cast, Expr, Field, Literal, Root, Scalar, Struct
from millstream.expr.types import parse_type

Plain = dict[str, Any]


def to_dict(expr: Expr) -> Plain:
    """Returns an expression as a dict of dicts, lists, strings, numbers and booleans.

    The dict of a tree is always the same, in the same order.

    >>> from millstream.expr import col
    >>> to_dict(col("a") + 1)
    {'call': '+', 'args': [{'field': 'a', 'of': {'root': 'value'}}, {'literal': 1}]}
    """
    if isinstance(expr, Root):
        return {"root": expr.role}
    if isinstance(expr, Field):
        return {"field": expr.name, "of": to_dict(expr.base)}
    if isinstance(expr, Literal):
        return _from_scalar(expr.value)
    if isinstance(expr, Call):
        return {"call": expr.function, "args": [to_dict(arg) for arg in expr.args]}
    if isinstance(expr, Cast):
        return {"cast": to_dict(expr.operand), "to": str(expr.to)}
    if isinstance(expr, Struct):
        return {"struct": [[name, to_dict(field)] for name, field in expr.fields]}
    if isinstance(expr, Case):
        default = None if expr.default is None else to_dict(expr.default)
        return {"case": [[to_dict(when), to_dict(then)] for when, then in expr.branches], "else": default}
    raise AssertionError(f"a {type(expr).__name__} is not a node")


def _from_scalar(value: Scalar) -> Plain:
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"double": str(value)}  # JSON has no NaN and no infinity
    return {"literal": value}


def from_dict(data: Mapping[str, Any]) -> Expr:
    """Returns the expression of a dict from ``to_dict``.

    >>> from millstream.expr import col
    >>> print(from_dict(to_dict(col("a") + 1)))
    a + 1
    """
    kind = next((key for key in _READERS if key in data), None) if isinstance(data, Mapping) else None
    if kind is None:
        raise ExpressionError(f"this is not an expression: {data!r:.200}")
    try:
        return _READERS[kind](data)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise ExpressionError(f"cannot read the expression {data!r:.200}: {error!r}") from error


_READERS: dict[str, Callable[[Mapping[str, Any]], Expr]] = {
    "root": lambda d: Root(d["root"]),
    "field": lambda d: Field(from_dict(d["of"]), d["field"]),
    "literal": lambda d: Literal(d["literal"]),
    "bytes": lambda d: Literal(bytes.fromhex(d["bytes"])),
    "decimal": lambda d: Literal(Decimal(d["decimal"])),
    "double": lambda d: Literal(float(d["double"])),
    "call": lambda d: Call(d["call"], tuple(map(from_dict, d["args"]))),
    "cast": lambda d: Cast(from_dict(d["cast"]), parse_type(d["to"])),
    "struct": lambda d: Struct(tuple((name, from_dict(field)) for name, field in d["struct"])),
    "case": lambda d: Case(
        tuple((from_dict(when), from_dict(then)) for when, then in d["case"]),
        None if d["else"] is None else from_dict(d["else"]),
    ),
}
