"""A binary heap that breaks ties as Java's PriorityQueue does.

Which of several records of equal time is taken first is visible in the results, and Kafka Streams leaves it to the
order inside ``java.util.PriorityQueue``. Python's ``heapq`` sifts differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class JavaHeap(Generic[T]):
    """A heap of items, each with the weight that it had when it was offered."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: list[tuple[int, T]] = []

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        """The items, in no order."""
        return (item for _weight, item in self._items)

    @property
    def least(self) -> int:
        """The weight of the first item."""
        return self._items[0][0]

    def offer(self, weight: int, item: T) -> None:
        """Adds an item: at the end, then up while it is strictly less than its parent."""
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
        """Removes the first item: the last one takes its place, then goes down while a child is strictly less."""
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
