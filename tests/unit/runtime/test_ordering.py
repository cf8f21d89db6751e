from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from millstream.runtime.tasks.ordering import Input, merge


def head_by_head(queues: list[list[int]]) -> list[tuple[int, int]]:
    """Takes the lowest head, of equal ones that of the first queue: (queue, place)."""
    places = [0] * len(queues)
    taken = []
    while any(place < len(queue) for place, queue in zip(places, queues, strict=True)):
        _, number = min((queue[places[n]], n) for n, queue in enumerate(queues) if places[n] < len(queue))
        taken.append((number, places[number]))
        places[number] += 1
    return taken


def running(queue: list[int]) -> np.ndarray:
    return np.maximum.accumulate(np.array(queue, dtype=np.int64)) if queue else np.array([], dtype=np.int64)


queues = st.lists(st.lists(st.integers(0, 6), max_size=8), min_size=1, max_size=4)


@given(queues)
def test_the_order_is_that_of_the_lowest_head(queues: list[list[int]]) -> None:
    counts, order = merge([Input(n, running(q), None) for n, q in enumerate(queues)])
    assert counts == [len(q) for q in queues]
    expected = head_by_head(queues)
    if order is None:
        order = [n for n, q in enumerate(queues) for _ in q]
    # Of equal running maxima the queue decides; of equal heads, too, unless an older record follows a newer one.
    strictly = [n for n, _ in sorted(expected, key=lambda one: (running(queues[one[0]])[one[1]], one[0], one[1]))]
    assert order == strictly
    maxima = [running(queues[n])[p] for n, p in expected]
    assert maxima == sorted(maxima)


@settings(max_examples=300)
@given(queues, st.data())
def test_what_is_taken_does_not_depend_on_the_cuts(queues: list[list[int]], data: st.DataObject) -> None:
    whole = merge([Input(n, running(q), None) for n, q in enumerate(queues)])[1]
    if whole is None:
        whole = [n for n, q in enumerate(queues) for _ in q]
    read = [0] * len(queues)  # how far each is read
    kept: list[list[int]] = [[] for _ in queues]  # running maxima of what was read and not taken
    taken: list[int] = []
    while any(r < len(q) for r, q in zip(read, queues, strict=True)):
        inputs = []
        for n, queue in enumerate(queues):
            count = data.draw(st.integers(0, len(queue) - read[n]))
            orders = running(queue)
            kept[n] += orders[read[n] : read[n] + count].tolist()
            read[n] += count
            more = read[n] < len(queue)
            bound = int(orders[read[n] - 1]) if read[n] else -1
            inputs.append(Input(n, np.array(kept[n], dtype=np.int64), bound if more else None))
        counts, order = merge(inputs)
        taken += [n for n, c in enumerate(counts) for _ in range(c)] if order is None else order
        kept = [k[c:] for k, c in zip(kept, counts, strict=True)]
    assert taken == whole
    assert not any(kept)


def test_a_partition_with_more_to_come_holds_back_what_is_later() -> None:
    counts, order = merge([Input(0, np.array([1, 2, 8]), None), Input(1, np.array([3]), 3)])
    assert counts == [2, 1]
    assert order == [0, 0, 1]


@pytest.mark.parametrize(("rank", "expected"), [(0, 1), (2, 0)])
def test_of_equal_times_the_first_partition_goes_first(rank: int, expected: int) -> None:
    counts, _ = merge([Input(1, np.array([], dtype=np.int64), 5), Input(rank, np.array([5]), None)])
    assert counts == [0, expected]
