"""The state of a task in a flat remote map: its stores, by page, with a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from millstream.errors import StateError
from millstream.state.codec import FOREVER, Codec
from millstream.state.coded import coded
from millstream.state.memory import AnyStore, check_spec
from millstream.state.paged.buffer import PagedBufferStore
from millstream.state.paged.format import (
    MANIFEST_KEY,
    Manifest,
    StoreEntry,
    count_pieces,
    decode_log,
    decode_manifest,
    encode_log,
    encode_manifest,
    log_key,
    page_key,
)
from millstream.state.paged.key_value import PagedKeyValueStore
from millstream.state.paged.log import Log
from millstream.state.paged.page_cache import Residence
from millstream.state.paged.pager import Pager
from millstream.state.paged.pages import Page, Segment
from millstream.state.paged.sorted_rows import PagedDuplicatesStore, PagedSessionStore
from millstream.state.paged.versioned import PagedVersionedStore
from millstream.state.paged.window import PagedWindowStore
from millstream.state.spec import ChangelogRecord, StoreSpec

_MB = 1 << 20
_SMALL = 8 * _MB
_DOOMED_AT_ONCE = 64
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


class Writes(NamedTuple):
    """What is to be written to the remote map, all of it or nothing."""

    puts: list[tuple[bytes, bytes]]
    deletes: list[bytes]


_LONG = 0.001
_SELDOM = 100
"""If counting rows takes longer than `_LONG` seconds, they are counted again after so many times as long."""


def segment_width(spec: StoreSpec) -> int:
    """Returns the length of the time segments of a store: a small part of its retention; without one, all of time.

    Windows that do not change any more are then in pages that nobody writes again.
    """
    if spec.retention_ms is None:
        return FOREVER
    return max(spec.retention_ms // _SEGMENTS, _SHORTEST_SEGMENT)


class StoreSize(NamedTuple):
    """How large a store is.

    Attributes:
        rows: About how many rows it has.
        memory: About how many bytes those take that are in memory.
        stored: How many bytes its pages in the remote map have.
    """

    rows: int
    memory: int
    stored: int


class PagedState:
    """The stores of one task, kept in a flat map of bytes that is dear to read and write.

    Rows are in pages of some kilobytes, which are read when they are first needed and stay in memory between batches.
    A batch writes its changes as a segment of a log; pages are written later, a few in each batch, and the segments
    that no page needs any more are deleted. So what a batch costs follows from what it changes.

    A task calls ``load`` once, then ``open`` for each store of its topology, and then ``commit`` after every batch.
    What ``commit`` returns must be applied to the map in one step. If that fails, or anything here raises an error,
    what is in memory is worth nothing: make a new state from the map.

    Args:
        fetch: Reads values of the map, None for those that are not there.
        memory_limit: About how many bytes rows in memory may take between batches.
        log_limit: About how many bytes of log there may be; by default as many as the pages have, or a quarter of what
            they take in memory, from 16 to 64 MB.
        page_bytes: How large pages grow before there is one more.
    """

    def __init__(
        self,
        fetch: Callable[[list[bytes]], list[bytes | None]],
        *,
        memory_limit: int,
        log_limit: int | None = None,
        page_bytes: int = 8192,
    ) -> None:
        self._residence = Residence(fetch, memory_limit, page_bytes)
        self._log_limit = log_limit
        self._log = Log()
        self._manifest = Manifest()
        self._known: dict[str, StoreEntry] = {}
        self._replay: dict[int, list[tuple[int, list[ChangelogRecord]]]] = {}
        self._pagers: dict[str, Pager] = {}
        self._stores: dict[str, AnyStore] = {}
        self._late: set[str] = set()
        self._next_id = 0
        self._committed = False
        self._small = True
        self._credit = 0.0
        self._folded = 0
        self._log_bytes = 0
        self._rows: dict[str, int] = {}
        self._count_again = 0.0

    # ----- opening ---------------------------------------------------------------------------------------------------

    def load(self, manifest: bytes | None) -> bytes | None:
        """Reads what there is: the manifest, which the caller has read, and the log.

        Returns:
            What the last commit was given as ``extra``; None if there was none.

        Raises:
            StateError: The state is damaged, or written by a version that this one does not know.
        """
        if manifest is None:
            return None
        self._manifest = decode_manifest(manifest)
        self._known = {entry.name: entry for entry in self._manifest.stores}
        taken = [entry.id for entry in self._manifest.stores] + [store for store, _, _ in self._manifest.doomed]
        self._next_id = max(taken, default=-1) + 1
        self._load_log()
        stored = sum(segment.bytes for entry in self._manifest.stores for segment in entry.segments)
        total = stored + self._log.weight
        self._small = total < _SMALL and total < self._residence.limit // 2
        return self._manifest.extra

    def _load_log(self) -> None:
        fetch = self._residence.fetch
        sequences = range(self._manifest.low, self._manifest.sequence + 1)
        firsts = fetch([log_key(sequence, 0) for sequence in sequences]) if sequences else []
        for sequence, first in zip(sequences, firsts, strict=True):
            keys = [log_key(sequence, piece) for piece in range(count_pieces(first, sequence))]
            pieces = [first, *(fetch(keys[1:]) if keys[1:] else [])]
            for store, records in decode_log(pieces, sequence):
                self._replay.setdefault(store, []).append((sequence, records))
            self._log.add(sequence, [(key, piece or b"") for key, piece in zip(keys, pieces, strict=True)])

    def open(self, spec: StoreSpec) -> AnyStore:
        """Opens a store, with the rows that it had; the same one again if it is open.

        It behaves as one that ``open_store`` makes, but notes its changes whether the specification says so or not.
        All stores of the topology must be open before the first commit: what is not is no longer part of it, and its
        rows are deleted.

        Raises:
            StateError: The specification contradicts itself; or the store had rows, and was not open in time.
        """
        if spec.name in self._stores:
            return self._stores[spec.name]
        check_spec(spec)
        if spec.name in self._late:
            raise StateError(
                f"store {spec.name!r} was opened after the first batch had ended, when its rows were given up",
                hint="open all stores of the topology before the first batch ends",
            )
        kind = "duplicates" if spec.duplicates else "grouped" if spec.grouped else spec.kind
        codec = Codec(spec)
        rows = _CLASSES[kind](spec, codec)
        entry = self._known.get(spec.name)
        if entry is None or entry.kind != kind:
            entry = StoreEntry(self._next_id, spec.name, kind, segment_width(spec), -1, 0, [])
        else:
            del self._known[spec.name]
        self._next_id = max(self._next_id, entry.id + 1)
        pager = self._pagers[spec.name] = Pager(self._residence, entry, rows, codec)
        for sequence, records in self._replay.pop(entry.id, []):
            pager.replay(sequence, records)
        if self._small or rows.pinned:
            pager.load_between(-FOREVER, FOREVER)
        store: AnyStore = coded(spec, rows)
        self._stores[spec.name] = store
        return store

    # ----- batches ---------------------------------------------------------------------------------------------------

    def changes(self, stores: Collection[str] | None = None) -> dict[str, list[ChangelogRecord]]:
        """Returns what changed in some stores, or all, since the last call: the records of their changelogs."""
        asked = {name: store for name, store in self._stores.items() if stores is None or name in stores}
        found = {name: store.changes() for name, store in asked.items()}
        return {name: records for name, records in found.items() if records}

    def commit(self, extra: bytes) -> Writes:
        """Ends a batch.

        Args:
            extra: What the caller wants to find again with the state.

        Returns:
            What to write; nothing if nothing has changed.
        """
        doomed = list(self._manifest.doomed)
        if not self._committed:
            doomed += self._give_up_unopened()
        sequence = self._manifest.sequence + 1
        for pager in self._pagers.values():
            doomed += [(pager.id, gone.number, gone.buckets) for gone in pager.drop_expired() if gone.bytes]
        changed = [(pager.id, pager.note(sequence)) for pager in self._pagers.values()]
        logged = [(store, changes) for store, changes in changed if changes.keys]
        stores = self._entries()
        before = self._manifest
        self._residence.new_batch()
        if not logged and (stores, doomed, extra) == (before.stores, before.doomed, before.extra):
            self._residence.evict_unused()
            return Writes([], [])
        pieces: list[tuple[bytes, bytes]] = []
        if logged:
            pieces = encode_log(sequence, logged)
            self._log.add(sequence, pieces)
        else:
            sequence -= 1
        puts, deletes = self._fold(self._due(pieces), sequence)
        low = self._residence.low_water(sequence)
        needless = self._log.drop_below(low)
        if low <= sequence:
            puts.update(pieces)
            self._log_bytes += sum(len(data) for _, data in pieces)
        else:  # all of the batch is in pages already
            needless = needless[: len(needless) - len(pieces)]
        deletes += needless
        gone, doomed = self._delete_some(doomed)
        deletes += gone
        stores = self._entries()
        self._manifest = Manifest(sequence, low, stores, doomed, extra)
        puts[MANIFEST_KEY] = encode_manifest(self._manifest)
        self._residence.evict_unused()
        return Writes(list(puts.items()), [key for key in deletes if key not in puts])

    def _entries(self) -> list[StoreEntry]:
        entries = [entry for pager in self._pagers.values() if (entry := pager.entry()) is not None]
        return sorted(entries, key=lambda entry: entry.id)

    def _give_up_unopened(self) -> list[tuple[int, int, int]]:
        """Forgets the stores that the topology has no more; returns their pages."""
        self._committed = True
        self._residence.sort_dirty()
        self._late = self._known.keys() - self._stores.keys()
        self._replay.clear()
        gone, self._known = self._known, {}
        return [
            (entry.id, each.number, each.buckets) for entry in gone.values() for each in entry.segments if each.bytes
        ]

    def _due(self, pieces: list[tuple[bytes, bytes]]) -> dict[Page, None]:
        """Which pages to write in this batch.

        In so many batches as fill the log to four fifths of its limit, as many pages are written as are dirty, the
        oldest first: each is written once in that time, and the segments that it needed can go.
        """
        limit = self._log_limit
        if limit is None:
            limit = min(max(self.stored_bytes, self.memory // 4, 16 * _MB), 64 * _MB)
        if pieces:
            self._credit += 1.25 * Log.weight_of(pieces) * len(self._residence.dirty) / max(limit, 1)
        count = int(self._credit)
        self._credit -= count
        pages = self._residence.due(count, self._log.must_go(limit))
        pages.update(dict.fromkeys(self._residence.in_the_way()))
        return pages

    def _fold(self, pages: dict[Page, None], sequence: int) -> tuple[dict[bytes, bytes], list[bytes]]:
        segments: dict[Segment, list[Page]] = {}
        for segment in {page.segment for page in pages if not page.segment.bytes}:
            before = segment.buckets
            segment.pager.settle(segment)
            if segment.buckets != before:  # all of its pages are others
                pages = {page: None for page in pages if page.segment is not segment}
                pages.update({page: None for page in segment.pages.values() if page.dirty})
        for page in pages:
            segments.setdefault(page.segment, []).append(page)
        puts: dict[bytes, bytes] = {}
        deletes: list[bytes] = []
        for segment, some in segments.items():
            written, removed = segment.pager.fold(segment, some, sequence)
            puts.update(written)
            deletes += removed
        self._folded += len(puts)
        return puts, deletes

    def _delete_some(self, doomed: list[tuple[int, int, int]]) -> tuple[list[bytes], list[tuple[int, int, int]]]:
        """Deletes some of the pages that must go; returns their keys, and what is left.

        All those of a segment at once, if there is a new one of that number, which needs their keys.
        """
        live = {(pager.id, number) for pager in self._pagers.values() for number in pager.segments}
        allowed = max(_DOOMED_AT_ONCE, sum(buckets for _, _, buckets in doomed) // 8)
        keys: list[bytes] = []
        left: list[tuple[int, int, int]] = []
        for store, segment, buckets in doomed:
            keep = 0 if (store, segment) in live else max(buckets - max(allowed - len(keys), 0), 0)
            keys += [page_key(store, segment, bucket) for bucket in range(keep, buckets)]
            if keep:
                left.append((store, segment, keep))
        return keys, left

    # ----- figures ---------------------------------------------------------------------------------------------------

    @property
    def memory_limit(self) -> int:
        """About how many bytes rows in memory may take between batches. To be changed only there.

        If it becomes less, what is written already goes at once, and the rest when the next batch ends.
        """
        return self._residence.limit

    @memory_limit.setter
    def memory_limit(self, limit: int) -> None:
        if limit != self._residence.limit:
            self._residence.limit = limit
            self._residence.new_batch()
            self._residence.evict_unused()

    @property
    def memory(self) -> int:
        """About how many bytes the rows in memory take."""
        return self._residence.memory

    @property
    def stored_bytes(self) -> int:
        """How many bytes the pages in the remote map have."""
        return sum(pager.stored for pager in self._pagers.values())

    def sizes(self) -> dict[str, StoreSize]:
        """Returns how large each store is.

        Some stores count their rows by looking at all keys. Where that takes long, it is done once in a while.
        """
        begin = time.perf_counter()
        if begin >= self._count_again:
            self._rows = {name: len(store) for name, store in self._stores.items()}
            end = time.perf_counter()
            self._count_again = end + (_SELDOM * (end - begin) if end - begin > _LONG else 0)
        return {
            name: StoreSize(self._rows.get(name, 0), self._pagers[name].memory, self._pagers[name].stored)
            for name in self._stores
        }

    def figures(self, sizes: Mapping[str, StoreSize] | None = None) -> dict[str, int]:
        """Returns what there is to know for metrics: what there is now, and how often what was done.

        Args:
            sizes: Those of the stores, if the caller has them already.
        """
        pagers = self._pagers.values()
        return {
            "memory": self.memory,
            "rows": sum(size.rows for size in (sizes or self.sizes()).values()),
            "pages": sum(s.buckets for pager in pagers for s in pager.segments.values()),
            "pages-resident": sum(pager.resident for pager in pagers),
            "pages-dirty": len(self._residence.dirty),
            "stored-bytes": self.stored_bytes,
            "log-weight": self._log.weight,
            "log-bytes-written": self._log_bytes,
            "pages-loaded": self._residence.loaded,
            "pages-folded": self._folded,
            "pages-evicted": self._residence.evicted,
        }
