"""The page cache of a task: the pages in memory, the dirty pages, and their size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from millstream.state.paged.pages import Page

if TYPE_CHECKING:
    from millstream.state.paged.pager import Pager

GROWN = 4
"""A page is written back early if the log has so many times its size, so that it splits before it is large."""


class PageCache:
    """The pages of all stores of a task, in the order of their last use, and the dirty pages, the oldest first.

    Attributes:
        memory: The estimated bytes of the pages in memory.
        limit: The bytes that they may take between batches.
        dirty: The dirty pages; first those that need the oldest log segments.
        loaded: The number of pages that were read.
        evicted: The number of pages that were evicted.
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
        self.begin_batch()

    def begin_batch(self) -> None:
        """Begins a batch, in which memory may exceed the limit by a quarter before pages are evicted."""
        self._ceiling = self.limit * 5 // 4

    # ----- bookkeeping of pagers -------------------------------------------------------------------------------------

    def fetch_pages(self, pages: list[Page]) -> list[bytes | None]:
        """Reads pages from the remote map; None for those that were never written."""
        keys = [page.key for page in pages if page.segment.bytes]
        values: Iterator[bytes | None] = iter(self.fetch(keys) if keys else [])
        self.loaded += len(pages)
        return [next(values) if page.segment.bytes else None for page in pages]

    def charge(self, page: Page, amount: int, *, used: bool) -> None:
        """Sets the memory of a page; ``used`` also makes it the most recently used one."""
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

    def remove(self, page: Page) -> None:
        """Removes a page that left memory, or that no longer exists."""
        self.memory -= page.charge
        page.segment.pager.memory -= page.charge
        page.charge = 0
        self._used.pop(page, None)

    def mark_dirty(self, page: Page, sequence: int) -> None:
        """Marks a page as dirty from a sequence number on, if it is not dirty already."""
        if not page.dirty:
            page.dirty = sequence
            self.dirty[page] = None
        if page.segment.bytes and page.pending > GROWN * max(self.page_bytes, page.stored):
            self._grown.append(page)

    def mark_clean(self, page: Page) -> None:
        """Marks a page as clean: it no longer needs the log."""
        page.dirty = 0
        self.dirty.pop(page, None)

    def make_room(self, kept: Collection[Page]) -> None:
        """Evicts pages during a batch if memory exceeds its ceiling; not ``kept``, nor pages changed by the batch."""
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
        # If few pages could be evicted, the next load must not repeat the search in vain.
        self._ceiling = max(self._ceiling, self.memory * 5 // 4)

    # ----- at the end of a batch -------------------------------------------------------------------------------------

    def sort_dirty(self) -> None:
        """Orders the dirty pages by age, after several stores were read from the log."""
        self.dirty = OrderedDict.fromkeys(sorted(self.dirty, key=lambda page: page.dirty))

    def low_water(self, sequence: int) -> int:
        """Returns the first log segment that is needed; the one after ``sequence`` if none is."""
        return next(iter(self.dirty)).dirty if self.dirty else sequence + 1

    def due(self, count: int, excess: int) -> dict[Page, None]:
        """Returns the pages to write back: the ``count`` oldest, all that need the log up to ``excess``, grown ones."""
        pages = dict.fromkeys(islice(self.dirty, count))
        for page in islice(self.dirty, count, None):
            if page.dirty > excess:
                break
            pages[page] = None
        pages.update({page: None for page in self._grown if page.dirty})
        self._grown.clear()
        return pages

    def dirty_victims(self) -> list[Page]:
        """Returns the dirty pages that must be written back for eviction to bring memory within its limit."""
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

    def evict(self) -> None:
        """Evicts the least recently used clean pages, if memory exceeds its limit."""
        self._evict(self._target(), lambda _page: True)

    def _target(self) -> int:
        """A little below the limit, so that not every batch evicts; the memory in use, if it is within the limit."""
        return self.limit * 9 // 10 if self.memory > self.limit else self.memory

    def _evict(self, target: int, may_go: Callable[[Page], bool]) -> None:
        victims: list[Page] = []
        left = self.memory
        for page in self._used:
            if left <= target:
                break
            if page.members is not None and not page.dirty and may_go(page):
                victims.append(page)
                left -= page.charge
        for page in victims:
            page.segment.pager.evict(page)
        self.evicted += len(victims)
