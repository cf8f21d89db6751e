"""Stores of several partitions are read as one: the same results, in the same form and order, as with one partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millstream import App, TestDriver, session, tumbling


def driver(partitions: int, key: Any) -> TestDriver:
    app = App("test")
    grouped = app.stream("in", key=key, value=int).group_by_key()
    grouped.count(store="plain")
    grouped.windowed_by(tumbling(100, grace="1d")).count(store="windows")
    grouped.windowed_by(session(50, grace="1d")).count(store="sessions")
    driver = TestDriver(app, partitions=partitions)
    keys = ["a", "b", "c", "d"] if key is str else [{"id": n} for n in range(4)]
    for time in (200, 1000, 3000):
        for record_key in keys:
            driver.input("in").pipe(record_key, 1, timestamp=time)
    return driver


QUESTIONS: dict[str, Callable[[TestDriver, Any], Any]] = {
    "all": lambda d, k: list(d.store("plain").all()),
    "reverse_all": lambda d, k: list(d.store("plain").reverse_all()),
    "get": lambda d, k: d.store("plain").get(k),
    "entries": lambda d, k: d.store("plain").approximate_num_entries(),
    "fetch": lambda d, k: d.store("windows").fetch(k, 0, 5000),
    "backward_fetch": lambda d, k: d.store("windows").backward_fetch(k, 0, 5000),
    "fetch one": lambda d, k: d.store("windows").fetch(k, 200),
    "sessions": lambda d, k: d.store("sessions").fetch(k),
    "name": lambda d, k: d.store("windows").name,
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("key", [str, dict])
def test_results_match_those_of_one_partition(question: str, key: Any) -> None:
    wanted = "b" if key is str else {"id": 2}
    ask = QUESTIONS[question]
    assert ask(driver(3, key), wanted) == ask(driver(1, key), wanted)
