"""What a pager needs of a store, beyond what stores have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import repeat
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from millstream.state.absent import Absent
from millstream.state.codec import Codec
from millstream.state.paged.format import Numbers, Row
from millstream.state.spec import NO_TIMESTAMP, ChangelogRecord, StoreSpec


class Cost(NamedTuple):
    """What a page takes in memory, in bytes: for each row, for each byte that it is long, and for each member.

    Measured with ``tracemalloc``. Members count where they are few, and much is kept for each.
    """

    row: float
    byte: float
    member: float = 0


class PagedRows(Protocol):
    """A store whose rows come and go by page.

    The *mark* of a change is what the store itself notes when a row is put or removed. The *members* of a page are made
    of marks, and find its rows in the store. ``low`` and ``high`` are the times of the page's segment.
    """

    spec: StoreSpec
    absent: Absent | None
    cost: ClassVar[Cost]
    pinned: ClassVar[bool]
    """All rows must be in memory."""
    replayed: ClassVar[bool]
    """What a change does depends on the rows before it, so that changes are applied in order, each once."""

    @property
    def floor(self) -> int:
        """Rows up to this time are gone."""

    @property
    def clock(self) -> tuple[int, int]:
        """The time of the store, and the number that it gave to the last row."""

    def resume(self, time: int, counter: int, /) -> None:
        """Sets what ``clock`` gave."""

    def take(self) -> tuple[list[Any], list[ChangelogRecord]]:
        """Returns what changed since the last call, mark by mark and record by record, and forgets it."""

    def places(self, keys: list[bytes], /) -> tuple[Numbers, list[bytes]]:
        """Returns the times and the keys proper of changelog keys: they say which pages these belong to."""

    def members(self, marks: Iterable[Any], /) -> Any:
        """Returns the members of a new page."""

    def extend(self, members: Any, marks: Iterable[Any], /) -> None:
        """Adds members to a page; they may be there already."""

    def collect(self, members: Any, low: int, high: int, /) -> tuple[list[Any], list[Row]]:
        """Returns the rows of a page, each with its mark."""

    def count(self, rows: list[Row], /) -> int:
        """Returns how many rows these are."""

    def insert(self, rows: list[Row], overlay: dict[Any, Any] | None, sequence: int, /) -> Any:
        """Takes the rows of a page in, except those that have changed since; returns the members.

        Args:
            rows: The rows as the page has them.
            overlay: What changed since the page was written, by changelog key; in a replayed store by sequence number
                and position.
            sequence: The last change that the page has.
        """

    def evict(self, members: Any, low: int, high: int, /) -> None:
        """Forgets the rows of a page."""

    def is_changed(self) -> Callable[[Any], bool]:
        """Returns what says of members whether one of them may have changed since ``take``."""


class Pending:
    """The changes that a store has given and a commit has not taken yet.

    (A host may ask a store for its changes, so that the commit would come too late for them.)
    """

    __slots__ = ()

    _marks: list[Any]
    _records: list[ChangelogRecord]
    pinned: ClassVar[bool] = False
    replayed: ClassVar[bool] = False

    def changes(self) -> list[ChangelogRecord]:
        raise NotImplementedError

    def count(self, rows: list[Row], /) -> int:
        return len(rows)

    def take(self) -> tuple[list[Any], list[ChangelogRecord]]:
        self.changes()
        taken = self._marks[:], self._records[:]
        self._marks.clear()
        self._records.clear()
        return taken


def times_in(keys: list[bytes], end: int) -> Numbers:
    """Returns the times in changelog keys: eight bytes, so many bytes from the end."""
    return np.frombuffer(b"".join([key[-end : 8 - end] for key in keys]), ">i8").astype(np.int64)


def no_times(keys: list[bytes]) -> Numbers:
    """Returns the times of changelog keys that have none."""
    return np.zeros(len(keys), np.int64)


def encoded(spec: StoreSpec, codec: Codec, keys: Iterable[bytes], rows: Collection[Any]) -> list[Row]:
    """Returns rows of a page from changelog keys and rows of a store."""
    if not rows:
        return []
    if not spec.timestamped:
        return list(zip(keys, codec.values_out(rows), repeat(NO_TIMESTAMP)))
    values = codec.values_out([row[0] for row in rows])
    return list(zip(keys, values, [row[1] for row in rows], strict=True))


def merged(rows: list[Row], overlay: dict[Any, Any] | None) -> list[Row]:
    """Returns the rows of a page with what has changed since, where a change says all that there is to know."""
    if not overlay:
        return rows
    kept = [row for row in rows if row[0] not in overlay]
    kept.extend([record for record in overlay.values() if record[1] is not None])
    return kept
