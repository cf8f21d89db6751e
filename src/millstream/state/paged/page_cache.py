"""Which pages of a task are in memory, which need the log, and what they take."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from millstream.state.paged.pages import Page

if TYPE_CHECKING:
    from millstream.state.paged.pager import Pager

GROWN = 4
"""A page is written before its turn if the log has so many times its size, so that it splits before it is large."""


class Residence:
    """The pages of all stores of a task, in the order of their last use, and the dirty ones in the order of their age.

    Attributes:
        memory: About what the pages in memory take.
        limit: What they may take between batches.
        dirty: The pages that need the log, those first that need its oldest segments.
        loaded: How many pages were read.
        evicted: How many pages were dropped from memory.
    """

    def __init__(self, fetch: Callable[[list[bytes]], list[bytes | None]], limit: int, page_bytes: int) -> None:
        self.fetch = fetch
        self.limit = limit
        self.page_bytes = page_bytes
        self.memory = 0
        self.dirty: OrderedDict[Page, None] = OrderedDict()
        self.loaded = 0
        self.evicted = 0
        self._used: OrderedDict[Page, None] = OrderedDict()
        self._grown: list[Page] = []
        self.new_batch()

    def new_batch(self) -> None:
        """Starts a batch: in it, memory may grow by a quarter before pages are dropped."""
        self._ceiling = self.limit * 5 // 4

    # ----- what pagers tell ------------------------------------------------------------------------------------------

    def fetch_pages(self, pages: list[Page]) -> list[bytes | None]:
        """Reads pages from the remote map; None for those that were never written."""
        keys = [page.key for page in pages if page.segment.bytes]
        found: Iterator[bytes | None] = iter(self.fetch(keys) if keys else [])
        self.loaded += len(pages)
        return [next(found) if page.segment.bytes else None for page in pages]

    def charge(self, page: Page, amount: int, *, used: bool) -> None:
        """Notes how much memory a page takes now, and whether that is because it was used."""
        pager, change = page.segment.pager, amount - page.charge
        self.memory += change
        pager.memory += change
        page.charge = amount
        if not pager.store.pinned:
            if used:
                self._used[page] = None
                self._used.move_to_end(page)
            else:
                self._used.setdefault(page)

    def left(self, page: Page) -> None:
        """Notes that a page left memory, or is no more."""
        self.memory -= page.charge
        page.segment.pager.memory -= page.charge
        page.charge = 0
        self._used.pop(page, None)

    def soiled(self, page: Page, sequence: int) -> None:
        """Notes that the log has changes of a page, from a sequence number on if not from before."""
        if not page.dirty:
            page.dirty = sequence
            self.dirty[page] = None
        if page.segment.bytes and page.pending > GROWN * max(self.page_bytes, page.stored):
            self._grown.append(page)

    def cleaned(self, page: Page) -> None:
        """Notes that a page does not need the log any more."""
        page.dirty = 0
        self.dirty.pop(page, None)

    def relieve(self, kept: Collection[Page]) -> None:
        """Makes room in memory, if need be, in the middle of a batch, but not of some pages, nor of what it changed."""
        if self.memory <= self._ceiling:
            return
        kept = set(kept)
        changed: dict[Pager, Callable[[Any], bool]] = {}

        def may_go(page: Page) -> bool:
            pager = page.segment.pager
            if pager not in changed:
                changed[pager] = pager.store.is_changed()
            return page not in kept and not changed[pager](page.members)

        self._evict(self.limit, may_go)
        # If little could go, the next page loaded must not search in vain again.
        self._ceiling = max(self._ceiling, self.memory * 5 // 4)

    # ----- at the end of a batch -------------------------------------------------------------------------------------

    def sort_dirty(self) -> None:
        """Puts the dirty pages in order, after those of several stores were read from the log."""
        self.dirty = OrderedDict.fromkeys(sorted(self.dirty, key=lambda page: page.dirty))

    def low_water(self, sequence: int) -> int:
        """Returns the first log segment that is needed; the one after the last if none is."""
        return next(iter(self.dirty)).dirty if self.dirty else sequence + 1

    def due(self, count: int, must_go: int) -> dict[Page, None]:
        """Returns pages to write: so many of the oldest, all that need the log up to a segment, and those that grew."""
        pages = dict.fromkeys(islice(self.dirty, count))
        for page in islice(self.dirty, count, None):
            if page.dirty > must_go:
                break
            pages[page] = None
        pages.update({page: None for page in self._grown if page.dirty})
        self._grown.clear()
        return pages

    def in_the_way(self) -> list[Page]:
        """Returns the dirty pages that must be written if memory is to be within its limit."""
        need = self.memory - self._target()
        dirty: list[Page] = []
        for page in self._used:
            if need <= 0:
                return []
            if page.dirty:
                dirty.append(page)
            else:
                need -= page.charge
        count = 0
        while need > 0 and count < len(dirty):
            need -= dirty[count].charge
            count += 1
        return dirty[:count]

    def evict_unused(self) -> None:
        """Drops the pages from memory that were not used for longest, if it is over its limit."""
        self._evict(self._target(), lambda _page: True)

    def _target(self) -> int:
        """A little below the limit, so that not every batch must drop pages; what there is, if it is within it."""
        return self.limit * 9 // 10 if self.memory > self.limit else self.memory

    def _evict(self, target: int, may_go: Callable[[Page], bool]) -> None:
        gone: list[Page] = []
        left = self.memory
        for page in self._used:
            if left <= target:
                break
            if page.members is not None and not page.dirty and may_go(page):
                gone.append(page)
                left -= page.charge
        for page in gone:
            page.segment.pager.evict(page)
        self.evicted += len(gone)
