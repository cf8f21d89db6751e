"""Implicit conversions, and the common type of lists of expressions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

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

    Items are taken from left to right. A literal adapts to the items before it: every literal can become text, and
    text a number or BOOLEAN.

    >>> one, text = TypedArgument(INTEGER, 1), TypedArgument(STRING, "2.5")
    >>> print(common_type([one, text]), common_type([TypedArgument(STRING), one]))
    DECIMAL(11, 1) STRING
    """
    return _joined(None, items)


def _joined(common: SqlType | None, items: Iterable[TypedArgument]) -> SqlType | None:
    """Walks over items from left to right: each one adapts to the type so far, or that type to the item's."""
    for item in items:
        if item.type is not None:
            common = item.type if common is None else _common(common, item)
    return common


def _common(common: SqlType, item: TypedArgument) -> SqlType:
    given = item.type
    assert given is not None
    if item.parts:
        return _common_of_constructor(common, given, item)
    if given == STRING and item.is_literal and (common == BOOLEAN or is_number(common)):
        return _common_with_text(common, str(item.literal))
    if item.is_literal and common == STRING and (given == BOOLEAN or is_number(given)):
        return STRING
    found = _adapted(given, common) or _adapted(common, given)
    if found is None:
        raise _no_common(common, item)
    return found


def _no_common(common: SqlType, item: TypedArgument) -> SqlStatementError:
    shown = f" ({item.literal})" if item.is_literal else ""
    return SqlStatementError(
        f"operator does not exist: {common} = {item.type}{shown}", hint="you might need to add explicit type casts"
    )


def _common_of_constructor(common: SqlType, given: SqlType, item: TypedArgument) -> SqlType:
    """Returns the common type of a type and a constructor, whose items adapt one by one."""
    if isinstance(common, ArrayType) and isinstance(given, ArrayType):
        return ArrayType(_known(_joined(common.element, item.parts[0])))
    if isinstance(common, MapType) and isinstance(given, MapType):
        keys, values = (_known(_joined(type_, part)) for type_, part in zip(common.parts, item.parts, strict=True))
        return MapType(keys, values)
    if isinstance(common, StructType) and isinstance(given, StructType):
        names = [name for name, _type in given.fields]
        own = {name: _known(_joined(common.field(name), part)) for name, part in zip(names, item.parts, strict=True)}
        return _with_other_fields(own, common)
    raise _no_common(common, item)


def _known(type_: SqlType | None) -> SqlType:
    assert type_ is not None
    return type_


def _with_other_fields(own: dict[str, SqlType], other: StructType) -> StructType:
    """Returns the struct of all fields; those of the later struct go first."""
    return StructType((*own.items(), *((name, type_) for name, type_ in other.fields if name not in own)))


def _adapted(source: SqlType, target: SqlType) -> SqlType | None:
    """Returns the type that holds both, if values of the source become values of the target; else None."""
    if source == target:
        return target
    if is_number(source) and is_number(target):
        if isinstance(source, DecimalType) or isinstance(target, DecimalType):
            one, other = as_decimal(source), as_decimal(target)
            return widest(one, other) if one and other and isinstance(target, DecimalType) else _double(target)
        return target if widens(source, target) else None
    if source == STRING and target in _FROM_STRING:
        return target
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        element = _adapted(source.element, target.element)
        return None if element is None else ArrayType(element)
    if isinstance(source, MapType) and isinstance(target, MapType):
        key, value = _adapted(source.key, target.key), _adapted(source.value, target.value)
        return None if key is None or value is None else MapType(key, value)
    if isinstance(source, StructType) and isinstance(target, StructType):
        return _adapted_struct(source, target)
    return None


def _double(target: SqlType) -> SqlType | None:
    return DOUBLE if target == DOUBLE else None


def _adapted_struct(source: StructType, target: StructType) -> StructType | None:
    own: dict[str, SqlType] = {}
    for name, type_ in source.fields:
        wanted = target.field(name)
        found = type_ if wanted is None else _adapted(type_, wanted)
        if found is None:
            return None
        own[name] = found
    return _with_other_fields(own, target)


def _common_with_text(common: SqlType, text: str) -> SqlType:
    """Returns the common type of a BOOLEAN or a number and the literal of a text."""
    if common == BOOLEAN:
        if not is_true(text) and not is_false(text):
            raise _invalid_input(common, text)
        return common
    type_ = _type_of_number(text, common)
    found = _adapted(type_, common) or _adapted(common, type_)
    return _known(found)


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
