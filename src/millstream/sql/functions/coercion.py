"""Implicit conversions, and the common type of lists of expressions."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from millstream.errors import SqlStatementError
from millstream.sql.functions.arguments import TypedArgument
from millstream.sql.functions.casts import Converter, cast, is_false, is_true, parse_number
from millstream.sql.functions.decimals import ensure_fit, literal_decimal, widest
from millstream.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)

__all__ = [
    "Converter",
    "as_decimal",
    "coerce",
    "common_type",
    "ensure_fit",
    "is_number",
    "literal_type",
    "widening",
    "widens",
]

_FROM_STRING = (DATE, TIME, TIMESTAMP, BYTES)


def literal_type(value: object) -> SqlType | None:
    """Returns the type of a literal, None for NULL.

    >>> print(*(literal_type(x) for x in (1, 3_000_000_000, Decimal("1.5"), 1e3, "a", True)))
    INTEGER BIGINT DECIMAL(2, 1) DOUBLE STRING BOOLEAN
    """
    match value:
        case None:
            return None
        case bool():
            return BOOLEAN
        case int():
            return INTEGER if -(2**31) <= value < 2**31 else BIGINT
        case float():
            return DOUBLE
        case Decimal():
            return literal_decimal(value)
        case str():
            return STRING
        case bytes():
            return BYTES
    raise TypeError(f"{type(value).__name__} is no type of a literal")


def is_number(type_: SqlType | None) -> bool:
    """Whether a type is INTEGER, BIGINT, DECIMAL or DOUBLE."""
    return type_ in {INTEGER, BIGINT, DOUBLE} or isinstance(type_, DecimalType)


def as_decimal(type_: SqlType) -> DecimalType | None:
    """Returns the DECIMAL that holds all values of an integer type; None for types that do not widen to DECIMAL."""
    if isinstance(type_, DecimalType):
        return type_
    held: dict[SqlType, DecimalType] = {INTEGER: DecimalType(10, 0), BIGINT: DecimalType(19, 0)}
    return held.get(type_)


def widens(source: SqlType, target: SqlType) -> bool:
    """Whether values of a type become values of another one without a CAST.

    >>> widens(INTEGER, BIGINT), widens(DOUBLE, INTEGER), widens(STRING, DATE), widens(INTEGER, DecimalType(4, 2))
    (True, False, True, False)
    """
    if source == target:
        return True
    if is_number(source) and is_number(target):
        if isinstance(target, DecimalType):
            held = as_decimal(source)
            return held is not None and widest(held, target) == target
        return target == DOUBLE or (source == INTEGER and target == BIGINT)
    if source == STRING:
        return target in _FROM_STRING
    if isinstance(source, StructType) and isinstance(target, StructType):
        names = [name for name, _type in source.fields] == [name for name, _type in target.fields]
        return names and all(map(widens, source.parts, target.parts))
    same_kind = type(source) is type(target) and isinstance(source, ArrayType | MapType)
    return same_kind and all(map(widens, source.parts, target.parts))


def widening(source: SqlType, target: SqlType) -> Converter | None:
    """Returns the function that widens values that are not None; None if it changes nothing.

    Raises:
        SqlStatementError: There is no implicit conversion.
    """
    if not widens(source, target):
        raise SqlStatementError(f"{source} does not become {target} without a CAST")
    return cast(source, target)


def coerce(item: TypedArgument, target: SqlType) -> Converter | None:
    """Returns the function that brings an item of a list to the common type; None if it changes nothing."""
    return None if item.type is None else cast(item.type, target)


def common_type(items: Sequence[TypedArgument]) -> SqlType | None:
    """Returns the common type of the items of a list, None if all are NULL.

    A literal adapts to the other items: every literal can become text, and text a number or BOOLEAN.

    >>> one, text = TypedArgument(INTEGER, 1), TypedArgument(STRING, "2.5")
    >>> print(common_type([one, text]), common_type([one, TypedArgument(STRING)]))
    DECIMAL(11, 1) STRING
    """
    common: SqlType | None = None
    seen: list[TypedArgument] = []
    for item in items:
        if item.type is None:
            continue
        common = item.type if common is None else _common(common, seen, item.type, [item])
        seen.append(item)
    return common


def _common(left: SqlType, lefts: list[TypedArgument], right: SqlType, rights: list[TypedArgument]) -> SqlType:
    """Returns the common type of two types, given the items that have them."""
    if isinstance(left, ArrayType) and isinstance(right, ArrayType):
        return ArrayType(_common(left.element, _parts(lefts, 0), right.element, _parts(rights, 0)))
    if isinstance(left, MapType) and isinstance(right, MapType):
        key = _common(left.key, _parts(lefts, 0), right.key, _parts(rights, 0))
        return MapType(key, _common(left.value, _parts(lefts, 1), right.value, _parts(rights, 1)))
    if isinstance(left, StructType) and isinstance(right, StructType):
        return _common_struct(left, lefts, right, rights)
    simple = _common_simple(left, right)
    if simple is not None:
        return simple
    if left == STRING and _all_literals(lefts):
        return _common_with_text(right, rights, lefts)
    if right == STRING and _all_literals(rights):
        return _common_with_text(left, lefts, rights)
    if (left == STRING and _all_literals(rights)) or (right == STRING and _all_literals(lefts)):
        return STRING
    raise SqlStatementError(
        f"operator does not exist: {left} = {right}", hint="you might need to add explicit type casts"
    )


def _parts(items: list[TypedArgument], index: int) -> list[TypedArgument]:
    """The items inside of constructors; for an expression, one item that is no literal."""
    unknown = TypedArgument(None)
    return [part for item in items for part in (item.parts[index] if item.parts else (unknown,))]


def _all_literals(items: list[TypedArgument]) -> bool:
    return all(item.is_literal for item in items)


def _common_simple(left: SqlType, right: SqlType) -> SqlType | None:
    if left == right:
        return left
    if is_number(left) and is_number(right):
        if DOUBLE in {left, right}:
            return DOUBLE
        if isinstance(left, DecimalType) or isinstance(right, DecimalType):
            one, other = as_decimal(left), as_decimal(right)
            assert one is not None
            assert other is not None
            return widest(one, other)
        return BIGINT
    if left == STRING and right in _FROM_STRING:
        return right
    if right == STRING and left in _FROM_STRING:
        return left
    return None


def _common_with_text(other: SqlType, others: list[TypedArgument], texts: list[TypedArgument]) -> SqlType:
    """Returns the common type of text literals and a type that is not STRING."""
    common = other
    for item in texts:
        if item.literal is None:
            continue
        text = str(item.literal)
        if other == BOOLEAN:
            if not is_true(text) and not is_false(text):
                raise _invalid_input(other, text)
        elif is_number(other):
            widened = _common_simple(common, _type_of_number(text, other))
            assert widened is not None
            common = widened
        elif _all_literals(others):
            return STRING
        else:
            raise SqlStatementError(
                f"operator does not exist: {other} = STRING ('{text}')",
                hint="you might need to add explicit type casts",
            )
    return common


def _type_of_number(text: str, other: SqlType) -> SqlType:
    try:
        value = parse_number(text)
    except ValueError:
        raise _invalid_input(other, text) from None
    _sign, _digits, exponent = value.as_tuple()
    if "." not in text and "e" not in text.lower():
        whole = int(value) if len(text) < 100 else 1 << 100
        if -(2**63) <= whole < 2**63:
            return INTEGER if -(2**31) <= whole < 2**31 else BIGINT
    if other == DOUBLE or not isinstance(exponent, int) or abs(exponent) > 1000:
        return DOUBLE
    return literal_decimal(value)


def _invalid_input(type_: SqlType, text: str) -> SqlStatementError:
    return SqlStatementError(f'invalid input syntax for type {type_}: "{text}".')


def _common_struct(
    left: StructType, lefts: list[TypedArgument], right: StructType, rights: list[TypedArgument]
) -> StructType:
    fields: dict[str, SqlType] = dict(left.fields)
    for name, type_ in right.fields:
        known = fields.get(name)
        if known is not None:
            here, there = _fields(lefts, name), _fields(rights, name)
            fields[name] = _common(known, here, type_, there)
        else:
            fields[name] = type_
    return StructType(tuple(fields.items()))


def _fields(items: list[TypedArgument], name: str) -> list[TypedArgument]:
    found: list[Any] = []
    for item in items:
        names = [field for field, _type in item.type.fields] if isinstance(item.type, StructType) else []
        found.extend(item.parts[names.index(name)] if item.parts and name in names else (TypedArgument(None),))
    return found
