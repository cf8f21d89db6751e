"""Writing pages back to the remote map, and the number of buckets of a time segment."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any
from zlib import crc32

from millstream.state.paged.format import PageRow, encode_page, page_key
from millstream.state.paged.page_cache import GROWN
from millstream.state.paged.pages import Page, Segment, bucket_of
from millstream.state.paged.rows import merged

if TYPE_CHECKING:
    from millstream.state.paged.pager import Pager

_SAMPLE = 1000
_SAMPLED_PAGES = 16


class PageWriter:
    """Writes back the pages of one store."""

    def __init__(self, pager: Pager) -> None:
        self._pager = pager

    # ----- segments without a written page ---------------------------------------------------------------------------

    def resize_if_grown(self, segment: Segment) -> None:
        """Checks the number of buckets again when the log of an unwritten segment has grown: to move rows is cheap."""
        if segment.pending > max(GROWN * self._pager.cache.page_bytes * segment.buckets, 2 * segment.checked):
            segment.checked = segment.pending
            self.resize_unwritten(segment)

    def resize_unwritten(self, segment: Segment) -> None:
        """Redistributes the rows of an unwritten segment, if its number of buckets is far from the right one."""
        pager = self._pager
        sample = list(islice(segment.pages.values(), _SAMPLED_PAGES))
        pager.load([page for page in sample if page.members is None])
        collected = [rows for page in sample if (rows := pager.collect(page).rows)]
        scale = len(segment.pages) / max(len(sample), 1)
        size = sum(len(encode_page(0, rows)) for rows in collected) * scale
        wanted = self.wanted(int(size), int(sum(map(pager.store.count, collected)) * scale))
        if not segment.buckets < wanted * 2 < segment.buckets * 4:
            self._redistribute(segment)

    def _redistribute(self, segment: Segment) -> None:
        pager, cache, store = self._pager, self._pager.cache, self._pager.store
        pager.load([page for page in segment.pages.values() if page.members is None])
        old = list(segment.pages.values())
        marks: list[Any] = []
        rows: list[PageRow] = []
        for page in old:
            collected = pager.collect(page)
            marks += collected.marks
            rows += collected.rows
        record_size = segment.pending / max(sum(page.records for page in old), 1)
        sample = rows[:: len(rows) // _SAMPLE + 1]
        size = len(encode_page(0, sample)) * len(rows) // max(len(sample), 1)
        buckets = self.wanted(size, store.count(rows))
        if buckets == segment.buckets:
            return
        dirty = min((page.dirty for page in old if page.dirty), default=0)
        for page in old:
            cache.mark_clean(page)
            cache.remove(page)
        pager.add_absent(segment.resident - segment.buckets)
        segment.pages.clear()
        segment.resize(buckets)
        segment.resident = buckets
        segment.pending = 0
        times, names = store.places([row[0] for row in rows])
        places_of: list[list[int]] = [[] for _ in range(buckets)]
        for place, name in enumerate(names):
            places_of[bucket_of(crc32(name), buckets)].append(place)
        for bucket, places in enumerate(places_of):
            # If changes are not absolute, a page without rows needs the log of the rows that are gone.
            if dirty and (places or not store.absolute):
                page = segment.page(bucket)
                page.members = store.members([marks[place] for place in places], times[places])
                pager.add_logged(page, len(places), int(record_size * len(places)), dirty)
        cache.sort_dirty()

    # ----- writing ---------------------------------------------------------------------------------------------------

    def write_back(self, segment: Segment, pages: list[Page], sequence: int) -> tuple[dict[bytes, bytes], list[bytes]]:
        """Writes back pages of a segment, and others if the number of buckets must change.

        Pages that are not in memory are written from their bytes and their overlay without being loaded, unless the
        changes are not absolute, or the segment has no written page yet.

        Returns:
            The values to put, by key, and the keys to delete.
        """
        pager, store = self._pager, self._pager.store
        first = not segment.bytes
        absent = [page for page in pages if page.members is None]
        if first or not store.absolute:
            pager.load(absent)
            absent = []
        resident = [page for page in pages if page.members is not None]
        collected = {page.bucket: pager.collect(page) for page in resident}
        puts = {
            page.key: self._rewrite(page, sequence, pager.decode(page, data)[1]) for page, data in pager.fetch(absent)
        }
        for page in resident:
            members, _marks, rows = collected[page.bucket]
            puts[page.key] = self._write(page, sequence, members, rows)
        if first:
            return self._write_others(segment, puts), []
        buckets = self._buckets_for(segment, len(pages))
        if buckets == segment.buckets:
            return puts, []
        moved = segment.moved_by(buckets)
        self._admit_all([page for page in map(segment.page, moved) if page.members is None], puts)
        rows_of: dict[int, list[tuple[Any, int, PageRow]]] = {bucket: [] for bucket in moved if bucket < buckets}
        rows_of.update({bucket: [] for bucket in range(segment.buckets, buckets)})
        for bucket in moved:
            _members, marks, old = collected.get(bucket) or pager.collect(segment.pages[bucket])
            times, names = store.places([row[0] for row in old])
            for mark, time, row, name in zip(marks, times.tolist(), old, names, strict=True):
                rows_of[bucket_of(crc32(name), buckets)].append((mark, time, row))
        deletes = self._remove(segment, moved, buckets)
        for bucket, own in rows_of.items():
            page = segment.page(bucket)
            segment.resident += 1
            members = store.members([mark for mark, _, _ in own], [time for _, time, _ in own])
            puts[page.key] = self._write(page, sequence, members, [row for _, _, row in own])
        for key in deletes:
            puts.pop(key, None)
        return puts, deletes

    def _admit_all(self, pages: list[Page], puts: dict[bytes, bytes]) -> None:
        """Loads pages, some of which are among the pages to write."""
        for page in pages:
            if page.key in puts:
                self._pager.admit(page, puts[page.key])
        self._pager.load([page for page in pages if page.members is None])

    def _write_others(self, segment: Segment, puts: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """Adds empty pages for the other buckets when the first pages of a segment are written: then all exist.

        The rows of such a page are in the log.
        """
        pager = self._pager
        empty = encode_page(0, [])
        for bucket in range(segment.buckets):
            key = page_key(pager.id, segment.number, bucket)
            if key not in puts:
                puts[key] = empty
                segment.bytes += len(empty)
                page = segment.pages.get(bucket)
                if page is None and pager.store.pinned:
                    page = segment.page(bucket)
                    page.members = pager.store.members((), ())
                if page is None:
                    segment.resident -= 1
                    pager.add_absent(1)
                else:
                    page.stored = len(empty)
        return puts

    def _write(self, page: Page, sequence: int, members: Any, rows: list[PageRow]) -> bytes:
        data = self._encode(page, sequence, rows)
        page.stored, page.stored_rows = len(data), self._pager.store.count(rows)
        page.members = members
        self._pager.charge(page, used=False)
        return data

    def _rewrite(self, page: Page, sequence: int, rows: list[PageRow]) -> bytes:
        """Writes a page that is not in memory, from its rows in the remote map and its overlay."""
        data = self._encode(page, sequence, merged(rows, page.overlay))
        page.overlay = None
        del page.segment.pages[page.bucket]
        self._pager.cache.remove(page)
        return data

    def _encode(self, page: Page, sequence: int, rows: list[PageRow]) -> bytes:
        data = encode_page(sequence, rows)
        segment = page.segment
        segment.bytes += len(data) - page.stored
        segment.rows += self._pager.store.count(rows) - page.stored_rows
        segment.pending -= page.pending
        page.pending = page.records = 0
        self._pager.cache.mark_clean(page)
        return data

    # ----- the number of buckets -------------------------------------------------------------------------------------

    def _buckets_for(self, segment: Segment, written: int) -> int:
        """Returns the right number of buckets: pages are three quarters full, and not more than rows."""
        wanted = self.wanted(segment.bytes, segment.rows)
        if wanted >= segment.buckets:
            return wanted
        # The number shrinks only if the pages are nearly empty, and by a few with each write.
        wanted = max(wanted, self.wanted(segment.bytes + segment.pending, segment.buckets))
        return segment.buckets if wanted * 4 > segment.buckets else max(wanted * 2, segment.buckets - 2 * written)

    def wanted(self, size: int, rows: int) -> int:
        """Returns the number of buckets for pages that are three quarters full, and not more than rows."""
        return max(1, min(size * 4 // (self._pager.cache.page_bytes * 3), rows))

    def _remove(self, segment: Segment, moved: Iterable[int], buckets: int) -> list[bytes]:
        """Removes pages whose rows have moved; returns the keys of those that no longer exist."""
        keys = [segment.page(bucket).key for bucket in range(buckets, segment.buckets)]
        for bucket in moved:
            page = segment.pages.pop(bucket)
            segment.bytes -= page.stored
            segment.pending -= page.pending
            segment.rows -= page.stored_rows
            segment.resident -= 1
            self._pager.cache.mark_clean(page)
            self._pager.cache.remove(page)
        segment.resize(buckets)
        return keys
