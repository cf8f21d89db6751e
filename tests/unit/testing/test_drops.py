"""``driver.dropped``: no record disappears without being counted, by operator and reason."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, Stream, TestDriver, tumbling

DROPS: dict[str, tuple[Any, list[tuple[Any, Any, int]], dict[tuple[str, str], int]]] = {
    "table, null key": (lambda s: s.to_table(name="op"), [(None, 1, 0)], {("op", "null key"): 1}),
    "count, null key": (lambda s: s.group_by_key().count(name="op"), [(None, 1, 0)], {("op", "null key"): 1}),
    "count, null value": (lambda s: s.group_by_key().count(name="op"), [("k", None, 0)], {("op", "null value"): 1}),
    "window, null key": (
        lambda s: s.group_by_key().windowed_by(tumbling(10)).count(name="op"),
        [(None, 1, 0)],
        {("op", "null key"): 1},
    ),
    "window, too late": (
        lambda s: s.group_by_key().windowed_by(tumbling(10)).count(name="op"),
        [("k", 1, 100), ("k", 1, 5)],
        {("op", "late"): 1},
    ),
    "repartition, null key": (
        lambda s: s.repartition(name="again").to("out"),
        [(None, 1, 0)],
        {("again-repartition", "null key before repartition"): 1},
    ),
    "split, no branch": (
        lambda s: s.split({"none": lambda v: False}, name="op"),
        [("k", 1, 0)],
        {("op", "no branch"): 1},
    ),
}


@pytest.mark.parametrize("case", DROPS)
def test_a_dropped_record_is_counted_by_operator_and_reason(case: str) -> None:
    make, records, expected = DROPS[case]
    app = App("driver")
    stream: Stream[str, int] = app.stream("in", value=int)
    make(stream)
    with TestDriver(app) as driver:
        for key, value, time in records:
            driver.input("in").pipe(key, value, timestamp=time)
        assert driver.dropped == expected
        dropped = driver.dropped_records[-1]
        assert (dropped.key, dropped.value, dropped.timestamp) == records[-1]


def test_a_record_with_an_invalid_timestamp_is_counted_at_the_source() -> None:
    app = App("driver")
    app.stream("in", value=int, on_invalid_timestamp="skip", name="source").to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 1, timestamp=-1)
        assert driver.dropped == {("source", "invalid timestamp"): 1}


def test_filtered_records_are_not_dropped() -> None:
    app = App("driver")
    app.stream("in", value=int).filter(lambda v: v > 1).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe_values([1, 2])
        assert driver.dropped == {}


@pytest.mark.parametrize("partitions", [1, 3])
def test_drops_of_all_partitions_are_counted_together_and_survive_a_restart(partitions: int) -> None:
    app = App("driver")
    app.stream("in", value=int).group_by_key().count(name="op")
    with TestDriver(app, partitions=partitions) as driver:
        driver.input("in").pipe_pairs([("a", None), ("b", None), ("c", None)])
        driver.restart()
        driver.input("in").pipe_pairs([("d", None)])
        assert driver.dropped == {("op", "null value"): 4}
        assert len(driver.dropped_records) == 4
