"""The bytes of the remote map: its keys, and the values under them, each with a version in its first byte."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np

from millstream.errors import StateError
from millstream.state.spec import ChangelogRecord, Changes

T = TypeVar("T")

FORMAT = 1
"""The version of manifests and pages."""

LOG_FORMAT = 2
"""The version of log segments: the changes of a store by column. Version 1 had them by row, and is read, too."""

MANIFEST_KEY = b"m"

PIECE = 512 * 1024
"""The most bytes of a log segment under one key."""

Row: TypeAlias = tuple[Any, ...]
"""A row of a page: key, value and timestamp as in a changelog record, or what its kind of store has instead."""

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_VERSION = bytes([FORMAT])
_LOG_KEY = Struct(">cQH")
_PAGE_KEY = Struct(">cHqI")
_PIECES = Struct(">BH")
_encode = msgspec.msgpack.Encoder().encode


class SegmentEntry(msgspec.Struct, array_like=True, frozen=True):
    """A time segment of a store: how many buckets it has, and what is in its pages (not: in the log).

    ``since`` is the first sequence number whose log records count for it: one of the same number may have been dropped.
    """

    number: int
    buckets: int
    rows: int
    bytes: int
    since: int


class StoreEntry(msgspec.Struct, array_like=True, frozen=True):
    """A store. ``width`` is that of its time segments; ``counter`` numbers the rows of a store with duplicates."""

    id: int
    name: str
    kind: str
    width: int
    time: int
    counter: int
    segments: list[SegmentEntry]


class Manifest(msgspec.Struct, array_like=True, frozen=True):
    """What there is.

    Attributes:
        sequence: The number of the last batch that changed something.
        low: The first log segment that is still needed.
        stores: The stores.
        doomed: Pages that are to be deleted, as (store, segment, number of buckets).
        extra: What the caller keeps here.
    """

    sequence: int = 0
    low: int = 1
    stores: list[StoreEntry] = []
    doomed: list[tuple[int, int, int]] = []
    extra: bytes = b""


_manifest = msgspec.msgpack.Decoder(Manifest).decode
_page = msgspec.msgpack.Decoder(tuple[int, list[Row]]).decode
_log_by_column = msgspec.msgpack.Decoder(list[tuple[int, Changes]]).decode
_log_by_row = msgspec.msgpack.Decoder(list[tuple[int, list[ChangelogRecord]]]).decode


def log_key(sequence: int, piece: int) -> bytes:
    """Returns the key of a piece of a log segment."""
    return _LOG_KEY.pack(b"l", sequence, piece)


def page_key(store: int, segment: int, bucket: int) -> bytes:
    """Returns the key of a page."""
    return _PAGE_KEY.pack(b"p", store, segment, bucket)


def encode_manifest(manifest: Manifest) -> bytes:
    """Returns the bytes of the manifest."""
    return _VERSION + _encode(manifest)


def decode_manifest(data: bytes) -> Manifest:
    """Reads the manifest.

    Raises:
        StateError: It is not one that this version can read.
    """
    return _decoded(_manifest, data, "the manifest")


def encode_page(sequence: int, rows: list[Row]) -> bytes:
    """Returns the bytes of a page that holds all changes up to a sequence number."""
    return _VERSION + _encode((sequence, rows))


def decode_page(data: bytes | None, what: str) -> tuple[int, list[Row]]:
    """Reads a page: its sequence number and its rows.

    Raises:
        StateError: It is missing, or not one that this version can read.
    """
    return _decoded(_page, data, what)


def encode_log(sequence: int, changes: Sequence[tuple[int, Changes]]) -> list[tuple[bytes, bytes]]:
    """Returns the keys and values of a log segment: the changes of one batch, by store."""
    data = _encode(changes)
    room = PIECE - _PIECES.size
    starts = range(0, len(data), room)
    head = _PIECES.pack(LOG_FORMAT, len(starts))
    return [(log_key(sequence, n), head + data[start : start + room]) for n, start in enumerate(starts)]


def count_pieces(data: bytes | None, sequence: int) -> int:
    """Returns how many pieces a log segment has, of which this is the first.

    Raises:
        StateError: It is missing, or not one that this version can read.
    """
    return int(_PIECES.unpack_from(_checked(data, f"segment {sequence} of the log", LOG_FORMAT))[1])


def decode_log(pieces: Iterable[bytes | None], sequence: int) -> list[tuple[int, list[ChangelogRecord]]]:
    """Reads a log segment from all of its pieces.

    Raises:
        StateError: One is missing, or not one that this version can read.
    """
    what = f"segment {sequence} of the log"
    checked = [_checked(piece, what, LOG_FORMAT) for piece in pieces]
    data = b"".join([checked[0][:1], *(piece[_PIECES.size :] for piece in checked)])
    return _decoded(_log if data[0] == LOG_FORMAT else _log_by_row, data, what, LOG_FORMAT)


def _log(data: memoryview) -> list[tuple[int, list[ChangelogRecord]]]:
    return [(store, changes.records()) for store, changes in _log_by_column(data)]


def _checked(data: bytes | None, what: str, latest: int = FORMAT) -> bytes:
    if not data:
        raise StateError(f"the state of the task is damaged: {what} is missing")
    if not 1 <= data[0] <= latest:
        raise StateError(
            f"the state of the task has {what} in format {data[0]}; this version of Millstream reads format {latest}",
            hint="run the application with the version that wrote its state, or with a later one",
        )
    return data


def _decoded(decode: Callable[[memoryview], T], data: bytes | None, what: str, latest: int = FORMAT) -> T:
    checked = _checked(data, what, latest)
    try:
        return decode(memoryview(checked)[1:])
    except ValueError as error:  # msgspec's own errors are, too
        raise StateError(f"the state of the task is damaged: {what} cannot be read: {error}") from error
