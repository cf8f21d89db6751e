"""The pages of one store: loading, eviction, and the changes in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from millstream.state.codec import FOREVER, Codec
from millstream.state.paged.format import Numbers, PageRow, SegmentManifest, StoreManifest, decode_page
from millstream.state.paged.key_value import group_of
from millstream.state.paged.pages import Page, Segment
from millstream.state.paged.store import PageContent, PagedStore
from millstream.state.paged.write_back import PageWriter
from millstream.state.spec import ChangelogRecord, Changes

if TYPE_CHECKING:
    from millstream.state.paged.page_cache import PageCache

_AT_ONCE = 256
"""How many pages one request fetches, so that the bytes of a large store are not in memory at the same time."""

_SAMPLE = 1000
_OVERLAY_RECORD = 250
"""The estimated memory of a record in an overlay, besides its bytes."""


class Pager:
    """The pages of one store. It is the `RowLoader` of the store while some of them are not in memory.

    Attributes:
        segments: The time segments by number.
        width: The length of a time segment.
        memory: The estimated bytes of the pages in memory; maintained by the `PageCache`.
        writer: Writes pages back.
    """

    def __init__(self, cache: PageCache, entry: StoreManifest, store: PagedStore, codec: Codec) -> None:
        self.id = entry.id
        self.name = entry.name
        self.kind = entry.kind
        self.width = entry.width
        self.store = store
        self.memory = 0
        self.cache = cache
        self.writer = PageWriter(self)
        self._key_out = codec.key_out
        self._grouped = store.spec.grouped
        self.segments = {segment.number: Segment(self, segment) for segment in entry.segments}
        self._absent = sum(segment.buckets - segment.resident for segment in self.segments.values())
        store.resume(entry.time, entry.counter)
        self.add_absent(0)

    def manifest(self) -> StoreManifest | None:
        """Returns the entry of the store in the manifest; None if the store is empty and has no time."""
        time = -1 if self.store.time is None else self.store.time
        if not self.segments and time == -1:
            return None
        segments = [segment.manifest() for segment in self.segments.values()]
        return StoreManifest(self.id, self.name, self.kind, self.width, time, self.store.counter, segments)

    @property
    def resident(self) -> int:
        """The number of pages in memory."""
        return sum(segment.resident for segment in self.segments.values())

    @property
    def stored(self) -> int:
        """The bytes of the pages in the remote map."""
        return sum(segment.bytes for segment in self.segments.values())

    @property
    def rows(self) -> int:
        return sum(s.rows * (s.buckets - s.resident) // s.buckets for s in self.segments.values())

    def add_absent(self, change: int) -> None:
        """Adds to the number of pages that are not in memory."""
        self._absent += change
        self.store.loader = self if self._absent else None

    # ----- loading and eviction --------------------------------------------------------------------------------------

    def load_key(self, key: Any, low: int, high: int, /) -> None:
        name = self._key_out(key)
        self._load_name(group_of(name) if self._grouped else name, low, high)

    def load_keys(self, keys: Iterable[Any], low: int, high: int, /) -> None:
        names = list(map(self._key_out, keys))
        hashes = np.fromiter(map(crc32, map(group_of, names) if self._grouped else names), np.int64, len(names))
        pages = [
            segment.page(bucket)
            for segment in self._between(low, high)
            for bucket in np.unique(segment.buckets_of(hashes)).tolist()
        ]
        self._load_absent(pages)

    def load_between(self, low: int, high: int, /) -> None:
        for segment in self._between(low, high):
            if segment.resident < segment.buckets:
                pages = map(segment.page, range(segment.buckets)) if segment.bytes else segment.pages.values()
                self.load([page for page in pages if page.members is None])

    def load_prefix(self, prefix: bytes, /) -> None:
        if self._grouped and len(prefix) >= 4 + int.from_bytes(prefix[:4], "big"):
            self._load_name(group_of(prefix), 0, 0)
        else:
            self.load_between(0, 0)

    def _load_name(self, name: bytes, low: int, high: int) -> None:
        value = crc32(name)
        self._load_absent([segment.page_of(value) for segment in self._between(low, high)])

    def _load_absent(self, pages: list[Page]) -> None:
        absent = [page for page in pages if page.members is None]
        if absent:
            self.load(absent)
            self.cache.make_room(pages)

    def _between(self, low: int, high: int) -> Iterator[Segment]:
        first, last = low // self.width, high // self.width
        return (segment for number, segment in self.segments.items() if first <= number <= last)

    def load(self, pages: list[Page]) -> None:
        """Loads pages that are not in memory."""
        for page, data in self.fetch(pages):
            self.admit(page, data)

    def fetch(self, pages: list[Page]) -> Iterator[tuple[Page, bytes | None]]:
        """Yields pages and their bytes in the remote map."""
        for start in range(0, len(pages), _AT_ONCE):
            chunk = pages[start : start + _AT_ONCE]
            yield from zip(chunk, self.cache.fetch_pages(chunk), strict=True)

    def decode(self, page: Page, data: bytes | None) -> tuple[int, list[PageRow]]:
        """Decodes a page that is not in memory: the sequence number of its last change, and its rows."""
        sequence: int = 0
        rows: list[PageRow] = []
        if page.segment.bytes:
            what = f"page {page.bucket} of segment {page.segment.number} of store {self.name!r}"
            sequence, rows = decode_page(data, what)
        page.stored = 0 if data is None else len(data)
        page.stored_rows = self.store.count(rows)
        return sequence, rows

    def admit(self, page: Page, data: bytes | None) -> None:
        """Inserts the rows of a page, from its bytes and its overlay, into the store."""
        sequence, rows = self.decode(page, data)
        page.members = self.store.insert(rows, page.overlay, sequence)
        page.overlay = None
        page.segment.resident += 1
        self.add_absent(-1)
        self.charge(page, used=True)

    def evict(self, page: Page) -> None:
        """Evicts a clean page."""
        segment = page.segment
        self.store.evict(page.members, segment.low, segment.high)
        page.members = None
        del segment.pages[page.bucket]
        segment.resident -= 1
        self.add_absent(1)
        self.cache.remove(page)

    def charge(self, page: Page, *, used: bool) -> None:
        """Updates the estimated memory of a page."""
        if page.members is None:
            amount = page.pending + _OVERLAY_RECORD * page.records
        else:
            # Half of the logged changes are assumed to replace rows of the remote page.
            cost = self.store.cost
            rows, size = page.stored_rows + page.records / 2, page.stored + page.pending / 2
            amount = int(cost.row * rows + cost.byte * size + cost.member * len(page.members))
        self.cache.charge(page, amount, used=used)

    def collect(self, page: Page) -> PageContent:
        """Returns the rows of a page in memory."""
        return self.store.collect(page.members, page.segment.low, page.segment.high)

    # ----- changes ---------------------------------------------------------------------------------------------------

    def drop_expired(self) -> list[Segment]:
        """Removes the segments whose rows have all expired, and returns them."""
        floor = self.store.floor
        expired = [segment for segment in self.segments.values() if segment.high <= floor]
        for segment in expired:
            for page in segment.pages.values():
                self.cache.mark_clean(page)
                self.cache.remove(page)
            del self.segments[segment.number]
            self.add_absent(segment.resident - segment.buckets)
        return expired

    def log_changes(self, sequence: int) -> Changes:
        """Assigns the changes of the store to pages; returns the changes for the log segment of the commit."""
        marks, times, names, changes = self.store.take()
        if not marks:
            return changes
        numbers = times // self.width if self.width < FOREVER else np.zeros_like(times)
        hashes = np.fromiter(map(crc32, names), np.int64, len(names))
        size = _average_size(changes)
        logged = np.ones(len(marks), np.bool_)
        for number in np.unique(numbers).tolist():
            here = np.flatnonzero(numbers == number)
            segment = self.segments.get(number) or self._new_segment(number, sequence, len(here), size)
            if segment is None:
                logged[here] = False
                continue
            buckets = segment.buckets_of(hashes[here])
            order = np.argsort(buckets, kind="stable")
            places, own_times = here[order].tolist(), times[here[order]]
            own_marks = list(map(marks.__getitem__, places))
            for bucket, begin, end in _groups(buckets[order]):
                page = segment.pages.get(bucket) or segment.page(bucket)
                if page.members is None:
                    for place in places[begin:end]:
                        self._add_to_overlay(page, sequence, tuple(column[place] for column in changes))
                    own = self.store.members(own_marks[begin:end], own_times[begin:end])
                    self.store.evict(own, segment.low, segment.high)
                else:
                    self.store.extend(page.members, own_marks[begin:end], own_times[begin:end])
                self.add_logged(page, end - begin, int(size * (end - begin)), sequence)
            if not segment.bytes:
                self.writer.resize_if_grown(segment)
        return changes if logged.all() else changes.where(logged.tolist())

    def replay(self, sequence: int, records: list[ChangelogRecord]) -> None:
        """Adds the records of a log segment to the overlays of the pages, none of which is in memory."""
        changed: dict[Page, int] = {}
        times, names = self.store.places([record[0] for record in records])
        for record, time, name in zip(records, times.tolist(), names, strict=True):
            segment = self.segments.get(time // self.width)
            if segment is None or sequence < segment.since:
                continue
            page = segment.page_of(crc32(name))
            if page.members is not None:  # a page that was never written counts as empty and in memory
                page.members = None
                segment.resident -= 1
                self.add_absent(1)
            self._add_to_overlay(page, sequence, record)
            changed[page] = changed.get(page, 0) + 1
        size = _average_size(Changes([record[0] for record in records], [record[1] for record in records], []))
        for page, count in changed.items():
            self.add_logged(page, count, int(size * count), sequence)

    def add_logged(self, page: Page, records: int, size: int, sequence: int) -> None:
        """Accounts for changes of a page in the log, which make it dirty."""
        page.records += records
        page.pending += size
        page.segment.pending += size
        self.cache.mark_dirty(page, sequence)
        self.charge(page, used=True)

    def _add_to_overlay(self, page: Page, sequence: int, record: PageRow) -> None:
        if page.overlay is None:
            page.overlay = {}
        page.overlay[record[0] if self.store.absolute else (sequence, len(page.overlay))] = record

    def _new_segment(self, number: int, sequence: int, rows: int, size: float) -> Segment | None:
        """Adds an empty segment in memory, for a number of rows of a size; None if its rows have expired."""
        if (number + 1) * self.width - 1 <= self.store.floor:
            return None
        last = max(self.segments, default=None)
        if last is not None:
            buckets = self.segments[last].buckets  # it will probably be as large as the one before
        elif self.store.has_log:
            buckets = 1
        else:  # the changes of many batches come at once
            buckets = self.writer.wanted(int(rows * size), rows)
        self.segments[number] = Segment(self, SegmentManifest(number, buckets, 0, 0, sequence))
        return self.segments[number]


def _groups(buckets: Numbers) -> Iterator[tuple[int, int, int]]:
    """Yields each bucket with its begin and end, from sorted buckets."""
    edges = [0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist(), len(buckets)]
    for begin, end in pairwise(edges):
        yield int(buckets[begin]), begin, end


def _average_size(changes: Changes) -> float:
    """The average bytes of a change, estimated from a sample."""
    step = len(changes.keys) // _SAMPLE + 1
    sample = changes.keys[::step]
    return sum(map(len, sample + [value or b"" for value in changes.values[::step]])) / (len(sample) or 1)
