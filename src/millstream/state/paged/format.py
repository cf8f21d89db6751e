"""The bytes in the remote map: its keys, and its values, whose first byte is the version of their format."""

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
"""The version of log segments: the changes of a store, by column."""

MANIFEST_KEY = b"m"
"""The key of the manifest."""

PIECE = 512 * 1024
"""The maximal bytes of a log segment under one key."""

PageRow: TypeAlias = tuple[Any, ...]
"""A row of a page: key, value and timestamp as in a changelog record; in a versioned store, all versions of a key."""

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_VERSION = bytes([FORMAT])
_LOG_KEY = Struct(">cQH")
_PAGE_KEY = Struct(">cHqI")
_PIECES = Struct(">BH")
_encode = msgspec.msgpack.Encoder().encode


class SegmentManifest(msgspec.Struct, array_like=True, frozen=True):
    """A time segment of a store: its number of buckets, and the rows and bytes of its pages, without the log.

    ``since`` is the first log segment that applies to it. Earlier ones belong to a dropped segment of the same number.
    """

    number: int
    buckets: int
    rows: int
    bytes: int
    since: int


class StoreManifest(msgspec.Struct, array_like=True, frozen=True):
    """A store. ``width`` is that of its time segments; ``counter`` the last sequence number of its rows."""

    id: int
    name: str
    kind: str
    width: int
    time: int
    counter: int
    segments: list[SegmentManifest]


class Manifest(msgspec.Struct, array_like=True, frozen=True):
    """The contents of the remote map.

    Attributes:
        sequence: The sequence number of the last log segment.
        low: The first log segment that is needed.
        stores: The stores.
        obsolete: Pages that are to be deleted, as (store, segment, number of buckets).
        extra: Data of the caller.
    """

    sequence: int = 0
    low: int = 1
    stores: list[StoreManifest] = []
    obsolete: list[tuple[int, int, int]] = []
    extra: bytes = b""


_manifest = msgspec.msgpack.Decoder(Manifest).decode
_page = msgspec.msgpack.Decoder(tuple[int, list[PageRow]]).decode
_log = msgspec.msgpack.Decoder(list[tuple[int, Changes]]).decode


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
        StateError: It is damaged or has another format.
    """
    return _decoded(_manifest, data, "the manifest")


def encode_page(sequence: int, rows: list[PageRow]) -> bytes:
    """Returns the bytes of a page that contains all changes up to a sequence number."""
    return _VERSION + _encode((sequence, rows))


def decode_page(data: bytes | None, what: str) -> tuple[int, list[PageRow]]:
    """Reads a page: its sequence number and its rows.

    Raises:
        StateError: It is missing, damaged or has another format.
    """
    return _decoded(_page, data, what)


def encode_log(sequence: int, changes: Sequence[tuple[int, Changes]]) -> list[tuple[bytes, bytes]]:
    """Returns the keys and values of a log segment: the changes of one commit, by store."""
    data = _encode(changes)
    room = PIECE - _PIECES.size
    starts = range(0, len(data), room)
    head = _PIECES.pack(LOG_FORMAT, len(starts))
    return [(log_key(sequence, n), head + data[start : start + room]) for n, start in enumerate(starts)]


def count_pieces(data: bytes | None, sequence: int) -> int:
    """Returns the number of pieces of a log segment, from the first one.

    Raises:
        StateError: It is missing, damaged or has another format.
    """
    return int(_PIECES.unpack_from(_checked(data, _log_segment(sequence), LOG_FORMAT))[1])


def decode_log(pieces: Iterable[bytes | None], sequence: int) -> list[tuple[int, list[ChangelogRecord]]]:
    """Reads a log segment from all of its pieces.

    Raises:
        StateError: A piece is missing, damaged or has another format.
    """
    what = _log_segment(sequence)
    checked = [_checked(piece, what, LOG_FORMAT) for piece in pieces]
    data = b"".join([checked[0][:1], *(piece[_PIECES.size :] for piece in checked)])

    def decode(data: memoryview) -> list[tuple[int, list[ChangelogRecord]]]:
        return [(store, changes.records()) for store, changes in _log(data)]

    return _decoded(decode, data, what, LOG_FORMAT)


def _log_segment(sequence: int) -> str:
    return f"segment {sequence} of the log"


def _checked(data: bytes | None, what: str, version: int = FORMAT) -> bytes:
    if not data:
        raise StateError(f"the state of the task is damaged: {what} is missing")
    if data[0] != version:
        raise StateError(
            f"the state of the task has {what} in format {data[0]}; this version of Millstream reads format {version}",
            hint="run the application with the version that wrote its state, or reset it",
        )
    return data


def _decoded(decode: Callable[[memoryview], T], data: bytes | None, what: str, version: int = FORMAT) -> T:
    checked = _checked(data, what, version)
    try:
        return decode(memoryview(checked)[1:])
    except ValueError as error:  # the base of msgspec's errors
        raise StateError(f"the state of the task is damaged: {what} cannot be read: {error}") from error
