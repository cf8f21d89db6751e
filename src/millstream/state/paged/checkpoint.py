"""The state of a task whose changes are in changelogs: pages in a flat map, without a log."""

from __future__ import annotations

from typing import Any, NamedTuple

from millstream.errors import StateError
from millstream.state.codec import Codec
from millstream.state.memory import AnyStore
from millstream.state.paged.format import MANIFEST_KEY, Manifest, encode_manifest
from millstream.state.paged.history import PagedHistoryStore
from millstream.state.paged.pages import Page
from millstream.state.paged.state import FetchValues, PagedState, Writes
from millstream.state.paged.store import PagedStore
from millstream.state.spec import StoreSpec

_ROW = 200
"""The estimated memory of a row that is not in a page yet."""


class Checkpoint(NamedTuple):
    """Pages to write to the map.

    Attributes:
        writes: The writes, which are applied together or not at all.
        sequence: The number of the last `CheckpointedState.advance`.
        complete: The pages in the map then contain all changes up to the advance of this number. Some contain later
            ones too.
    """

    writes: Writes
    sequence: int
    complete: int


class CheckpointedState(PagedState):
    """The stores of one task, whose changes are in changelogs. The map of pages is a checkpoint, which trails them.

    The truth is in the changelogs: the map contains the stores as of an earlier point, and the changelogs are replayed
    from there. All changes are absolute. So it does no harm to replay changes that a page already contains, and pages
    can be written at any time, a few at once. (A `PagedState` writes a log segment with each batch instead.)

    The task calls ``changes`` of its stores at each publication. From time to time, right after it, the task calls
    ``advance``, which assigns the changed rows to pages; a row that changed in many publications costs once. Between
    two advances the task calls ``checkpoint``, each time for some of the dirty pages, the oldest first. The caller
    remembers how far the changelogs were at each advance. They are replayed from the point of ``Checkpoint.complete``.

    Args:
        fetch: Reads values of the map; None for keys that do not exist.
        memory_limit: The approximate bytes that rows in memory may take.
        page_bytes: The size of a page at which buckets are added.
        written: Pages are written. Otherwise all rows stay in memory, and the methods for checkpoints must not be used.
    """

    def __init__(self, fetch: FetchValues, *, memory_limit: int, page_bytes: int = 8192, written: bool = True) -> None:
        super().__init__(fetch, memory_limit=memory_limit, page_bytes=page_bytes)
        self._written = written
        self._paged: dict[str, PagedStore] = {}

    def _new_store(self, kind: str, spec: StoreSpec, codec: Codec) -> PagedStore:
        store = PagedHistoryStore(spec, codec) if kind == "versioned" else super()._new_store(kind, spec, codec)
        store.leave_log(written=self._written)
        self._paged[spec.name] = store
        return store

    def commit(self, extra: bytes) -> Writes:
        raise NotImplementedError("a checkpointed state has no batches")

    @property
    def sequence(self) -> int:
        """The number of the last advance."""
        return self._manifest.sequence

    @property
    def stored_kinds(self) -> dict[str, str]:
        """The kinds of the stores in the map that was loaded, by name."""
        return {entry.name: entry.kind for entry in self._manifest.stores}

    @property
    def stores(self) -> dict[str, AnyStore]:
        """The open stores by name."""
        return self._stores

    @property
    def floors(self) -> dict[str, int]:
        """The time up to which rows have expired, of each store that has one."""
        return {name: store.floor for name, store in self._paged.items() if store.time is not None}

    @property
    def counters(self) -> dict[str, int]:
        """The last sequence number of each store that numbers its rows."""
        return {name: store.counter for name, store in self._paged.items() if store.spec.duplicates}

    def resume(self, name: str, time: int | None, counter: int | None) -> None:
        """Sets the time of a store, if it is later than its own, and its counter, where they are given."""
        store = self._paged[name]
        own = store.time
        if own is not None:
            later = own if time is None else max(time, own)
            store.resume(later, store.counter if counter is None else counter)

    @property
    def changed_rows(self) -> int:
        """The number of rows that changed since the last advance."""
        return sum(store.since_size() for store in self._paged.values())

    @property
    def dirty_pages(self) -> int:
        """The number of pages with changes that the map does not have, without those since the last advance."""
        return len(self._cache.dirty)

    @property
    def is_over_limit(self) -> bool:
        """Whether rows take more memory than the limit, so that pages must be written for others to be evicted."""
        return self.memory + _ROW * self.changed_rows > self._cache.limit

    def advance(self) -> None:
        """Assigns the rows that changed since the last advance to pages.

        Raises:
            StateError: A store has changes that its ``changes`` has not returned: they may never be committed.
        """
        for store in self._paged.values():
            if store.has_changes():
                raise StateError(f"store {store.spec.name!r} has changes that were not published")
        before = self._manifest
        obsolete = self._obsolete()
        for pager in self._pagers.values():
            pager.log_changes(before.sequence + 1)
        self._manifest = Manifest(before.sequence + 1, before.sequence + 2, before.stores, obsolete)

    def checkpoint(self, pages: int | None = None) -> Checkpoint:
        """Writes back dirty pages.

        Args:
            pages: How many; None for all. Pages that have grown, and those that must leave memory, come in addition.
        """
        cache, sequence = self._cache, self._manifest.sequence
        due: dict[Page, None] = cache.due(len(cache.dirty) if pages is None else pages, 0)
        due.update(dict.fromkeys(cache.dirty_victims()))
        puts, deletes = self._write_back(due, sequence)
        deleted, obsolete = self._delete_obsolete(self._manifest.obsolete)
        self._manifest = Manifest(sequence, sequence + 1, self._store_manifests(), obsolete)
        puts[MANIFEST_KEY] = encode_manifest(self._manifest)
        cache.begin_batch()
        if not self.changed_rows:
            cache.evict()
        complete = cache.low_water(sequence) - 1
        writes = Writes(list(puts.items()), [key for key in deletes + deleted if key not in puts])
        return Checkpoint(writes, sequence, complete)

    def figures(self, sizes: Any = None) -> dict[str, int]:
        figures = super().figures(sizes)
        del figures["log-weight"], figures["log-bytes-written"]
        return {**figures, "rows-changed": self.changed_rows}
