"""A binary heap that breaks ties as Java's PriorityQueue does.

Which of several records of equal time is taken first is visible in the results, and Kafka Streams leaves it to the
order inside ``java.util.PriorityQueue``. Python's ``heapq`` sifts differently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class JavaHeap(Generic[T]):
    """A heap of items ordered by an integer that is computed from each."""

    __slots__ = ("_items", "_order")

    def __init__(self, order: Callable[[T], int]) -> None:
        self._items: list[T] = []
        self._order = order

    def __len__(self) -> int:
        return len(self._items)

    def peek(self) -> T:
        """Returns the first item."""
        return self._items[0]

    def offer(self, item: T) -> None:
        """Adds an item: at the end, then up while it is strictly less than its parent."""
        items, order = self._items, self._order
        items.append(item)
        index, weight = len(items) - 1, order(item)
        while index:
            parent = (index - 1) >> 1
            if order(items[parent]) <= weight:
                break
            items[index] = items[parent]
            index = parent
        items[index] = item

    def poll(self) -> T:
        """Removes the first item: the last one takes its place, then goes down while a child is strictly less."""
        items, order = self._items, self._order
        first, last = items[0], items.pop()
        size = len(items)
        if size == 0:
            return first
        index, weight = 0, order(last)
        while (child := 2 * index + 1) < size:
            if child + 1 < size and order(items[child + 1]) < order(items[child]):
                child += 1
            if weight <= order(items[child]):
                break
            items[index] = items[child]
            index = child
        items[index] = last
        return first
