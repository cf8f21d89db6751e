"""A binary heap that breaks ties as Java's PriorityQueue does.

The order of records with equal timestamps is visible in the results. Kafka Streams takes the order of
``java.util.PriorityQueue``; Python's ``heapq`` sifts differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class JavaHeap(Generic[T]):
    """A heap of items, each with a weight that is fixed when the item is added."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: list[tuple[int, T]] = []

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        """Iterates over the items, in no particular order."""
        return (item for _weight, item in self._items)

    @property
    def least(self) -> int:
        """The least weight."""
        return self._items[0][0]

    def offer(self, weight: int, item: T) -> None:
        """Adds an item: it starts at the end and moves up while it is strictly less than its parent."""
        items, entry = self._items, (weight, item)
        index = len(items)
        items.append(entry)
        while index:
            parent = (index - 1) >> 1
            if items[parent][0] <= weight:
                break
            items[index] = items[parent]
            index = parent
        items[index] = entry

    def poll(self) -> T:
        """Removes the first item: the last one replaces it and moves down while a child is strictly less."""
        items = self._items
        last = items.pop()
        size = len(items)
        if size == 0:
            return last[1]
        first, weight = items[0][1], last[0]
        index = 0
        while (child := 2 * index + 1) < size:
            if child + 1 < size and items[child + 1][0] < items[child][0]:
                child += 1
            if weight <= items[child][0]:
                break
            items[index] = items[child]
            index = child
        items[index] = last
        return first
