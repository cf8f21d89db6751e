"""The pages of one store: which there are, which are in memory, and what has changed in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from millstream.state.codec import FOREVER, Codec
from millstream.state.paged.format import Numbers, Row, SegmentEntry, StoreEntry, decode_page, encode_page, page_key
from millstream.state.paged.key_value import group_of
from millstream.state.paged.page_cache import GROWN
from millstream.state.paged.pages import Page, Segment, bucket_of
from millstream.state.paged.rows import merged
from millstream.state.paged.store import PagedStore, PageRows
from millstream.state.spec import ChangelogRecord, Changes

if TYPE_CHECKING:
    from millstream.state.paged.page_cache import Residence

_AT_ONCE = 256
"""How many pages are fetched at once, so that a large store does not come in one piece."""

_SAMPLE = 1000
_SAMPLED_PAGES = 16
_OVERLAY_RECORD = 250
"""About what a record in an overlay takes, beside its bytes."""


class Pager:
    """The pages of one store.

    Attributes:
        segments: Its time segments by number.
        width: How long they are.
        memory: About what its pages in memory take; `Residence` counts it.
    """

    def __init__(self, residence: Residence, entry: StoreEntry, store: PagedStore, codec: Codec) -> None:
        self.id = entry.id
        self.name = entry.name
        self.kind = entry.kind
        self.width = entry.width
        self.store = store
        self.memory = 0
        self._residence = residence
        self._key_out = codec.key_out
        self._grouped = store.spec.grouped
        self.segments = {each.number: Segment(self, each) for each in entry.segments}
        self._absent = sum(segment.buckets - segment.resident for segment in self.segments.values())
        store.resume(entry.time, entry.counter)
        self._note_absent(0)

    def entry(self) -> StoreEntry | None:
        """What the manifest says of the store; None if there is nothing to say."""
        time = -1 if self.store.time is None else self.store.time
        if not self.segments and time == -1:
            return None
        segments = [segment.entry() for segment in self.segments.values()]
        return StoreEntry(self.id, self.name, self.kind, self.width, time, self.store.counter, segments)

    @property
    def resident(self) -> int:
        """How many pages are in memory."""
        return sum(segment.resident for segment in self.segments.values())

    @property
    def stored(self) -> int:
        """How many bytes its pages in the remote map have."""
        return sum(segment.bytes for segment in self.segments.values())

    @property
    def rows(self) -> int:
        """About how many rows are not in memory."""
        return sum(s.rows * (s.buckets - s.resident) // s.buckets for s in self.segments.values())

    def _note_absent(self, change: int) -> None:
        self._absent += change
        self.store.absent = self if self._absent else None

    # ----- into memory and out of it ---------------------------------------------------------------------------------

    def load_key(self, key: Any, low: int, high: int, /) -> None:
        name = self._key_out(key)
        self._load_name(group_of(name) if self._grouped else name, low, high)

    def load_keys(self, keys: Iterable[Any], low: int, high: int, /) -> None:
        names = list(map(self._key_out, keys))
        hashes = np.fromiter(map(crc32, map(group_of, names) if self._grouped else names), np.int64, len(names))
        found = [
            segment.page(bucket)
            for segment in self._between(low, high)
            for bucket in np.unique(segment.buckets_of(hashes)).tolist()
        ]
        self._load_absent(found)

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
            self._residence.relieve(pages)

    def _between(self, low: int, high: int) -> Iterator[Segment]:
        first, last = low // self.width, high // self.width
        return (segment for number, segment in self.segments.items() if first <= number <= last)

    def load(self, pages: list[Page]) -> None:
        """Brings pages into memory that are not there."""
        for page, data in self._fetched(pages):
            self._admit(page, data)

    def _fetched(self, pages: list[Page]) -> Iterator[tuple[Page, bytes | None]]:
        for start in range(0, len(pages), _AT_ONCE):
            some = pages[start : start + _AT_ONCE]
            yield from zip(some, self._residence.fetch_pages(some), strict=True)

    def _decoded(self, page: Page, data: bytes | None) -> tuple[int, list[Row]]:
        """Reads a page that is not in memory: the last change that it has, and its rows."""
        sequence: int = 0
        rows: list[Row] = []
        if page.segment.bytes:
            what = f"page {page.bucket} of segment {page.segment.number} of store {self.name!r}"
            sequence, rows = decode_page(data, what)
        page.stored = 0 if data is None else len(data)
        page.stored_rows = self.store.count(rows)
        return sequence, rows

    def _admit(self, page: Page, data: bytes | None) -> None:
        sequence, rows = self._decoded(page, data)
        page.members = self.store.insert(rows, page.overlay, sequence)
        page.overlay = None
        page.segment.resident += 1
        self._note_absent(-1)
        self._charge(page, used=True)

    def evict(self, page: Page) -> None:
        """Drops a page from memory that does not need the log."""
        segment = page.segment
        self.store.evict(page.members, segment.low, segment.high)
        page.members = None
        del segment.pages[page.bucket]
        segment.resident -= 1
        self._note_absent(1)
        self._residence.left(page)

    def _charge(self, page: Page, *, used: bool) -> None:
        if page.members is None:
            amount = page.pending + _OVERLAY_RECORD * page.records
        else:
            # Of what the log has got, half may be rows that the page had before.
            cost = self.store.cost
            rows, size = page.stored_rows + page.records / 2, page.stored + page.pending / 2
            amount = int(cost.row * rows + cost.byte * size + cost.member * len(page.members))
        self._residence.charge(page, amount, used=used)

    # ----- changes ---------------------------------------------------------------------------------------------------

    def drop_expired(self) -> list[Segment]:
        """Forgets the segments whose rows are all gone, and returns them."""
        floor = self.store.floor
        gone = [segment for segment in self.segments.values() if segment.high <= floor]
        for segment in gone:
            for page in segment.pages.values():
                self._residence.cleaned(page)
                self._residence.left(page)
            del self.segments[segment.number]
            self._note_absent(segment.resident - segment.buckets)
        return gone

    def note(self, sequence: int) -> Changes:
        """Gives what has changed in the store to the pages; returns what must be in the log."""
        marks, times, names, changes = self.store.take()
        if not marks:
            return changes
        numbers = times // self.width if self.width < FOREVER else np.zeros_like(times)
        hashes = np.fromiter(map(crc32, names), np.int64, len(names))
        each = _average(changes)
        there = np.ones(len(marks), np.bool_)
        for number in np.unique(numbers).tolist():
            here = np.flatnonzero(numbers == number)
            segment = self.segments.get(number) or self._new_segment(number, sequence)
            if segment is None:
                there[here] = False
                continue
            buckets = segment.buckets_of(hashes[here])
            order = np.argsort(buckets, kind="stable")
            places, own_times = here[order].tolist(), times[here[order]]
            own_marks = list(map(marks.__getitem__, places))
            for bucket, begin, end in _groups(buckets[order]):
                page = segment.pages.get(bucket) or segment.page(bucket)
                if page.members is None:
                    for place in places[begin:end]:
                        self._overlay(page, sequence, tuple(column[place] for column in changes))
                    own = self.store.members(own_marks[begin:end], own_times[begin:end])
                    self.store.evict(own, segment.low, segment.high)
                else:
                    self.store.extend(page.members, own_marks[begin:end], own_times[begin:end])
                self._note_logged(page, end - begin, int(each * (end - begin)), sequence)
            if not segment.bytes:
                self._deal_if_grown(segment)
        return changes if there.all() else changes.where(there.tolist())

    def replay(self, sequence: int, records: list[ChangelogRecord]) -> None:
        """Takes in what the log has for the store; its pages are not in memory yet."""
        changed: dict[Page, int] = {}
        times, names = self.store.places([record[0] for record in records])
        for record, time, name in zip(records, times.tolist(), names, strict=True):
            segment = self.segments.get(time // self.width)
            if segment is None or sequence < segment.since:
                continue
            page = segment.page_of(crc32(name))
            if page.members is not None:  # it is not empty
                page.members = None
                segment.resident -= 1
                self._note_absent(1)
            self._overlay(page, sequence, record)
            changed[page] = changed.get(page, 0) + 1
        each = _average(Changes([one[0] for one in records], [one[1] for one in records], []))
        for page, count in changed.items():
            self._note_logged(page, count, int(each * count), sequence)

    def _note_logged(self, page: Page, records: int, size: int, sequence: int) -> None:
        page.records += records
        page.pending += size
        page.segment.pending += size
        self._residence.soiled(page, sequence)
        self._charge(page, used=True)

    def _overlay(self, page: Page, sequence: int, record: Row) -> None:
        if page.overlay is None:
            page.overlay = {}
        page.overlay[(sequence, len(page.overlay)) if not self.store.absolute else record[0]] = record

    def _new_segment(self, number: int, sequence: int) -> Segment | None:
        """Adds a segment, empty and in memory; None if its rows are gone already."""
        if (number + 1) * self.width - 1 <= self.store.floor:
            return None
        last = max(self.segments, default=None)  # it will probably be as large as the one before
        buckets = 1 if last is None else self.segments[last].buckets
        self.segments[number] = Segment(self, SegmentEntry(number, buckets, 0, 0, sequence))
        return self.segments[number]

    # ----- segments that were never written --------------------------------------------------------------------------

    def _deal_if_grown(self, segment: Segment) -> None:
        """Looks at a segment again, when the log has got far more of it: while it is written nowhere, that is cheap."""
        if segment.pending > max(GROWN * self._residence.page_bytes * segment.buckets, 2 * segment.dealt):
            segment.dealt = segment.pending
            self.settle(segment)

    def settle(self, segment: Segment) -> None:
        """Deals the rows of a segment that is written nowhere to as many buckets as it needs, if it has far others."""
        some = list(islice(segment.pages.values(), _SAMPLED_PAGES))
        self.load([page for page in some if page.members is None])
        collected = [rows for page in some if (rows := self._collect(page).rows)]
        scale = len(segment.pages) / max(len(some), 1)
        size = sum(len(encode_page(0, rows)) for rows in collected) * scale
        wanted = self._wanted(int(size), int(sum(map(self.store.count, collected)) * scale))
        if not segment.buckets < wanted * 2 < segment.buckets * 4:
            self._deal(segment)

    def _deal(self, segment: Segment) -> None:
        residence, store = self._residence, self.store
        self.load([page for page in segment.pages.values() if page.members is None])
        old = list(segment.pages.values())
        marks: list[Any] = []
        rows: list[Row] = []
        for page in old:
            collected = self._collect(page)
            marks += collected.marks
            rows += collected.rows
        each = segment.pending / max(sum(page.records for page in old), 1)
        some = rows[:: len(rows) // _SAMPLE + 1]
        size = len(encode_page(0, some)) * len(rows) // max(len(some), 1)
        buckets = self._wanted(size, store.count(rows))
        if buckets == segment.buckets:
            return
        dirty = min((page.dirty for page in old if page.dirty), default=0)
        for page in old:
            residence.cleaned(page)
            residence.left(page)
        self._note_absent(segment.resident - segment.buckets)
        segment.pages.clear()
        segment.resize(buckets)
        segment.resident = buckets
        segment.pending = 0
        times, names = store.places([row[0] for row in rows])
        dealt: list[list[int]] = [[] for _ in range(buckets)]
        for place, name in enumerate(names):
            dealt[bucket_of(crc32(name), buckets)].append(place)
        for bucket, places in enumerate(dealt):
            if dirty and (places or not store.absolute):  # what was there and is no more needs the whole log, too
                page = segment.page(bucket)
                page.members = store.members([marks[place] for place in places], times[places])
                self._note_logged(page, len(places), int(each * len(places)), dirty)
        residence.sort_dirty()

    # ----- pages out to the remote map -------------------------------------------------------------------------------

    def fold(self, segment: Segment, pages: list[Page], sequence: int) -> tuple[dict[bytes, bytes], list[bytes]]:
        """Writes pages of a segment, and others if the number of buckets must change.

        Pages that are not in memory are written from their bytes and what has changed since, and do not come into it:
        unless a change must be applied to the rows to know what it does, or there are no bytes yet.

        Returns:
            What to put, and which keys to delete.
        """
        first = not segment.bytes
        absent = [page for page in pages if page.members is None]
        if first or not self.store.absolute:
            self.load(absent)
            absent = []
        here = [page for page in pages if page.members is not None]
        collected = {page.bucket: self._collect(page) for page in here}
        puts = {
            page.key: self._rewrite(page, sequence, self._decoded(page, data)[1])
            for page, data in self._fetched(absent)
        }
        for page in here:
            members, _marks, rows = collected[page.bucket]
            puts[page.key] = self._write(page, sequence, members, rows)
        if first:
            return self._write_others(segment, puts), []
        buckets = self._buckets_for(segment, len(pages))
        if buckets == segment.buckets:
            return puts, []
        moved = segment.moved_by(buckets)
        self._admit_all([page for page in map(segment.page, moved) if page.members is None], puts)
        dealt: dict[int, list[tuple[Any, int, Row]]] = {bucket: [] for bucket in moved if bucket < buckets}
        dealt.update({bucket: [] for bucket in range(segment.buckets, buckets)})
        for bucket in moved:
            _members, marks, old = collected.get(bucket) or self._collect(segment.pages[bucket])
            times, names = self.store.places([row[0] for row in old])
            for mark, time, row, name in zip(marks, times.tolist(), old, names, strict=True):
                dealt[bucket_of(crc32(name), buckets)].append((mark, time, row))
        deletes = self._remove(segment, moved, buckets)
        for bucket, own in dealt.items():
            page = segment.page(bucket)
            segment.resident += 1
            members = self.store.members([mark for mark, _, _ in own], [time for _, time, _ in own])
            puts[page.key] = self._write(page, sequence, members, [row for _, _, row in own])
        for key in deletes:
            puts.pop(key, None)
        return puts, deletes

    def _admit_all(self, pages: list[Page], puts: dict[bytes, bytes]) -> None:
        """Brings pages into memory that are not there, some of which are about to be written."""
        for page in pages:
            if page.key in puts:
                self._admit(page, puts[page.key])
        self.load([page for page in pages if page.members is None])

    def _write_others(self, segment: Segment, puts: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """With the first pages of a segment, all are written, so that each is there: those whose turn it is not, empty.

        What is in such a page is in the log.
        """
        empty = encode_page(0, [])
        for bucket in range(segment.buckets):
            key = page_key(self.id, segment.number, bucket)
            if key not in puts:
                puts[key] = empty
                segment.bytes += len(empty)
                page = segment.pages.get(bucket)
                if page is None and self.store.pinned:
                    page = segment.page(bucket)
                    page.members = self.store.members((), ())
                if page is None:
                    segment.resident -= 1
                    self._note_absent(1)
                else:
                    page.stored = len(empty)
        return puts

    def _collect(self, page: Page) -> PageRows:
        return self.store.collect(page.members, page.segment.low, page.segment.high)

    def _write(self, page: Page, sequence: int, members: Any, rows: list[Row]) -> bytes:
        data = self._written(page, sequence, rows)
        page.stored, page.stored_rows = len(data), self.store.count(rows)
        page.members = members
        self._charge(page, used=False)
        return data

    def _rewrite(self, page: Page, sequence: int, rows: list[Row]) -> bytes:
        """Writes a page that is not in memory, and has these rows in the remote map."""
        data = self._written(page, sequence, merged(rows, page.overlay))
        page.overlay = None
        del page.segment.pages[page.bucket]
        self._residence.left(page)
        return data

    def _written(self, page: Page, sequence: int, rows: list[Row]) -> bytes:
        data = encode_page(sequence, rows)
        segment = page.segment
        segment.bytes += len(data) - page.stored
        segment.rows += self.store.count(rows) - page.stored_rows
        segment.pending -= page.pending
        page.pending = page.records = 0
        self._residence.cleaned(page)
        return data

    def _buckets_for(self, segment: Segment, folded: int) -> int:
        """How many buckets a segment should have: pages three quarters full, and no more of them than rows."""
        wanted = self._wanted(segment.bytes, segment.rows)
        if wanted >= segment.buckets:
            return wanted
        # Fewer of them only if they are nearly empty, and not all at once.
        wanted = max(wanted, self._wanted(segment.bytes + segment.pending, segment.buckets))
        return segment.buckets if wanted * 4 > segment.buckets else max(wanted * 2, segment.buckets - 2 * folded)

    def _wanted(self, size: int, rows: int) -> int:
        return max(1, min(size * 4 // (self._residence.page_bytes * 3), rows))

    def _remove(self, segment: Segment, moved: Iterable[int], buckets: int) -> list[bytes]:
        """Removes pages whose rows have found new places; returns the keys of those that are no more."""
        keys = [segment.page(bucket).key for bucket in range(buckets, segment.buckets)]
        for bucket in moved:
            page = segment.pages.pop(bucket)
            segment.bytes -= page.stored
            segment.pending -= page.pending
            segment.rows -= page.stored_rows
            segment.resident -= 1
            self._residence.cleaned(page)
            self._residence.left(page)
        segment.resize(buckets)
        return keys


def _groups(buckets: Numbers) -> Iterator[tuple[int, int, int]]:
    """Each bucket, where it begins and where it ends, if they are in order."""
    edges = [0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist(), len(buckets)]
    for begin, end in pairwise(edges):
        yield int(buckets[begin]), begin, end


def _average(changes: Changes) -> float:
    """About how long a change is: a few of them, as if all were so long, are good enough for an estimate."""
    step = len(changes.keys) // _SAMPLE + 1
    some = changes.keys[::step]
    return sum(map(len, some + [value or b"" for value in changes.values[::step]])) / (len(some) or 1)
