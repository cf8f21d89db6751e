"""What a pager needs of a store, beyond what stores have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain, repeat
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from millstream.state.absent import Absent
from millstream.state.codec import Codec
from millstream.state.paged.format import Numbers, Row
from millstream.state.spec import ChangelogRecord, Changes, StoreSpec


class Cost(NamedTuple):
    """What a page takes in memory, in bytes: for each row, for each byte that it is long, and for each member.

    Measured with ``tracemalloc``. Members count where they are few, and much is kept for each.
    """

    row: float
    byte: float
    member: float = 0


class Taken(NamedTuple):
    """What has changed in a store, by column.

    Attributes:
        marks: The mark of each change.
        times: The times that say which segments the changes belong to.
        names: The keys proper, which say which pages.
        changes: The changes.
    """

    marks: Sequence[Any]
    times: Numbers
    names: Sequence[bytes]
    changes: Changes


class Collected(NamedTuple):
    """The rows of a page, each with its mark, and the members that find them and no others."""

    members: Any
    marks: list[Any]
    rows: list[Row]


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

    def take(self) -> Taken:
        """Returns what changed since the last call, and forgets it."""

    def places(self, keys: list[bytes], /) -> tuple[Numbers, list[bytes]]:
        """Returns the times and the keys proper of changelog keys: they say which pages these belong to."""

    def members(self, marks: Sequence[Any], times: Sequence[int] | Numbers, /) -> Any:
        """Returns the members of a new page, from marks and the times of their rows."""

    def extend(self, members: Any, marks: Sequence[Any], times: Sequence[int] | Numbers, /) -> None:
        """Adds members to a page; they may be there already."""

    def collect(self, members: Any, low: int, high: int, /) -> Collected:
        """Returns the rows of a page."""

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

    _given: list[Taken]
    pinned: ClassVar[bool] = False
    replayed: ClassVar[bool] = False

    def places(self, keys: list[bytes], /) -> tuple[Numbers, list[bytes]]:
        raise NotImplementedError

    def drain(self) -> Taken:
        """Returns what was noted since the last call."""
        raise NotImplementedError

    def changes(self) -> list[ChangelogRecord]:
        taken = self.drain()
        if taken.marks:
            self._given.append(taken)
        return taken.changes.records()

    def count(self, rows: list[Row], /) -> int:
        return len(rows)

    def take(self) -> Taken:
        given = [*self._given, self.drain()]
        self._given.clear()
        return joined([taken for taken in given if taken.marks])

    def given_marks(self) -> Iterable[Any]:
        """The marks of what was given."""
        return chain.from_iterable([taken.marks for taken in self._given])

    def taken(self, marks: list[Any], records: Sequence[ChangelogRecord]) -> Taken:
        """Makes columns of records."""
        changes = Changes([one[0] for one in records], [one[1] for one in records], [one[2] for one in records])
        return Taken(marks, *self.places(changes.keys), changes)


def joined(parts: Sequence[Taken]) -> Taken:
    """Returns one behind the other."""
    if len(parts) == 1:
        return parts[0]

    def column(columns: Iterable[Sequence[Any]]) -> list[Any]:
        return list(chain.from_iterable(columns))

    changes = [part.changes for part in parts]
    return Taken(
        column(part.marks for part in parts),
        np.concatenate([no_times([]), *(part.times for part in parts)]),
        column(part.names for part in parts),
        Changes(
            column(each.keys for each in changes),
            column(each.values for each in changes),
            column(each.timestamps for each in changes),
        ),
    )


def times_in(keys: list[bytes], end: int) -> Numbers:
    """Returns the times in changelog keys: eight bytes, so many bytes from the end."""
    return np.frombuffer(b"".join([key[-end : 8 - end] for key in keys]), ">i8").astype(np.int64)


def no_times(keys: list[bytes]) -> Numbers:
    """Returns the times of changelog keys that have none."""
    return np.zeros(len(keys), np.int64)


def encoded(codec: Codec, keys: list[bytes], rows: Collection[Any]) -> list[Row]:
    """Returns rows of a page from changelog keys and rows of a store."""
    return list(zip(*codec.changes(keys, rows), strict=True)) if rows else []


def held_rows(rows: dict[Any, Any], keys: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Returns those of the keys that have a row, each once, and their rows."""
    there = list(dict.fromkeys(keys))
    found = list(map(dict.get, repeat(rows), there))
    if any(row is None for row in found):  # `in` would ask rows of the user's own whether they equal it
        there = [key for key, row in zip(there, found, strict=True) if row is not None]
        found = [row for row in found if row is not None]
    return there, found


def merged(rows: list[Row], overlay: dict[Any, Any] | None) -> list[Row]:
    """Returns the rows of a page with what has changed since, where a change says all that there is to know."""
    if not overlay:
        return rows
    kept = [row for row in rows if row[0] not in overlay]
    kept.extend([record for record in overlay.values() if record[1] is not None])
    return kept
