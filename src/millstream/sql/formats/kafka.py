"""KAFKA: a single column in the form of Kafka's own serializers."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from millstream.sql.types import BIGINT, BYTES, DOUBLE, INTEGER, SqlType

_LAYOUTS: dict[SqlType, Struct] = {INTEGER: Struct(">i"), BIGINT: Struct(">q"), DOUBLE: Struct(">d")}


def kafka_encoder(type_: SqlType) -> Callable[[Any], bytes]:
    """Returns the function that writes a value of a type."""
    if type_ in _LAYOUTS:
        return _LAYOUTS[type_].pack
    return bytes if type_ == BYTES else str.encode


def kafka_decoder(type_: SqlType) -> Callable[[bytes], Any]:
    """Returns the function that reads a value of a type."""
    if type_ not in _LAYOUTS:
        return bytes if type_ == BYTES else lambda data: data.decode("utf-8", "replace")
    unpack, size = _LAYOUTS[type_].unpack, _LAYOUTS[type_].size

    def decode(data: bytes) -> Any:
        if len(data) != size:
            raise ValueError(f"Size of data received by deserializer is not {size}")
        return unpack(data)[0]

    return decode
