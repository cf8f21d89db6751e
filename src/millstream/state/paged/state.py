"""The state of a task in a flat remote map: its stores in pages, with a log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeAlias

from millstream.errors import StateError
from millstream.state.codec import FOREVER, Codec
from millstream.state.coded import coded
from millstream.state.memory import AnyStore, check_spec
from millstream.state.paged.buffer import PagedBufferStore
from millstream.state.paged.format import (
    MANIFEST_KEY,
    Manifest,
    StoreManifest,
    count_pieces,
    decode_log,
    decode_manifest,
    encode_log,
    encode_manifest,
    log_key,
    page_key,
)
from millstream.state.paged.key_value import PagedKeyValueStore
from millstream.state.paged.log_index import LogIndex
from millstream.state.paged.page_cache import PageCache
from millstream.state.paged.pager import Pager
from millstream.state.paged.pages import Page, Segment
from millstream.state.paged.sizes import RowCounter, StoreSize
from millstream.state.paged.sorted_rows import PagedDuplicatesStore, PagedSessionStore
from millstream.state.paged.store import PagedStore
from millstream.state.paged.versioned import PagedVersionedStore
from millstream.state.paged.window import PagedWindowStore
from millstream.state.spec import ChangelogRecord, StoreSpec

_MB = 1 << 20
_SMALL = 8 * _MB
_DELETED_AT_ONCE = 64
_SHORTEST_SEGMENT = 1000
_SEGMENTS = 256

_CLASSES: dict[str, Any] = {
    "key-value": PagedKeyValueStore,
    "grouped": PagedKeyValueStore,
    "window": PagedWindowStore,
    "duplicates": PagedDuplicatesStore,
    "session": PagedSessionStore,
    "versioned": PagedVersionedStore,
    "buffer": PagedBufferStore,
}


FetchValues: TypeAlias = Callable[[list[bytes]], list[bytes | None]]
"""Reads values of the remote map; None for keys that do not exist."""


class Writes(NamedTuple):
    """The writes of a commit to the remote map, which are applied together or not at all."""

    puts: list[tuple[bytes, bytes]]
    deletes: list[bytes]


def segment_width(spec: StoreSpec) -> int:
    """Returns the length of the time segments of a store: a fraction of its retention; without one, all of time.

    Windows that no longer change are then in pages that are not written again.
    """
    if spec.retention_ms is None:
        return FOREVER
    return max(spec.retention_ms // _SEGMENTS, _SHORTEST_SEGMENT)


def kind_of(spec: StoreSpec) -> str:
    """Returns the kind of a store in the map."""
    return "duplicates" if spec.duplicates else "grouped" if spec.grouped else spec.kind


class PagedState:
    """The stores of one task, in a flat map of bytes whose reads and writes are expensive.

    Rows are in pages of some kilobytes, which are read on first use and stay in memory between batches. A commit writes
    the changes of its batch as a log segment, and writes back a few dirty pages. Log segments that no page needs are
    deleted. So the cost of a batch follows from its changes, not from the size of the state.

    A task calls ``load`` once, then ``open`` for each store of its topology, and then ``commit`` after every batch.
    The writes of a commit must be applied to the map together. If that fails, or a method raises an error, discard the
    object and make a new one from the map.

    Args:
        fetch: Reads values of the map; None for keys that do not exist.
        memory_limit: The approximate bytes that rows in memory may take between batches.
        log_limit: The approximate bytes of the log; by default those of the pages, or a quarter of their memory if that
            is more, from 16 to 64 MB.
        page_bytes: The size of a page at which buckets are added.
    """

    def __init__(
        self,
        fetch: FetchValues,
        *,
        memory_limit: int,
        log_limit: int | None = None,
        page_bytes: int = 8192,
    ) -> None:
        self._cache = PageCache(fetch, memory_limit, page_bytes)
        self._log_limit = log_limit
        self._log = LogIndex()
        self._manifest = Manifest()
        self._unopened: dict[str, StoreManifest] = {}
        self._replay: dict[int, list[tuple[int, list[ChangelogRecord]]]] = {}
        self._pagers: dict[str, Pager] = {}
        self._stores: dict[str, AnyStore] = {}
        self._dropped: set[str] = set()
        self._next_id = 0
        self._committed = False
        self._small = True
        self._credit = 0.0
        self._pages_written = 0
        self._log_bytes = 0
        self._row_counter = RowCounter()

    # ----- opening ---------------------------------------------------------------------------------------------------

    def load(self, manifest: bytes | None) -> bytes | None:
        """Loads the manifest, which the caller has read, and the log.

        Returns:
            The ``extra`` of the last commit; None if there was no commit.

        Raises:
            StateError: The state is damaged or has another format.
        """
        if manifest is None:
            return None
        self._manifest = decode_manifest(manifest)
        self._unopened = {entry.name: entry for entry in self._manifest.stores}
        ids = [entry.id for entry in self._manifest.stores] + [store for store, _, _ in self._manifest.obsolete]
        self._next_id = max(ids, default=-1) + 1
        self._load_log()
        stored = sum(segment.bytes for entry in self._manifest.stores for segment in entry.segments)
        total = stored + self._log.weight
        self._small = total < _SMALL and total < self._cache.limit // 2
        return self._manifest.extra

    def _load_log(self) -> None:
        fetch = self._cache.fetch
        sequences = range(self._manifest.low, self._manifest.sequence + 1)
        firsts = fetch([log_key(sequence, 0) for sequence in sequences]) if sequences else []
        for sequence, first in zip(sequences, firsts, strict=True):
            keys = [log_key(sequence, piece) for piece in range(count_pieces(first, sequence))]
            pieces = [first, *(fetch(keys[1:]) if keys[1:] else [])]
            for store, records in decode_log(pieces, sequence):
                self._replay.setdefault(store, []).append((sequence, records))
            self._log.add(sequence, [(key, piece or b"") for key, piece in zip(keys, pieces, strict=True)])

    def open(self, spec: StoreSpec) -> AnyStore:
        """Opens a store with the rows of the last commit; returns the open one if it is open.

        The store behaves as one of ``open_store``, but records its changes even if it is not logged. Open all stores of
        the topology before the first commit, which deletes the rows of the others.

        Raises:
            StateError: The specification is contradictory; or the first commit has deleted the rows of the store.
        """
        if spec.name in self._stores:
            return self._stores[spec.name]
        check_spec(spec)
        if spec.name in self._dropped:
            raise StateError(
                f"store {spec.name!r} was opened after the first batch, which has deleted its rows",
                hint="open all stores of the topology before the first batch ends",
            )
        kind = kind_of(spec)
        codec = Codec(spec)
        rows = self._new_store(kind, spec, codec)
        entry = self._unopened.get(spec.name)
        if entry is None or entry.kind != kind:
            entry = StoreManifest(self._next_id, spec.name, kind, segment_width(spec), -1, 0, [])
        else:
            del self._unopened[spec.name]
        self._next_id = max(self._next_id, entry.id + 1)
        pager = self._pagers[spec.name] = Pager(self._cache, entry, rows, codec)
        for sequence, records in self._replay.pop(entry.id, []):
            pager.replay(sequence, records)
        if self._small or rows.pinned:
            pager.load_between(-FOREVER, FOREVER)
        store: AnyStore = coded(spec, rows)
        self._stores[spec.name] = store
        return store

    def _new_store(self, kind: str, spec: StoreSpec, codec: Codec) -> PagedStore:
        store: PagedStore = _CLASSES[kind](spec, codec)
        return store

    # ----- batches ---------------------------------------------------------------------------------------------------

    def changes(self, stores: Collection[str] | None = None) -> dict[str, list[ChangelogRecord]]:
        """Returns the changelog records of some stores, or all, since the last call."""
        selected = {name: store for name, store in self._stores.items() if stores is None or name in stores}
        changes = {name: store.changes() for name, store in selected.items()}
        return {name: records for name, records in changes.items() if records}

    def commit(self, extra: bytes) -> Writes:
        """Ends a batch.

        Args:
            extra: Data of the caller, stored with the state.

        Returns:
            The writes; none if nothing has changed.
        """
        obsolete = self._obsolete()
        sequence = self._manifest.sequence + 1
        changed = [(pager.id, pager.log_changes(sequence)) for pager in self._pagers.values()]
        logged = [(store, changes) for store, changes in changed if changes.keys]
        stores = self._store_manifests()
        before = self._manifest
        self._cache.begin_batch()
        if not logged and (stores, obsolete, extra) == (before.stores, before.obsolete, before.extra):
            self._cache.evict()
            return Writes([], [])
        pieces: list[tuple[bytes, bytes]] = []
        if logged:
            pieces = encode_log(sequence, logged)
            self._log.add(sequence, pieces)
        else:
            sequence -= 1
        puts, deletes = self._write_back(self._due(pieces), sequence)
        low = self._cache.low_water(sequence)
        unneeded = self._log.drop_below(low)
        if low <= sequence:
            puts.update(pieces)
            self._log_bytes += sum(len(data) for _, data in pieces)
        else:  # all changes of the batch are in pages: its log segment is not written
            unneeded = unneeded[: len(unneeded) - len(pieces)]
        deletes += unneeded
        deleted, obsolete = self._delete_obsolete(obsolete)
        deletes += deleted
        stores = self._store_manifests()
        self._manifest = Manifest(sequence, low, stores, obsolete, extra)
        puts[MANIFEST_KEY] = encode_manifest(self._manifest)
        self._cache.evict()
        return Writes(list(puts.items()), [key for key in deletes if key not in puts])

    def _obsolete(self) -> list[tuple[int, int, int]]:
        """Drops what no store needs any more; returns the pages to delete, with those that are left from before."""
        obsolete = list(self._manifest.obsolete)
        if not self._committed:
            obsolete += self._drop_unopened()
        for pager in self._pagers.values():
            obsolete += [(pager.id, gone.number, gone.buckets) for gone in pager.drop_expired() if gone.bytes]
        return obsolete

    def _store_manifests(self) -> list[StoreManifest]:
        entries = [entry for pager in self._pagers.values() if (entry := pager.manifest()) is not None]
        return sorted(entries, key=lambda entry: entry.id)

    def _drop_unopened(self) -> list[tuple[int, int, int]]:
        """Drops the stores that the topology no longer has; returns their pages."""
        self._committed = True
        self._cache.sort_dirty()
        self._dropped = self._unopened.keys() - self._stores.keys()
        self._replay.clear()
        dropped, self._unopened = self._unopened, {}
        return [
            (entry.id, segment.number, segment.buckets)
            for entry in dropped.values()
            for segment in entry.segments
            if segment.bytes
        ]

    def _due(self, pieces: list[tuple[bytes, bytes]]) -> dict[Page, None]:
        """Returns the pages to write back in this batch.

        While the log fills to four fifths of its limit, every dirty page is written back once, the oldest first, so
        that the log segments can be deleted.
        """
        limit = self._log_limit
        if limit is None:
            limit = min(max(self.stored_bytes, self.memory // 4, 16 * _MB), 64 * _MB)
        if pieces:
            self._credit += 1.25 * LogIndex.weight_of(pieces) * len(self._cache.dirty) / max(limit, 1)
        count = int(self._credit)
        self._credit -= count
        pages = self._cache.due(count, self._log.excess(limit))
        pages.update(dict.fromkeys(self._cache.dirty_victims()))
        return pages

    def _write_back(self, pages: dict[Page, None], sequence: int) -> tuple[dict[bytes, bytes], list[bytes]]:
        segments: dict[Segment, list[Page]] = {}
        for segment in {page.segment for page in pages if not page.segment.bytes}:
            before = segment.buckets
            segment.pager.writer.resize_unwritten(segment)
            if segment.buckets != before:  # its pages were replaced
                pages = {page: None for page in pages if page.segment is not segment}
                pages.update({page: None for page in segment.pages.values() if page.dirty})
        for page in pages:
            segments.setdefault(page.segment, []).append(page)
        puts: dict[bytes, bytes] = {}
        deletes: list[bytes] = []
        for segment, own in segments.items():
            written, removed = segment.pager.writer.write_back(segment, own, sequence)
            puts.update(written)
            deletes += removed
        self._pages_written += len(puts)
        return puts, deletes

    def _delete_obsolete(self, obsolete: list[tuple[int, int, int]]) -> tuple[list[bytes], list[tuple[int, int, int]]]:
        """Chooses obsolete pages to delete; returns their keys, and the pages that are left.

        If a new segment has the number of an obsolete one, all its pages are deleted, because the keys are the same.
        """
        live = {(pager.id, number) for pager in self._pagers.values() for number in pager.segments}
        allowed = max(_DELETED_AT_ONCE, sum(buckets for _, _, buckets in obsolete) // 8)
        keys: list[bytes] = []
        left: list[tuple[int, int, int]] = []
        for store, segment, buckets in obsolete:
            keep = 0 if (store, segment) in live else max(buckets - max(allowed - len(keys), 0), 0)
            keys += [page_key(store, segment, bucket) for bucket in range(keep, buckets)]
            if keep:
                left.append((store, segment, keep))
        return keys, left

    # ----- figures ---------------------------------------------------------------------------------------------------

    @property
    def memory_limit(self) -> int:
        """The approximate bytes that rows in memory may take between batches. Set it only between batches.

        If it is lowered, clean pages are evicted at once, and dirty ones with the next commit.
        """
        return self._cache.limit

    @memory_limit.setter
    def memory_limit(self, limit: int) -> None:
        if limit != self._cache.limit:
            self._cache.limit = limit
            self._cache.begin_batch()
            self._cache.evict()

    @property
    def memory(self) -> int:
        """The estimated bytes of the rows in memory."""
        return self._cache.memory

    @property
    def stored_bytes(self) -> int:
        """The bytes of the pages in the remote map."""
        return sum(pager.stored for pager in self._pagers.values())

    def sizes(self) -> dict[str, StoreSize]:
        """Returns the size of each store. Row counts that take long are reused for a while."""
        return self._row_counter.sizes(self._stores, self._pagers)

    def figures(self, sizes: Mapping[str, StoreSize] | None = None) -> dict[str, int]:
        """Returns figures for metrics: current sizes, and counts of operations.

        Args:
            sizes: The sizes of the stores, if known.
        """
        pagers = self._pagers.values()
        return {
            "memory": self.memory,
            "rows": sum(size.rows for size in (sizes or self.sizes()).values()),
            "pages": sum(s.buckets for pager in pagers for s in pager.segments.values()),
            "pages-resident": sum(pager.resident for pager in pagers),
            "pages-dirty": len(self._cache.dirty),
            "stored-bytes": self.stored_bytes,
            "log-weight": self._log.weight,
            "log-bytes-written": self._log_bytes,
            "pages-loaded": self._cache.loaded,
            "pages-written": self._pages_written,
            "pages-evicted": self._cache.evicted,
        }
