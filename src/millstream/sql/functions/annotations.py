"""SQL types of Python annotations, and the conversion of values between both."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Union

from millstream.core.frozen import Frozen
from millstream.schemas.python_types import Digits
from millstream.sql.functions.decimals import ensure_fit
from millstream.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    STRING,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)

Convert = Callable[[Any], Any]


class Mapped(Frozen):
    """An annotation as a SQL type.

    Attributes:
        type: The SQL type.
        optional: Whether None is one of the values.
        to_python: Makes of a SQL value, not None, what the annotation says; None if it is the same.
        to_sql: The reverse.
    """

    type: SqlType
    optional: bool = False
    to_python: Convert | None = None
    to_sql: Convert | None = None


def _whole(value: Any) -> int:
    if not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise TypeError(f"{value!r} is no BIGINT")
    return int(value)


_PLAIN: dict[Any, Mapped] = {
    bool: Mapped(BOOLEAN),
    int: Mapped(BIGINT, to_sql=_whole),
    float: Mapped(DOUBLE, to_sql=float),
    str: Mapped(STRING),
    bytes: Mapped(BYTES),
}


def map_annotation(annotation: Any, what: str) -> Mapped:
    """Returns the SQL type of an annotation; `what` names its place for messages.

    >>> print(map_annotation(dict[str, list[int]], "x").type)
    MAP<STRING, ARRAY<BIGINT>>

    Raises:
        TypeError: The annotation has no SQL type.
    """
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if origin in {Union, types.UnionType}:
        return _optional(annotation, arguments, what)
    if origin is Annotated:
        return _annotated(arguments, what)
    if origin is list and arguments:
        element = map_annotation(arguments[0], what)
        return Mapped(ArrayType(element.type), False, _each(element, "to_python"), _each(element, "to_sql"))
    if origin is dict and len(arguments) == 2:
        return _map(arguments, what)
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return _struct(annotation, what)
    hint = "Annotated[Decimal, Digits(precision, scale)]" if annotation is Decimal else "int, float, str, bool, bytes"
    raise TypeError(
        f"{what} has the type {annotation!r}, for which there is no SQL type; use {hint}, or give a signature"
    )


def _optional(annotation: Any, arguments: tuple[Any, ...], what: str) -> Mapped:
    others = [argument for argument in arguments if argument is not type(None)]
    if len(others) != 1 or len(others) == len(arguments):
        raise TypeError(f"{what} has the type {annotation!r}: SQL has no types with alternatives but T | None")
    inner = map_annotation(others[0], what)
    return Mapped(inner.type, True, inner.to_python, inner.to_sql)


def _annotated(arguments: tuple[Any, ...], what: str) -> Mapped:
    base, *extras = arguments
    digits = next((extra for extra in extras if isinstance(extra, Digits)), None)
    if base is Decimal and digits is not None:
        type_ = DecimalType(digits.precision, digits.scale)
        return Mapped(type_, to_sql=lambda value: ensure_fit(Decimal(value), type_))
    return map_annotation(base, what) if base is not Decimal else map_annotation(Decimal, what)


def _nullable(convert: Convert | None) -> Convert:
    return (lambda value: value) if convert is None else (lambda value: None if value is None else convert(value))


def _each(element: Mapped, direction: str) -> Convert | None:
    convert: Convert | None = getattr(element, direction)
    if convert is None:
        return None
    one = _nullable(convert)
    return lambda items: [one(item) for item in items]


def _map(arguments: tuple[Any, ...], what: str) -> Mapped:
    key, value = (map_annotation(argument, what) for argument in arguments)

    def both(to_key: Convert, to_value: Convert) -> Convert:
        return lambda entries: {to_key(k): to_value(v) for k, v in entries.items()}

    return Mapped(
        MapType(key.type, value.type),
        False,
        both(_nullable(key.to_python), _nullable(value.to_python)),
        both(_nullable(key.to_sql), _nullable(value.to_sql)),
    )


def _struct(annotation: type, what: str) -> Mapped:
    hints = typing.get_type_hints(annotation, include_extras=True)
    fields = [
        (field.name, map_annotation(hints[field.name], f"{what}.{field.name}"))
        for field in dataclasses.fields(annotation)
    ]
    to_python = [(name, name.upper(), _nullable(mapped.to_python)) for name, mapped in fields]
    to_sql = [(name, name.upper(), _nullable(mapped.to_sql)) for name, mapped in fields]
    return Mapped(
        StructType(tuple((name.upper(), mapped.type) for name, mapped in fields)),
        False,
        lambda struct: annotation(**{name: convert(struct.get(field)) for name, field, convert in to_python}),
        lambda value: {field: convert(getattr(value, name)) for name, field, convert in to_sql},
    )
