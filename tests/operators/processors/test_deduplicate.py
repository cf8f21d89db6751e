"""``deduplicate``: drops records that are near in time to an equal one."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, TestDriver, TopologyError, col


def deduplicated(within: Any = 10, **options: Any) -> App:
    app = App("processors")
    app.stream("in").deduplicate(within, name="once", **options).to("out")
    return app


def passed(app: App, *records: tuple[Any, Any, int]) -> list[tuple[Any, Any, int]]:
    with TestDriver(app) as driver:
        for key, value, time in records:
            driver.input("in").pipe(key, value, timestamp=time)
        return [(r.key, r.value, r.timestamp) for r in driver.output("out").read_all()]


def times(app: App, *timestamps: int) -> list[int]:
    return [time for _, _, time in passed(app, *(("k", "v", time) for time in timestamps))]


def test_a_record_within_the_span_of_an_equal_one_is_dropped() -> None:
    assert times(deduplicated(), 0, 5, 10, 21) == [0, 21]


def test_the_span_is_inclusive() -> None:
    assert times(deduplicated(), 100, 110) == [100]
    assert times(deduplicated(), 100, 111) == [100, 111]


def test_a_steady_repetition_yields_one_record() -> None:
    assert times(deduplicated(), 0, 8, 16, 24, 32) == [0]


def test_an_out_of_order_record_is_also_compared_with_later_records() -> None:
    assert times(deduplicated(), 100, 95, 89) == [100]
    assert times(deduplicated(), 100, 89) == [100, 89]


def test_equal_times_are_duplicates() -> None:
    assert times(deduplicated(), 5, 5) == [5]


def test_records_of_different_keys_are_not_duplicates() -> None:
    assert passed(deduplicated(), ("a", 1, 0), ("b", 1, 0), ("a", 2, 1)) == [("a", 1, 0), ("b", 1, 0)]


def test_by_distinguishes_records_of_one_key() -> None:
    records = [("k", {"id": n, "n": i}, i) for i, n in enumerate([1, 2, 1])]
    for by in (lambda v: v["id"], lambda k, v: [k, v["id"]], col("id")):
        assert [v["id"] for _, v, _ in passed(deduplicated(by=by), *records)] == [1, 2]


def test_records_with_null_keys_pass() -> None:
    assert passed(deduplicated(), (None, 1, 0), (None, 1, 0)) == [(None, 1, 0), (None, 1, 0)]


def test_null_values_are_compared_by_key_like_others() -> None:
    assert passed(deduplicated(), ("k", None, 0), ("k", None, 1)) == [("k", None, 0)]


def test_dropped_duplicates_are_counted() -> None:
    with TestDriver(deduplicated()) as driver:
        driver.input("in").pipe_pairs([("k", 1), ("k", 1), ("k", 1)])
        assert list(driver.dropped.values()) == [2]
        assert {reason for _, reason in driver.dropped} == {"duplicate"}


def test_a_stream_whose_key_was_changed_is_repartitioned() -> None:
    app = App("processors")
    app.stream("in", value=str).select_key(lambda v: v, key=str).deduplicate(10, name="once").to("out")
    with TestDriver(app, partitions=3) as driver:
        driver.input("in").pipe_pairs([("a", "x"), ("b", "x"), ("c", "y"), ("d", "x")])
        assert sorted(driver.output("out").read_values()) == ["x", "y"]
        assert driver.produced_topics == {"out", "processors-once-repartition"}


def test_drops_are_counted_under_the_name_of_the_operator() -> None:
    with TestDriver(deduplicated()) as driver:
        driver.input("in").pipe_pairs([("k", 1), ("k", 1)])
        assert driver.dropped == {("once", "duplicate"): 1}


def test_the_store_can_be_named() -> None:
    with TestDriver(deduplicated(store="seen")) as driver:
        driver.input("in").pipe("k", 1)
        assert len(driver.changelog("seen")) == 1


@pytest.mark.parametrize("within", [0, -1, "0s"])
def test_a_span_that_is_not_positive_is_refused(within: Any) -> None:
    with pytest.raises(TopologyError, match="within must be more than zero"):
        deduplicated(within)
