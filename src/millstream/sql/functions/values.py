"""Order and identity of SQL values, as the functions of collections need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.sql.types import BYTES, STRING, ArrayType, MapType, SqlType, StructType


def identity(value: Any) -> Any:
    """Returns something that can be hashed and is equal for equal values.

    >>> identity([1, {"a": None}]) == identity([1, {"a": None}])
    True
    """
    if isinstance(value, list):
        return ("list", *map(identity, value))
    if isinstance(value, dict):
        return frozenset((identity(key), identity(item)) for key, item in value.items())
    return value


def utf16_order(text: str) -> bytes:
    """A key that orders texts by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def signed_order(value: bytes) -> bytes:
    """A key that orders bytes as Java does, whose bytes are signed."""
    return bytes(byte ^ 0x80 for byte in value)


def order_of(type_: SqlType) -> Callable[[Any], Any] | None:
    """Returns the key by which values of a type are ordered; None if it is the value itself."""
    if isinstance(type_, ArrayType | MapType | StructType):
        return _without_order
    orders: dict[SqlType, Callable[[Any], Any]] = {STRING: utf16_order, BYTES: signed_order}
    return orders.get(type_)


def _without_order(value: Any) -> Any:
    raise TypeError(f"values such as {str(value)[:100]} have no order")
