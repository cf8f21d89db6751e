"""Decodes the messages of pgoutput, PostgreSQL's plugin for logical replication, in version 1 of its protocol.

A row is a tuple with one item for each column: the value in its text format, None for null, or `UNCHANGED` for a large
value that the update did not change and that is not in the log of the server.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, error as StructError  # noqa: N812
from typing import Any, Final, NamedTuple, TypeAlias

from millstream.errors import ConnectorError


class _Unchanged:
    """The type of `UNCHANGED`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = _Unchanged()
"""In place of a large value that an update did not change."""

Row: TypeAlias = tuple[bytes | _Unchanged | None, ...]

_EPOCH_MS = 946_684_800_000
"""2000-01-01, from which PostgreSQL counts time."""


class Begin(NamedTuple):
    """The beginning of a transaction; `lsn` is that of its commit record, `time` that of its commit in ms."""

    lsn: int
    time: int
    xid: int


class Commit(NamedTuple):
    """The end of a transaction; `end` is where the next record of the log begins."""

    lsn: int
    end: int
    time: int


class Origin(NamedTuple):
    """The server from which a transaction was replicated."""

    name: str


class RelationColumn(NamedTuple):
    """A column; `identity` tells whether it is part of the replica identity."""

    name: str
    type: int
    modifier: int
    identity: bool


class Relation(NamedTuple):
    """The columns of a table, as of the changes that follow; `identity` is d, i, f or n as in ``pg_class``."""

    id: int
    schema: str
    table: str
    identity: str
    columns: tuple[RelationColumn, ...]


class Type(NamedTuple):
    """A type that is not built in."""

    id: int
    schema: str
    name: str


class Insert(NamedTuple):
    """A new row."""

    relation: int
    new: Row


class Update(NamedTuple):
    """A changed row; `old` is the old row or, with `old_is_key`, only the columns of its replica identity."""

    relation: int
    new: Row
    old: Row | None
    old_is_key: bool


class Delete(NamedTuple):
    """A deleted row; `old` as in `Update`."""

    relation: int
    old: Row
    old_is_key: bool


class Truncate(NamedTuple):
    """Tables from which all rows were deleted at once."""

    relations: tuple[int, ...]


class LogicalMessage(NamedTuple):
    """A message that an application wrote to the log of the server."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


Message: TypeAlias = Begin | Commit | Origin | Relation | Type | Insert | Update | Delete | Truncate | LogicalMessage
Change: TypeAlias = Insert | Update | Delete | Truncate | LogicalMessage

_BEGIN = Struct(">QqI")
_COMMIT = Struct(">BQQq")
_UINT = Struct(">I")
_SHORT = Struct(">H")
_COLUMN = Struct(">Ii")
_LOGICAL = Struct(">BQ")

_NULL, _TOAST, _TEXT = b"nut"
_KEY, _OLD, _NEW = b"KON"


def decode(data: bytes) -> Message:
    """Returns the message in the bytes.

    Raises:
        ConnectorError: The bytes are not a message of version 1 of the protocol.
    """
    try:
        message: Message = _DECODERS[data[0]](data)
        return message
    except (KeyError, IndexError, ValueError, StructError) as error:
        shown = data[:40].hex(" ")
        raise ConnectorError(f"PostgreSQL sent a message of pgoutput that is not valid ({error!r}): {shown}") from error


def _begin(data: bytes) -> Begin:
    lsn, time, xid = _BEGIN.unpack_from(data, 1)
    return Begin(lsn, milliseconds(time), xid)


def _commit(data: bytes) -> Commit:
    _flags, lsn, end, time = _COMMIT.unpack_from(data, 1)
    return Commit(lsn, end, milliseconds(time))


def milliseconds(time: int) -> int:
    """Returns a time of the protocol, in microseconds since 2000, in milliseconds since 1970."""
    return time // 1000 + _EPOCH_MS


def _origin(data: bytes) -> Origin:
    return Origin(_text(data, 9)[0])


def _relation(data: bytes) -> Relation:
    (id,) = _UINT.unpack_from(data, 1)  # noqa: A001
    schema, at = _text(data, 5)
    table, at = _text(data, at)
    identity = chr(data[at])
    (count,) = _SHORT.unpack_from(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        name, at = _text(data, at + 1)
        type, modifier = _COLUMN.unpack_from(data, at)  # noqa: A001
        at += 8
        columns.append(RelationColumn(name, type, modifier, bool(flags & 1)))
    # pgoutput leaves out the name of the schema pg_catalog.
    return Relation(id, schema or "pg_catalog", table, identity, tuple(columns))


def _type(data: bytes) -> Type:
    (id,) = _UINT.unpack_from(data, 1)  # noqa: A001
    schema, at = _text(data, 5)
    return Type(id, schema or "pg_catalog", _text(data, at)[0])


def _insert(data: bytes) -> Insert:
    _expect(data[5], _NEW)
    return Insert(_UINT.unpack_from(data, 1)[0], _row(data, 6)[0])


def _update(data: bytes) -> Update:
    (relation,) = _UINT.unpack_from(data, 1)
    kind, at = data[5], 6
    old = None
    if kind in (_KEY, _OLD):
        old, at = _row(data, at)
        _expect(data[at], _NEW)
        at += 1
    else:
        _expect(kind, _NEW)
    return Update(relation, _row(data, at)[0], old, kind == _KEY)


def _delete(data: bytes) -> Delete:
    kind = data[5]
    if kind != _KEY:
        _expect(kind, _OLD)
    return Delete(_UINT.unpack_from(data, 1)[0], _row(data, 6)[0], kind == _KEY)


def _truncate(data: bytes) -> Truncate:
    (count,) = _UINT.unpack_from(data, 1)
    return Truncate(tuple(_UINT.unpack_from(data, 6 + 4 * i)[0] for i in range(count)))


def _logical_message(data: bytes) -> LogicalMessage:
    flags, lsn = _LOGICAL.unpack_from(data, 1)
    prefix, at = _text(data, 10)
    (size,) = _UINT.unpack_from(data, at)
    return LogicalMessage(bool(flags & 1), lsn, prefix, _part(data, at + 4, size))


def _row(data: bytes, at: int) -> tuple[Row, int]:
    (count,) = _SHORT.unpack_from(data, at)
    at += 2
    items: list[bytes | _Unchanged | None] = []
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == _TEXT:
            (size,) = _UINT.unpack_from(data, at)
            items.append(_part(data, at + 4, size))
            at += 4 + size
        elif kind == _NULL:
            items.append(None)
        else:
            _expect(kind, _TOAST)
            items.append(UNCHANGED)
    return tuple(items), at


def _part(data: bytes, at: int, size: int) -> bytes:
    part = data[at : at + size]
    if len(part) != size:
        raise ValueError("the message is too short")
    return part


def _expect(kind: int, expected: int) -> None:
    if kind != expected:
        raise ValueError(f"{chr(expected)} is missing")


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


_DECODERS: dict[int, Callable[[bytes], Any]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("O"): _origin,
    ord("R"): _relation,
    ord("Y"): _type,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _logical_message,
}
