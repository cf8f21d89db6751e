r"""Serdes: they serialize keys and values to the bytes of a record, and deserialize them.

Most programs name a type and get its serde (``value=int``, ``value=Order``). The serdes here are for the other cases.
They write the bytes of Kafka's own serializers, so that Java programs can read them.

>>> LONG.serialize(1)
b'\x00\x00\x00\x00\x00\x00\x00\x01'
>>> serde_for("short").serialize(1)
b'\x00\x01'
"""

from __future__ import annotations

from millstream.serde.api import Serde, SerdeContext
from millstream.serde.changes import change
from millstream.serde.json_serde import JSON, json_of
from millstream.serde.lists import list_of
from millstream.serde.lookup import serde_for
from millstream.serde.primitives import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    UUID,
    VOID,
)
from millstream.serde.tuples import HEADERS, tuple_of
from millstream.serde.windowed import session_windowed, time_windowed

__all__ = [
    "Serde",
    "SerdeContext",
    "serde_for",
    "STRING",
    "LONG",
    "INT",
    "SHORT",
    "FLOAT",
    "DOUBLE",
    "BOOLEAN",
    "BYTES",
    "UUID",
    "VOID",
    "JSON",
    "json_of",
    "list_of",
    "time_windowed",
    "session_windowed",
    "change",
    "HEADERS",
    "tuple_of",
]
