"""The order in which a task takes the records of its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from millstream.runtime.order.positions import position, positions
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


def running(queue: list[int]) -> Any:
    """The running maximum of times."""
    return np.maximum.accumulate(np.array(queue, dtype=np.int64)) if queue else np.array([], dtype=np.int64)


def positions_of(number: int, queue: list[int]) -> Any:
    """The order positions of the records of a partition, by their times."""
    return positions(running(queue), number, np.arange(len(queue)))


def merged_order(counts: list[int], order: list[int] | None) -> list[int]:
    return [number for number, count in enumerate(counts) for _ in range(count)] if order is None else order


queues = st.lists(st.lists(st.integers(0, 6), max_size=8), min_size=1, max_size=4)


@given(queues)
def test_the_order_is_that_of_the_lowest_head(queues: list[list[int]]) -> None:
    inputs = [Input(positions_of(n, q)) for n, q in enumerate(queues)]
    merged = merge(inputs, None)
    counts, order, taken = merged.counts, merged.order, merged.positions()
    assert counts == [len(q) for q in queues]
    assert taken.tolist() == sorted(taken.tolist())
    assert merged.last == max(taken.tolist(), default=None)
    by_ordinal = merge([each._replace(ordinal=n) for n, each in enumerate(inputs)], None)
    assert (by_ordinal.counts, by_ordinal.order) == (counts, order)
    backwards = merge([each._replace(ordinal=n) for n, each in reversed([*enumerate(inputs)])], None)
    assert backwards.positions().tolist() == taken.tolist()
    expected = head_by_head(queues)
    # Of equal running maxima the queue decides; of equal heads, too, unless an older record follows a newer one.
    strictly = [n for n, _ in sorted(expected, key=lambda one: (running(queues[one[0]])[one[1]], one[0], one[1]))]
    assert merged_order(counts, order) == strictly
    maxima = [running(queues[n])[p] for n, p in expected]
    assert maxima == sorted(maxima)


@settings(max_examples=120)
@given(queues, st.data())
def test_the_records_taken_do_not_depend_on_the_cuts(queues: list[list[int]], data: st.DataObject) -> None:
    columns = [positions_of(n, q) for n, q in enumerate(queues)]
    whole = merged_order(*merge([Input(column) for column in columns], None)[:2])
    read = [0] * len(queues)
    first = [0] * len(queues)  # the first record that is not taken
    taken: list[int] = []
    while any(r < len(q) for r, q in zip(read, queues, strict=True)):
        bounds = []
        # Each batch reads a record at least.
        growing = data.draw(st.sampled_from([n for n, queue in enumerate(queues) if read[n] < len(queue)]))
        for n, queue in enumerate(queues):
            read[n] += data.draw(st.integers(int(n == growing), len(queue) - read[n]))
            if read[n] < len(queue):
                last = running(queue)[read[n] - 1] if read[n] else -1
                bounds.append(position(int(last), n, read[n]))
        inputs = [Input(column[a:b]) for column, a, b in zip(columns, first, read, strict=True)]
        counts, order = merge(inputs, min(bounds, default=None))[:2]
        taken += merged_order(counts, order)
        first = [a + count for a, count in zip(first, counts, strict=True)]
    assert taken == whole
    assert first == read


def test_released_records_are_taken_whatever_the_limit_is() -> None:
    columns = [positions_of(0, [1, 2, 8]), positions_of(1, [3, 9])]
    counts, order = merge([Input(columns[0], released=3), Input(columns[1])], position(3, 1, 1))[:2]
    assert counts == [3, 1]
    assert order == [0, 0, 1, 0]


def test_records_of_one_origin_are_taken_by_the_timestamps_at_the_heads_of_their_inputs() -> None:
    origins = positions(np.array([1, 1, 2]), 0, np.array([0, 0, 1]))
    first = Input(origins, timestamps=np.array([10, 3, 4]))
    second = Input(origins, timestamps=np.array([5, 10, 9]))
    assert merge([first, second], None).order == [1, 0, 0, 1, 0, 1]
