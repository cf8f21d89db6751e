"""Indexes of the keys of a store: by their bytes, and by time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection
from typing import Any, TypeAlias

_Pair: TypeAlias = tuple[bytes, Any]

_BLOCK = 1024


def after_prefix(prefix: bytes) -> bytes | None:
    """Returns the least bytes greater than all bytes that start with a prefix; None if there are none.

    >>> after_prefix(b"ab"), after_prefix(b"a" + bytes([255])), after_prefix(bytes([255]))
    (b'ac', b'b', None)
    """
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


class SortedKeys:
    """Keys in the order of their bytes, in blocks, so that an insertion moves the keys of one block only.

    >>> keys = SortedKeys([(b"b", "b"), (b"a", "a")])
    >>> keys.add_all([(b"c", "c")])
    >>> keys.discard(b"b")
    >>> keys.between(None, None)
    ['a', 'c']
    """

    __slots__ = ("_blocks", "_lasts", "_size")

    def __init__(self, pairs: list[_Pair]) -> None:
        self._build(sorted(pairs))

    def __len__(self) -> int:
        return self._size

    def _build(self, pairs: list[_Pair]) -> None:
        self._blocks = [pairs[i : i + _BLOCK] for i in range(0, len(pairs), _BLOCK)]
        self._lasts = [block[-1] for block in self._blocks]
        self._size = len(pairs)

    def add_all(self, pairs: list[_Pair]) -> None:
        """Adds keys that are not in the index."""
        if len(pairs) * 8 < self._size:
            for pair in pairs:
                self._add(pair)
        else:
            self._build(sorted([pair for block in (*self._blocks, pairs) for pair in block]))

    def _add(self, pair: _Pair) -> None:
        blocks, lasts = self._blocks, self._lasts
        at = min(bisect_left(lasts, pair[:1]), len(blocks) - 1)
        block = blocks[at]
        block.insert(bisect_left(block, pair[:1]), pair)
        self._size += 1
        if len(block) > 2 * _BLOCK:
            blocks.insert(at + 1, block[_BLOCK:])
            del block[_BLOCK:]
            lasts.insert(at, block[-1])
            at += 1
        lasts[at] = blocks[at][-1]

    def discard(self, key: bytes) -> None:
        """Removes a key, if it is in the index."""
        probe = (key,)
        at = bisect_left(self._lasts, probe)
        if at == len(self._blocks):
            return
        block = self._blocks[at]
        place = bisect_left(block, probe)
        if block[place][0] != key:
            return
        del block[place]
        self._size -= 1
        if block:
            self._lasts[at] = block[-1]
        else:
            del self._blocks[at], self._lasts[at]

    def between(self, low: bytes | None, below: bytes | None) -> list[Any]:
        """Returns the keys with ``low <= bytes < below``; None is no bound."""
        blocks = self._blocks
        if not blocks:
            return []
        first = 0 if low is None else bisect_left(self._lasts, (low,))
        last = len(blocks) - 1 if below is None else min(bisect_left(self._lasts, (below,)), len(blocks) - 1)
        keys: list[Any] = []
        for at in range(first, last + 1):
            block = blocks[at]
            begin = bisect_left(block, (low,)) if low is not None and at == first else 0
            end = bisect_left(block, (below,)) if below is not None and at == last else len(block)
            keys.extend([key for _, key in block[begin:end]])
        return keys


class TimeIndex:
    """The keys that have rows in each time bucket, so that expiry visits only keys with expired rows.

    With ``width`` 1 it is exact, and ``discard`` keeps it so. Else it may contain keys without rows in the bucket.
    """

    __slots__ = ("_buckets", "_order", "_width")

    def __init__(self, width: int) -> None:
        self._width = width
        self._buckets: dict[int, set[Any]] = {}
        self._order: list[int] = []

    def add(self, time: int, key: Any) -> None:
        """Adds a key that has a row at a time."""
        bucket = time // self._width
        keys = self._buckets.get(bucket)
        if keys is not None:
            keys.add(key)
            return
        self._buckets[bucket] = {key}
        order = self._order
        if not order or bucket > order[-1]:
            order.append(bucket)
        elif order[bisect_left(order, bucket)] != bucket:  # `discard` leaves empty buckets in the order
            insort(order, bucket)

    def discard(self, time: int, key: Any) -> None:
        """Removes a key that no longer has a row at a time. Only for width 1."""
        keys = self._buckets.get(time)
        if keys is not None:
            keys.discard(key)
            if not keys:
                del self._buckets[time]

    def forget(self, low: int, high: int, keys: Collection[Any]) -> None:
        """Removes keys that no longer have rows from ``low`` to ``high``, from the buckets within that range."""
        order, buckets = self._order, self._buckets
        begin, end = bisect_left(order, -(-low // self._width)), bisect_left(order, (high + 1) // self._width)
        for bucket in order[begin:end]:
            members = buckets.get(bucket)
            if members is not None:
                members.difference_update(keys)
                if not members:
                    del buckets[bucket]

    def between(self, low: int, high: int) -> set[Any]:
        """Returns the keys that may have rows from ``low`` to ``high``."""
        order, buckets = self._order, self._buckets
        begin, end = bisect_left(order, low // self._width), bisect_right(order, high // self._width)
        keys: set[Any] = set()
        if begin < end:
            keys.update(*[buckets[bucket] for bucket in order[begin:end] if bucket in buckets])
        return keys

    def expire(self, limit: int) -> set[Any]:
        """Removes all buckets that end at or before a time; returns their keys."""
        order = self._order
        end = bisect_left(order, (limit + 1) // self._width)
        if not end:
            return set()
        expired = order[:end]
        del order[:end]
        keys: set[Any] = set()
        keys.update(*[self._buckets.pop(bucket) for bucket in expired if bucket in self._buckets])
        return keys
