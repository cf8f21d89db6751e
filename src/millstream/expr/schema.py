"""Converts Python types to the types of expressions."""

from __future__ import annotations

import types
import typing
from collections import abc
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any

from millstream.errors import ExpressionError
from millstream.expr.types import (
    ANY,
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    DOUBLE,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DataType,
    MapType,
    StructType,
    parse_type,
)

# In the order of the tests: a bool is an int, and a datetime is a date.
_SCALARS: tuple[tuple[type, DataType], ...] = (
    (bool, BOOLEAN),
    (int, BIGINT),
    (float, DOUBLE),
    (str, STRING),
    (bytes, BYTES),
    (Decimal, DECIMAL),
    (datetime, TIMESTAMP),
    (date, DATE),
    (time, TIME),
)
_ARRAYS = frozenset({list, tuple, set, frozenset, abc.Sequence, abc.MutableSequence, abc.Set, abc.Iterable})
_MAPS = frozenset({dict, abc.Mapping, abc.MutableMapping})


def schema_of(python_type: Any) -> DataType:
    """Returns the type of the values that a Python type annotation describes.

    Scalars, ``list[...]``, ``dict[...]``, dataclasses, typed dicts, named tuples and msgspec structs are supported;
    ``Optional`` has no effect, as every type may be null. All other types are ``ANY``, which is not checked.

    >>> schema_of(list[int])
    ARRAY<BIGINT>
    >>> class Order(typing.NamedTuple):
    ...     amount: float
    ...     note: str | None
    >>> schema_of(Order)
    STRUCT<amount DOUBLE, note STRING>
    """
    return _schema(python_type, {}, ())


def as_type(type_: Any) -> DataType:
    """Returns a type from a type, its text or a Python type.

    >>> as_type("bigint"), as_type(float)
    (BIGINT, DOUBLE)
    """
    if isinstance(type_, DataType):
        return type_
    if isinstance(type_, str):
        return parse_type(type_)
    schema = schema_of(type_)
    if schema == ANY and type_ is not Any:
        raise ExpressionError(f"{type_!r} is not a type of expressions", hint="give a type's text, such as 'BIGINT'")
    return schema


def _schema(hint: Any, bound: dict[Any, Any], seen: tuple[Any, ...]) -> DataType:
    """``bound`` has the arguments of a generic class, ``seen`` the enclosing classes."""
    hint = bound.get(hint, hint) if isinstance(hint, typing.TypeVar) else hint
    hint = getattr(hint, "__supertype__", hint)  # the base of a NewType
    if hint is None or hint is type(None):
        return NULL
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _schema(args[0], bound, seen)
    if origin is typing.Literal:
        return _common([_schema(type(arg), bound, seen) for arg in args])
    if origin is typing.Union or origin is types.UnionType:
        return _common([_schema(arg, bound, seen) for arg in args])
    if origin in _ARRAYS or hint in _ARRAYS:
        elements = [_schema(arg, bound, seen) for arg in args if arg is not ...]
        return ArrayType(_common(elements) if elements else ANY)
    if origin in _MAPS and len(args) == 2:
        return MapType(_schema(args[0], bound, seen), _schema(args[1], bound, seen))
    cls = origin if origin is not None else hint
    return _class_schema(cls, dict(zip(getattr(cls, "__parameters__", ()), args, strict=False)), seen)


def _class_schema(cls: Any, bound: dict[Any, Any], seen: tuple[Any, ...]) -> DataType:
    if not isinstance(cls, type) or cls in seen:  # a recursive class has no finite schema
        return ANY
    if issubclass(cls, Enum):
        return _common([_schema(type(member.value), {}, seen) for member in cls])
    names = field_names(cls)
    if names is not None:
        return _struct(cls, names, bound, (*seen, cls))
    for python_type, data_type in _SCALARS:
        if issubclass(cls, python_type):
            return data_type
    # By name: importing uuid takes milliseconds.
    return STRING if (cls.__module__, cls.__name__) == ("uuid", "UUID") else ANY


def field_names(cls: type) -> tuple[str, ...] | None:
    """Returns the field names of a struct class, or None. msgspec structs are recognized by an attribute."""
    if typing.is_typeddict(cls):
        return tuple(cls.__annotations__)
    if issubclass(cls, tuple):
        return getattr(cls, "_fields", None)
    for attribute in ("__dataclass_fields__", "__struct_fields__", "__pydantic_fields__"):
        if hasattr(cls, attribute):
            return tuple(getattr(cls, attribute))
    return None


def _struct(cls: type, names: tuple[str, ...], bound: dict[Any, Any], seen: tuple[Any, ...]) -> DataType:
    try:
        hints = typing.get_type_hints(cls)
    except (NameError, TypeError):  # an annotation that only a type checker can resolve
        return ANY
    return StructType(tuple((name, _schema(hints.get(name, Any), bound, seen)) for name in names if name in hints))


def _common(types: list[DataType]) -> DataType:
    """Returns the type of a union: ANY if its members have different types, which cannot be checked without a value."""
    alternatives = {t for t in types if t != NULL}
    if len(alternatives) > 1:
        return ANY
    return alternatives.pop() if alternatives else NULL
