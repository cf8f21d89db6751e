"""The encoding of rows in changelogs, in the formats of Kafka Streams."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from struct import Struct
from typing import Any

from millstream.state.spec import NO_TIMESTAMP, ChangelogRecord, Changes, StoreSpec

_TIME = Struct(">q")

FOREVER = 1 << 63
"""The retention of a store that keeps its rows for ever: greater than any time."""


def same(value: Any) -> Any:
    """Returns its argument."""
    return value


def discard() -> Callable[[Any], Any]:
    """Returns a function that ignores its argument, for stores that do not record changes: in C, so without a frame."""
    return deque[Any](maxlen=0).append


def segment_interval(retention: int) -> int:
    """Returns the length of a segment of Kafka Streams: listings of window and session stores are ordered by it."""
    return max(retention // 2, 60_000)


def expiry_width(retention: int) -> int:
    """Returns the advance of time after which expired rows are dropped again, so that expiry costs little for a row."""
    return max(retention // 8, 1)


def buffer_key(time: int, order: bytes) -> bytes:
    """Returns the changelog key of an entry of a buffer."""
    return _TIME.pack(time) + order


def split_buffer_key(data: bytes) -> tuple[int, bytes]:
    """Returns the time and the order bytes of a changelog key."""
    return _TIME.unpack_from(data)[0], data[8:]


class Codec:
    """Encodes and decodes the keys and rows that a store holds.

    A store holds its keys as objects if their serde is hashable, and its values if their serde is immutable. Others it
    holds as bytes, which ``millstream.state.coded`` has made, and which are not converted here.
    """

    __slots__ = (
        "_timestamped", "key_in", "key_out", "keys_out", "row_in", "row_out", "value_in", "value_out", "values_out",
    )  # fmt: skip

    key_out: Callable[[Any], bytes]
    key_in: Callable[[bytes], Any]
    value_out: Callable[[Any], bytes | None]
    value_in: Callable[[bytes | None], Any]
    row_out: Callable[[Any], tuple[bytes | None, int]]
    row_in: Callable[[bytes | None, int], Any]
    keys_out: Callable[[Collection[Any]], list[bytes]]
    values_out: Callable[[Collection[Any]], list[bytes | None]]

    def __init__(self, spec: StoreSpec) -> None:
        hashable, immutable = spec.key.hashable, spec.value.immutable
        self.key_out = spec.key.serialize if hashable else same  # type: ignore[assignment]  # a key is never None
        self.key_in = spec.key.deserialize if hashable else same
        value_out = self.value_out = spec.value.serialize if immutable else same
        value_in = self.value_in = spec.value.deserialize if immutable else same
        self.keys_out = spec.key.serialize_all if hashable else list  # type: ignore[assignment]
        self.values_out = spec.value.serialize_all if immutable else list
        self._timestamped = spec.timestamped
        if spec.timestamped:
            self.row_out = lambda row: (value_out(row[0]), row[1])
            self.row_in = lambda data, timestamp: (value_in(data), timestamp)
        else:
            self.row_out = lambda row: (value_out(row), NO_TIMESTAMP)
            self.row_in = lambda data, _: value_in(data)

    def changes(self, keys: list[bytes], rows: Collection[Any], times: int | list[int] = NO_TIMESTAMP) -> Changes:
        """Returns the changes of many rows (None: deleted); ``times``, one or many, for rows without a timestamp."""
        default = [times] * len(keys) if isinstance(times, int) else times
        if not self._timestamped:
            return Changes(keys, self.values_out(rows), default)
        try:
            values, timestamps = [row[0] for row in rows], [row[1] for row in rows]
        except TypeError:  # some rows are deleted
            values = [None if row is None else row[0] for row in rows]
            timestamps = [time if row is None else row[1] for row, time in zip(rows, default, strict=True)]
        return Changes(keys, self.values_out(values), timestamps)

    def row(self, record: ChangelogRecord) -> Any | None:
        """Returns the row of a changelog record."""
        return None if record.value is None else self.row_in(record.value, record.timestamp)
