"""The order in which ``java.util.HashMap`` iterates over its keys."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from millstream.sql.functions.decimals import CONTEXT
from millstream.sql.functions.java.strings import string_hash
from millstream.sql.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIME, TIMESTAMP, SqlType


def _long_hash(value: int) -> int:
    return (value ^ (value >> 32)) & 0xFFFFFFFF


def _double_hash(value: float) -> int:
    bits = struct.unpack(">q", struct.pack(">d", value))[0]
    return _long_hash(int(bits))


def _decimal_hash(value: Decimal) -> int:
    return int(value.scaleb(-int(value.as_tuple().exponent), CONTEXT)) & 0xFFFFFFFF


_HASHES: dict[SqlType, Callable[[Any], int]] = {
    STRING: string_hash,
    BIGINT: _long_hash,
    DOUBLE: _double_hash,
    BOOLEAN: lambda value: 1231 if value else 1237,
    DATE: lambda value: _long_hash(value * 86_400_000),
    TIME: _long_hash,
    TIMESTAMP: _long_hash,
}


def _spread_hash(key: Any, type_: SqlType) -> int:
    if key is None:
        return 0
    if isinstance(key, list | dict | bytes):
        return 0
    value = _decimal_hash(key) if isinstance(key, Decimal) else _HASHES.get(type_, int)(key)
    value &= 0xFFFFFFFF
    return value ^ (value >> 16)


def hash_order(keys: Iterable[Any], type_: SqlType) -> list[Any]:
    """Returns keys in the order of the buckets of a HashMap.

    >>> hash_order(["banana", "apple", "cherry"], STRING)
    ['banana', 'apple', 'cherry']
    """
    listed = list(keys)
    capacity = 16
    while len(listed) > capacity * 3 // 4:
        capacity *= 2
    return sorted(listed, key=lambda key: _spread_hash(key, type_) & (capacity - 1))


def hash_items(entries: Mapping[Any, Any], type_: SqlType) -> list[tuple[Any, Any]]:
    """Returns the entries of a map in the order of a HashMap."""
    return [(key, entries[key]) for key in hash_order(entries, type_)]
