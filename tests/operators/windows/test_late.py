"""WindowedTable.late: the records that arrived after all their windows had closed, as a stream."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="attr-defined"

from __future__ import annotations

from typing import Any

from tests.operators.harness import rows, run

from millstream import App, TestDriver, hopping, session, sliding, tumbling


def late(window: Any, *records: tuple[Any, ...], emit: Any = "update") -> TestDriver:
    app = App("test")
    counts = app.stream("in", value=str).group_by_key().windowed_by(window, emit=emit).count(name="count")
    counts.late().to("late")
    return run(app, *records)


def test_of_tumbling_windows() -> None:
    driver = late(tumbling(10, grace=5), ("b", "x", 15), ("a", "lost", 9), ("a", "y", 10))
    assert rows(driver, "late") == [("a", "lost", 9)]
    assert driver.dropped == {("count", "late"): 1}


def test_of_hopping_windows_only_if_late_for_all() -> None:
    driver = late(hopping(10, 5), ("b", "x", 14), ("a", "partly", 8), ("b", "x", 15), ("a", "wholly", 8))
    # at 14, [0, 10) is closed and [5, 15) is open; at 15 both are closed
    assert rows(driver, "late") == [("a", "wholly", 8)]
    assert driver.dropped == {("count", "late"): 3}


def test_of_sliding_windows() -> None:
    driver = late(sliding(10), ("b", "x", 40), ("a", "just", 30), ("a", "lost", 29))
    assert rows(driver, "late") == [("a", "lost", 29)]


def test_of_sessions() -> None:
    driver = late(session(10, grace=5), ("b", "x", 40), ("a", "just", 25), ("c", "lost", 24))
    assert rows(driver, "late") == [("c", "lost", 24)]
    assert driver.dropped == {("count", "late"): 1}


def test_of_windows_that_are_emitted_on_close() -> None:
    driver = late(tumbling(10), ("a", "x", 10), ("a", "lost", 9), emit="close")
    assert rows(driver, "late") == [("a", "lost", 9)]


def test_null_keys_are_not_late() -> None:
    driver = late(tumbling(10), ("a", "x", 10), (None, "lost", 9))
    assert rows(driver, "late") == []
    assert driver.dropped == {("count", "null key"): 1}


def test_null_values_are_late() -> None:
    assert rows(late(tumbling(10), ("a", "x", 10), ("a", None, 9)), "late") == [("a", None, 9)]


def test_late_records_keep_their_order_timestamps_and_headers() -> None:
    driver = late(tumbling(10), ("a", "x", 50), ("a", "1", 9, {"n": "1"}), ("a", "2", 3), ("a", "3", 3))
    assert rows(driver, "late") == [("a", "1", 9), ("a", "2", 3), ("a", "3", 3)]
    assert driver.output("late").read().headers == (("n", b"1"),)


def test_the_stream_has_the_serdes_of_the_aggregated_stream() -> None:
    app = App("test")
    numbers = app.stream("in", key=int, value=int)
    numbers.group_by_key().windowed_by(tumbling(10)).count().late().to("late")
    assert rows(run(app, (1, 7, 10), (1, 8, 9)), "late") == [(1, 8, 9)]


def test_after_a_grouping_by_a_new_key_late_records_have_that_key() -> None:
    app = App("test")
    words = app.stream("in", value=str).group_by(lambda word: word, key=str)
    words.windowed_by(tumbling(10)).count().late().to("late")
    assert rows(run(app, ("a", "x", 10), ("a", "y", 9)), "late") == [("y", "y", 9)]


def test_late_records_can_be_counted_in_wider_windows() -> None:
    app = App("test")
    counts = app.stream("in", value=str).group_by_key().windowed_by(tumbling(10)).count()
    counts.late().group_by_key().windowed_by(tumbling(100)).count().to_stream().to("out")
    driver = run(app, ("a", "x", 50), ("a", "y", 9), ("a", "z", 3))
    assert rows(driver) == [(("a", 0, 100), 1, 9), (("a", 0, 100), 2, 9)]


def test_of_a_cogroup_the_late_records_of_all_its_streams() -> None:
    app = App("test")
    clicks, views = app.stream("clicks", value=str), app.stream("views", value=str)
    table = clicks.group_by_key().cogroup(lambda v, n: n + 1).cogroup(views.group_by_key(), lambda v, n: n + 1)
    table.windowed_by(tumbling(10)).aggregate(lambda: 0, value=int).late().to("late")
    driver = run(app, ("a", "x", 10), ("a", "click", 9), topic="clicks")
    driver.input("views").pipe("a", "x", timestamp=20)
    driver.input("views").pipe("a", "view", timestamp=9)
    assert rows(driver, "late") == [("a", "click", 9), ("a", "view", 9)]
