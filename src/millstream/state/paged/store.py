"""The base class of paged stores: what a `Pager` requires of a store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np

from millstream.errors import StateError
from millstream.state.codec import Codec
from millstream.state.memory.base import MemoryStore
from millstream.state.paged.format import Numbers, PageRow
from millstream.state.paged.rows import no_times
from millstream.state.spec import ChangelogRecord, Changes, StoreSpec, concatenated


class EitherOf:
    """Is in one of two collections: the rows that changed since ``changes``, and those since ``take``."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Collection[Any], second: Collection[Any]) -> None:
        self._first = first
        self._second = second

    def __contains__(self, item: Any) -> bool:
        return item in self._first or item in self._second


class MemoryCost(NamedTuple):
    """The bytes of memory that a page takes: for each row, for each byte of its encoding, and for each member.

    Measured with ``tracemalloc``. Members count where they are few and large.
    """

    row: float
    byte: float
    member: float = 0


class MarkedChanges(NamedTuple):
    """Changes of a store, by column.

    Attributes:
        marks: The mark of each change.
        times: The times, which determine the segments.
        names: The keys proper, which determine the pages.
        changes: The changes.
    """

    marks: Sequence[Any]
    times: Numbers
    names: Sequence[bytes]
    changes: Changes


class PageContent(NamedTuple):
    """The rows of a page, the mark of each, and the members that find exactly these rows."""

    members: Any
    marks: list[Any]
    rows: list[PageRow]


class PagedStore(MemoryStore):
    """A store whose rows are loaded and evicted by page.

    The *mark* of a change is the key under which the store records it. The *members* of a page are built from marks,
    and find its rows in the store. ``low`` and ``high`` are the first and last time of the page's segment.
    """

    __slots__ = ()

    cost: ClassVar[MemoryCost]
    pinned: ClassVar[bool] = False
    """All rows stay in memory."""
    absolute: ClassVar[bool] = True
    """A change replaces the row. Else it depends on the rows before it, and changes are applied in order, each once."""

    _reported: list[MarkedChanges]
    """Changes that ``changes`` has returned, or ``restore`` has applied, since the last commit."""

    _since: dict[Any, Any] | None
    """In a map without a log: what ``changes`` has returned since the last ``take``, as the store records changes."""

    _has_log: bool

    def __init__(self, spec: StoreSpec, codec: Codec) -> None:
        super().__init__(spec, codec)
        self._reported = []  # type: ignore[misc]  # slots of the subclasses: two bases cannot have slots
        self._since = None  # type: ignore[misc]
        self._has_log = True  # type: ignore[misc]
        self._logged = True
        self._record_changes(True)

    @property
    def has_log(self) -> bool:
        """Whether the map of the store has a log."""
        return self._has_log

    def leave_log(self, *, written: bool) -> None:
        """Makes the store one of a map without a log, whose changes are in a changelog.

        Between two calls of ``take`` the store remembers which rows have changed, not the changes, so that a row that
        changes often costs little. ``take`` returns the rows as they are then.

        Args:
            written: Pages are written. Otherwise the store forgets its changes when it has returned them.
        """
        self._has_log = False  # type: ignore[misc]
        self._since = {} if written else None  # type: ignore[misc]

    # ----- time ------------------------------------------------------------------------------------------------------

    @property
    def floor(self) -> int:
        """Rows up to this time have expired."""
        return -1

    @property
    def counter(self) -> int:
        """The sequence number of the last row that was added; 0 in stores that do not number rows."""
        return 0

    def resume(self, time: int, _counter: int, /) -> None:
        """Sets the time and the counter to those of the manifest."""
        self._set_time(time)

    # ----- changes ---------------------------------------------------------------------------------------------------

    def changed_columns(self) -> Changes:
        if self._has_log:
            drained = self._drain()
            if drained.marks:
                self._reported.append(drained)
            return drained.changes
        if self._since is not None:
            self._remember(self._since)
        return super().changed_columns()

    def restore(self, records: Iterable[ChangelogRecord], /) -> None:
        if self.has_changes():
            raise StateError(f"store {self.spec.name!r} cannot be restored: it has changes that were not committed")
        for record in records:
            self._apply(record)
        self.changed_columns()  # the changelog has them: only the commit needs them

    def has_changes(self) -> bool:
        """Returns whether there are changes that ``changes`` has not returned."""
        return any(True for _ in self._marks())

    def since_size(self) -> int:
        """Returns the number of rows that changed since ``take``, of those that ``changes`` has returned."""
        return len(self._since or ())

    def _remember(self, since: dict[Any, Any]) -> None:
        """Adds the recorded changes to those since ``take``."""
        raise NotImplementedError

    def _recall(self, since: dict[Any, Any]) -> None:
        """Records the changes since ``take`` again."""
        raise NotImplementedError

    def take(self) -> MarkedChanges:
        """Returns the changes since the last call, reported or not, and forgets them."""
        if self._since:
            self._recall(self._since)
            self._since.clear()
        parts = [*self._reported, self._drain()]
        self._reported.clear()
        return joined([part for part in parts if part.marks])

    def is_changed(self) -> Callable[[Any], bool]:
        """Returns a predicate: may a row of these members have changed since ``take``?"""
        raise NotImplementedError

    def _marks(self) -> Iterable[Any]:
        """The marks of the changes that were recorded since ``changes`` or ``take``."""
        raise NotImplementedError

    def _all_marks(self) -> Iterable[Any]:
        """The marks of all changes since ``take``."""
        return chain(self._marks(), self._since or (), *[part.marks for part in self._reported])

    def _drain(self) -> MarkedChanges:
        """Returns the changes that were recorded since the last call, and forgets them."""
        marks = list(self._marks())
        changes = super().changed_columns()
        return MarkedChanges(marks, *self.places(changes.keys), changes)

    # ----- pages -----------------------------------------------------------------------------------------------------

    def places(self, keys: list[bytes], /) -> tuple[Numbers, list[bytes]]:
        """Returns the times and the keys proper in changelog keys, which determine their pages."""
        return no_times(keys), keys

    def members(self, marks: Sequence[Any], _times: Sequence[int] | Numbers, /) -> Any:
        """Returns the members of a new page, from marks and the times of their rows."""
        return list(marks)

    def extend(self, members: Any, marks: Sequence[Any], _times: Sequence[int] | Numbers, /) -> None:
        """Adds members to a page, which may have them already."""
        members += marks

    def collect(self, members: Any, low: int, high: int, /) -> PageContent:
        """Returns the rows of a page."""
        raise NotImplementedError

    def count(self, rows: list[PageRow], /) -> int:
        """Returns the number of store rows that rows of a page stand for."""
        return len(rows)

    def insert(self, rows: list[PageRow], overlay: dict[Any, Any] | None, sequence: int, /) -> Any:
        """Loads the rows of a page, except those that have changed since; returns the members.

        Args:
            rows: The rows in the page.
            overlay: The changes since the page was written, by changelog key; if they are not absolute, by sequence
                number and position.
            sequence: The last change that the page contains.
        """
        raise NotImplementedError

    def evict(self, members: Any, low: int, high: int, /) -> None:
        """Drops the rows of a page from memory."""
        raise NotImplementedError


def joined(parts: Sequence[MarkedChanges]) -> MarkedChanges:
    """Returns the concatenation of changes."""
    if len(parts) == 1:
        return parts[0]

    def column(columns: Iterable[Sequence[Any]]) -> list[Any]:
        return list(chain.from_iterable(columns))

    return MarkedChanges(
        column(part.marks for part in parts),
        np.concatenate([no_times([]), *(part.times for part in parts)]),
        column(part.names for part in parts),
        concatenated([part.changes for part in parts]),
    )
