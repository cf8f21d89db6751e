"""The decoder of pgoutput's messages."""

from __future__ import annotations

import struct

import pytest

from millstream.connect.postgres.cdc.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Relation,
    RelationColumn,
    Truncate,
    Type,
    Update,
    decode,
)
from millstream.errors import ConnectorError

_ROW = b"\0\x03n" + b"u" + b"t\0\0\0\x02ab"
_DECODED = (None, UNCHANGED, b"ab")
_OTHER = b"\0\x01t\0\0\0\x01x"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"B" + struct.pack(">QqI", 2**40 + 1, 1_000_000, 4_000_000_000), Begin(2**40 + 1, 946_684_801_000, 4 * 10**9)),
        (b"C\0" + struct.pack(">QQq", 5, 9, -1), Commit(5, 9, 946_684_799_999)),
        (b"O" + bytes(8) + b"north\0", Origin("north")),
        (
            b"R\0\0\x40\0public\0t\0d\0\x02\x01id\0\0\0\0\x17\xff\xff\xff\xff\0n\xc3\xa4\0\0\0\0\x19\0\0\0\x08",
            Relation(
                16384, "public", "t", "d", (RelationColumn("id", 23, -1, True), RelationColumn("nä", 25, 8, False))
            ),
        ),
        (b"R\0\0\0\x01\0t\0n\0\0", Relation(1, "pg_catalog", "t", "n", ())),
        (b"Y\0\0\0\x07\0mood\0", Type(7, "pg_catalog", "mood")),
        (b"I\0\0\0\x07N" + _ROW, Insert(7, _DECODED)),
        (b"U\0\0\0\x07N" + _ROW, Update(7, _DECODED, None, False)),
        (b"U\0\0\0\x07K" + _OTHER + b"N" + _ROW, Update(7, _DECODED, (b"x",), True)),
        (b"U\0\0\0\x07O" + _OTHER + b"N" + _ROW, Update(7, _DECODED, (b"x",), False)),
        (b"D\0\0\0\x07K" + _OTHER, Delete(7, (b"x",), True)),
        (b"D\0\0\0\x07O" + _OTHER, Delete(7, (b"x",), False)),
        (b"T\0\0\0\x02\0\0\0\0\x07\0\0\0\x08", Truncate((7, 8))),
        (b"M\x01" + struct.pack(">Q", 3) + b"p\0\0\0\0\x02hi", LogicalMessage(True, 3, "p", b"hi")),
    ],
)
def test_each_message_is_decoded(data: bytes, message: Message) -> None:
    assert decode(data) == message


@pytest.mark.parametrize(
    "data",
    [b"", b"?", b"B\0", b"I\0\0\0\x07X", b"I\0\0\0\x07N\0\x01q", b"I\0\0\0\x07N\0\x01t\0\0\0\x09ab", b"O" + bytes(8)],
)
def test_what_is_not_a_message_is_an_error(data: bytes) -> None:
    with pytest.raises(ConnectorError, match="not valid"):
        decode(data)
