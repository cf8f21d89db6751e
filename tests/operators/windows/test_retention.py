"""Materialized(retention=…): how long a windowed table retains its rows."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.harness import refused, rows, run

from millstream import App, Materialized, TestDriver, session, sliding, tumbling


def stored(window: Any, retention: Any, *times: int, key: str = "a") -> TestDriver:
    app = App("test")
    windows = app.stream("in", value=str).group_by_key().windowed_by(window)
    windows.count(store=Materialized("counts", retention=retention)).to_stream().to("out")
    return run(app, *((key, "x", time) for time in times))


def test_by_default_rows_are_retained_for_size_and_grace_after_the_latest_start() -> None:
    driver = stored(tumbling(10, grace=5), None, 0, 10, 20)
    # windows that start after 20 - 15 are returned
    assert [key.start for key, _ in driver.store("counts").all()] == [10, 20]


def test_a_longer_retention_applies_to_the_millisecond() -> None:
    assert [key.start for key, _ in stored(tumbling(10), 20, 0, 10, 20).store("counts").all()] == [10, 20]
    assert [key.start for key, _ in stored(tumbling(10), 21, 0, 10, 20).store("counts").all()] == [0, 10, 20]


def test_a_longer_retention_does_not_admit_late_records() -> None:
    driver = stored(tumbling(10), 1_000, 0, 10, 5)
    assert driver.dropped == {("in-count", "late"): 1}


def test_an_open_window_can_always_be_queried() -> None:
    assert rows(stored(tumbling(10, grace=10), None, 0, 19, 5))[-1] == (("a", 0, 10), 2, 5)


def test_by_default_sliding_windows_are_retained_for_twice_the_difference_and_the_grace() -> None:
    driver = stored(sliding(10, grace=5), None, 20, 45)
    # [10, 20] is evicted when [35, 45] is put: 10 > 35 - 25 is false
    assert [key.start for key, _ in driver.store("counts").all()] == [35]


def test_by_default_sessions_are_retained_for_the_gap_and_the_grace_after_the_latest_end() -> None:
    assert [key.start for key, _ in stored(session(10, grace=5), None, 0, 15).store("counts").fetch("a")] == [15]
    assert [key.start for key, _ in stored(session(10, grace=5), None, 0, 14).store("counts").fetch("a")] == [0, 14]


def test_a_longer_retention_of_sessions() -> None:
    assert [key.start for key, _ in stored(session(10), "1s", 0, 15).store("counts").fetch("a")] == [0, 15]


@pytest.mark.parametrize(
    ("window", "least"), [(tumbling(10, grace=5), 15), (sliding(10, grace=5), 25), (session(10, grace=5), 15)]
)
def test_a_retention_shorter_than_the_windows_need_is_refused(window: Any, least: int) -> None:
    grouped = App("test").stream("in").group_by_key().windowed_by(window)
    grouped.count(store=Materialized("enough", retention=least))
    refused(lambda: grouped.count(store=Materialized("small", retention=least - 1)), "retention", f"{least - 1}ms")


def test_a_windowed_table_cannot_be_versioned() -> None:
    grouped = App("test").stream("in").group_by_key().windowed_by(tumbling(10))
    refused(lambda: grouped.count(store=Materialized("counts", history="1h")), "cannot be versioned", hint=False)


def test_a_table_without_windows_has_no_retention() -> None:
    grouped = App("test").stream("in").group_by_key()
    refused(lambda: grouped.count(store=Materialized("counts", retention="1h")), "retention is for windows", "ttl=")
