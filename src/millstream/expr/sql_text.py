"""Prints expressions as SQL-like text, with the fewest parentheses."""

from __future__ import annotations

from decimal import Decimal

from millstream.expr.tree import ROLES, Call, Case, Cast, Expr, Field, Literal, Root, Scalar, Struct
from millstream.expr.types import quoted

# The precedence of each operator, lowest first.
_PRECEDENCE = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "in", "between", "like", "is_null", "is_not_null"), 4),
    "is_distinct_from": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "//": 6,
    "%": 6,
    "negative": 7,
    "[]": 8,
}
_POSTFIX = {"is_null": "IS NULL", "is_not_null": "IS NOT NULL"}
_INFIX = {"and": "AND", "or": "OR", "like": "LIKE", "is_distinct_from": "IS DISTINCT FROM"}
_ATOM = 9


def to_text(expr: Expr) -> str:
    """Returns an expression as text.

    >>> from millstream.expr import col
    >>> to_text((col("a") + 1) * -col("b"))
    '(a + 1) * -b'
    """
    if isinstance(expr, Literal):
        return _literal(expr.value)
    if isinstance(expr, Root):
        return expr.role
    if isinstance(expr, Field):
        return _field(expr)
    if isinstance(expr, Call):
        return _call(expr)
    if isinstance(expr, Cast):
        return f"CAST({to_text(expr.operand)} AS {expr.to})"
    if isinstance(expr, Struct):
        return f"STRUCT({', '.join(f'{quoted(name)} := {to_text(field)}' for name, field in expr.fields)})"
    if isinstance(expr, Case):
        branches = " ".join(f"WHEN {to_text(when)} THEN {to_text(then)}" for when, then in expr.branches)
        default = "" if expr.default is None else f" ELSE {to_text(expr.default)}"
        return f"CASE {branches}{default} END"
    raise AssertionError(f"a {type(expr).__name__} is not a node")


def _literal(value: Scalar) -> str:
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return f"DECIMAL '{value}'" if isinstance(value, Decimal) else repr(value)


def _field(field: Field) -> str:
    if isinstance(field.base, Root) and field.base.role == "value":
        # A field of the value with the name of a role must not look like the role.
        return f"`{field.name}`" if field.name in ROLES else quoted(field.name)
    return f"{_operand(field.base, _PRECEDENCE['[]'])}.{quoted(field.name)}"


def _operand(expr: Expr, least: int) -> str:
    """Returns the text of an operand, in parentheses if its precedence is below the least."""
    text = to_text(expr)
    precedence = _PRECEDENCE.get(expr.function, _ATOM) if isinstance(expr, Call) else _ATOM
    if isinstance(expr, Literal) and text.startswith("-"):
        precedence = _PRECEDENCE["negative"]
    return f"({text})" if precedence < least else text


def _call(call: Call) -> str:
    name, args = call.function, call.args
    precedence = _PRECEDENCE.get(name)
    if precedence is None or (name == "like" and len(args) == 3):
        arguments = ", ".join(map(to_text, args))
        return f"ARRAY[{arguments}]" if name == "array" else f"{name}({arguments})"
    if name == "[]":
        return f"{_operand(args[0], precedence)}[{to_text(args[1])}]"
    if name == "not":
        return f"NOT {_operand(args[0], precedence)}"
    if name == "negative":
        return f"-{_operand(args[0], precedence + 1)}"
    first = _operand(args[0], precedence + (precedence == 4))  # comparisons do not chain
    if name in _POSTFIX:
        return f"{first} {_POSTFIX[name]}"
    if name == "in":
        return f"{first} IN ({', '.join(map(to_text, args[1:]))})"
    if name == "between":
        return f"{first} BETWEEN {_operand(args[1], precedence + 1)} AND {_operand(args[2], precedence + 1)}"
    return f"{first} {_INFIX.get(name, name)} {_operand(args[1], precedence + 1)}"
