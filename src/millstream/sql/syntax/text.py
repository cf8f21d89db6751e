"""Expressions as text, their comparison, and walks over them."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from decimal import Decimal
from typing import Any

from millstream.sql.syntax.tree import (
    Arithmetic,
    ArrayConstructor,
    ArrayTypeRef,
    Between,
    Call,
    Case,
    Cast,
    ColumnRef,
    Comparison,
    Concatenation,
    Dereference,
    Expression,
    InList,
    IntervalUnit,
    IsNull,
    KnownType,
    Lambda,
    Like,
    Literal,
    Logical,
    MapConstructor,
    MapTypeRef,
    NamedType,
    Node,
    Not,
    Star,
    StructConstructor,
    StructStar,
    StructTypeRef,
    Subscript,
    TypeRef,
    Unary,
)
from millstream.sql.syntax.words import RESERVED

_PLAIN = re.compile(r"[A-Z_][A-Z0-9_@]*|[0-9]+[A-Z_@][A-Z0-9_@]*")
_CONSTANTS = re.compile(r"'(?:[^']|'')*'|`(?:[^`]|``)*`|\b(NULL|TRUE|FALSE)\b")
_EXPONENT_FORM = re.compile(r"[0-9]+E[0-9]+")


def name_text(name: str) -> str:
    """Returns an identifier as it must be written.

    >>> name_text("ID"), name_text("id"), name_text("STREAM")
    ('ID', '`id`', '`STREAM`')
    """
    plain = _PLAIN.fullmatch(name) and name not in RESERVED and not _EXPONENT_FORM.fullmatch(name)
    return name if plain else "`" + name.replace("`", "``") + "`"


def string_text(value: str) -> str:
    """Returns a string literal."""
    return "'" + value.replace("'", "''") + "'"


def type_text(type_: TypeRef) -> str:
    """Returns a type as it is written in SQL."""
    match type_:
        case KnownType():
            return str(type_.type)
        case NamedType():
            return name_text(type_.name)
        case ArrayTypeRef():
            return f"ARRAY<{type_text(type_.element)}>"
        case MapTypeRef():
            return f"MAP<{type_text(type_.key)}, {type_text(type_.value)}>"
        case StructTypeRef():
            return f"STRUCT<{', '.join(f'`{name}` {type_text(field)}' for name, field in type_.fields)}>"
    raise TypeError(f"{type(type_).__name__} is not a type")


def text_of(expression: Expression) -> str:
    """Returns an expression as SQL, with parentheses around every operation.

    >>> from millstream.sql.syntax.parser import parse_expression
    >>> text_of(parse_expression("a + 1 > 2 and not abs(b)=`c d`->e[1]"))
    '(((A + 1) > 2) AND (NOT (ABS(B) = `c d`->E[1])))'
    """
    return _WRITERS[type(expression)](expression)


def message_text(expression: Expression) -> str:
    """Returns an expression as ksqlDB's messages have it: with ``null``, ``true`` and ``false`` in lower case.

    >>> from millstream.sql.syntax.parser import parse_expression
    >>> message_text(parse_expression("x + NULL = 'NULL'"))
    "((X + null) = 'NULL')"
    """
    return _CONSTANTS.sub(lambda found: found[1].lower() if found[1] else found[0], text_of(expression))


def _literal(node: Literal) -> str:
    match node.value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if node.value else "FALSE"
        case str():
            return string_text(node.value)
        case Decimal():
            digits = f"{node.value:f}"
            return digits if "." in digits else f"{digits}."
        case float():
            mantissa, _, exponent = f"{node.value!r}".upper().partition("E")
            return f"{mantissa}E{int(exponent or 0)}"
        case int():
            return str(node.value)


def _infix(left: Expression, operator: str, right: Expression) -> str:
    return f"({text_of(left)} {operator} {text_of(right)})"


def _listed(items: tuple[Expression, ...]) -> str:
    return ", ".join(map(text_of, items))


def _unary(node: Unary) -> str:
    operand = text_of(node.operand)
    # Without parentheses, a minus before a number would become a part of the number.
    return f"{node.operator}({operand})" if operand[0] in "+-0123456789." else f"{node.operator}{operand}"


def _not(negated: bool) -> str:
    return "NOT " if negated else ""


def _like(node: Like) -> str:
    escape = "" if node.escape is None else f" ESCAPE {string_text(node.escape)}"
    return f"({text_of(node.operand)} {_not(node.negated)}LIKE {text_of(node.pattern)}{escape})"


def _between(node: Between) -> str:
    bounds = f"{text_of(node.low)} AND {text_of(node.high)}"
    return f"({text_of(node.operand)} {_not(node.negated)}BETWEEN {bounds})"


def _case(node: Case) -> str:
    operand = "" if node.operand is None else f" {text_of(node.operand)}"
    branches = "".join(f" WHEN {text_of(condition)} THEN {text_of(result)}" for condition, result in node.branches)
    default = "" if node.default is None else f" ELSE {text_of(node.default)}"
    return f"(CASE{operand}{branches}{default} END)"


def _lambda(node: Lambda) -> str:
    names = list(map(name_text, node.parameters))
    parameters = names[0] if len(names) == 1 else f"({', '.join(names)})"
    return f"{parameters} => {text_of(node.body)}"


def _qualified(source: str | None, name: str) -> str:
    return name if source is None else f"{name_text(source)}.{name}"


_WRITERS: dict[type[Expression], Callable[[Any], str]] = {
    Literal: _literal,
    ColumnRef: lambda node: _qualified(node.source, name_text(node.name)),
    Star: lambda node: _qualified(node.source, "*"),
    StructStar: lambda node: f"{text_of(node.base)}->*",
    Dereference: lambda node: f"{text_of(node.base)}->{name_text(node.field)}",
    Subscript: lambda node: f"{text_of(node.base)}[{text_of(node.index)}]",
    Unary: _unary,
    Arithmetic: lambda node: _infix(node.left, node.operator, node.right),
    Concatenation: lambda node: _infix(node.left, "||", node.right),
    Comparison: lambda node: _infix(node.left, node.operator, node.right),
    Logical: lambda node: _infix(node.left, node.operator, node.right),
    Not: lambda node: f"(NOT {text_of(node.operand)})",
    IsNull: lambda node: f"({text_of(node.operand)} IS {_not(node.negated)}NULL)",
    Between: _between,
    InList: lambda node: f"({text_of(node.operand)} {_not(node.negated)}IN ({_listed(node.items)}))",
    Like: _like,
    Case: _case,
    Cast: lambda node: f"CAST({text_of(node.operand)} AS {type_text(node.to)})",
    Call: lambda node: f"{name_text(node.name)}({_listed(node.arguments)})",
    Lambda: _lambda,
    IntervalUnit: lambda node: f"{node.unit}S",
    ArrayConstructor: lambda node: f"ARRAY[{_listed(node.items)}]",
    MapConstructor: lambda node: f"MAP({', '.join(f'{text_of(k)}:={text_of(v)}' for k, v in node.entries)})",
    StructConstructor: lambda node: f"STRUCT({', '.join(f'{name_text(k)}:={text_of(v)}' for k, v in node.fields)})",
}


# ----- comparison ----------------------------------------------------------------------------------------------------


def key(expression: Expression) -> Hashable:
    """Returns a hashable object that two expressions share if they differ at most in their positions.

    Literals of different types differ: ``1``, ``1.0``, ``1.00`` and ``1e0`` have four keys.
    """
    return _key(expression)


def same(left: Expression, right: Expression) -> bool:
    """Whether two expressions have the same structure, wherever they are written."""
    return _key(left) == _key(right)


def _key(item: Any) -> Hashable:
    if isinstance(item, Literal):
        return Literal, type(item.value), str(item.value)
    if isinstance(item, Node):
        return type(item), *(_key(getattr(item, field)) for field in item._fields[1:])  # the first is the position
    return tuple(map(_key, item)) if type(item) is tuple else item


# ----- walks ---------------------------------------------------------------------------------------------------------


def children(expression: Expression) -> Iterator[Expression]:
    """Yields the expressions that an expression consists of, in the order of its fields."""
    for field in expression._fields[1:]:
        yield from _expressions(getattr(expression, field))


def _expressions(item: Any) -> Iterator[Expression]:
    if isinstance(item, Expression):
        yield item
    elif type(item) is tuple:
        for part in item:
            yield from _expressions(part)


def walk(expression: Expression) -> Iterator[Expression]:
    """Yields an expression and all expressions inside of it, the outer ones first."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(list(children(node))))


def depth(expression: Expression, most: int) -> int:
    """Returns the number of levels of an expression, or ``most + 1`` if there are more. It does not recurse."""
    level, nodes = 0, [expression]
    while nodes and level <= most:
        level += 1
        nodes = [child for node in nodes for child in children(node)]
    return level
