"""Windows with idle=…: without records for that long, stream time advances with the wall clock."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.harness import refused, rows, run, send

from millstream import App, TestDriver, hopping, session, sliding, tumbling, until_window_closes


def final(window: Any, *, suppress: bool = False) -> App:
    app = App("test")
    grouped = app.stream("in", value=str).group_by_key()
    if suppress:
        table = grouped.windowed_by(window).count(name="count").suppress(until_window_closes())
    else:
        table = grouped.windowed_by(window, emit="close").count(name="count")
    table.to_stream().to("out")
    return app


def wait(driver: TestDriver, seconds: int) -> TestDriver:
    """Advances the wall clock second by second, as in production."""
    for _ in range(seconds):
        driver.advance_wall_clock("1s")
    return driver


WINDOWS = {
    "tumbling": (tumbling(1_000, idle="5s"), (("a", 0, 1_000), 1, 900)),
    "hopping": (hopping(1_000, 1_000, idle="5s"), (("a", 0, 1_000), 1, 900)),
    "sliding": (sliding(900, grace=10, idle="5s"), (("a", 0, 900), 1, 900)),
    "session": (session(1_000, idle="5s"), (("a", 900, 900), 1, 900)),
}


@pytest.mark.parametrize("suppress", [False, True], ids=["emit on close", "suppress"])
@pytest.mark.parametrize("kind", WINDOWS)
def test_the_last_window_is_emitted_without_a_further_record(kind: str, suppress: bool) -> None:
    window, row = WINDOWS[kind]
    driver = wait(run(final(window, suppress=suppress), ("a", "x", 900)), 4)
    assert rows(driver) == []
    wait(driver, 2)
    assert rows(driver) == [row]


@pytest.mark.parametrize("suppress", [False, True], ids=["emit on close", "suppress"])
def test_without_idle_only_records_advance_time(suppress: bool) -> None:
    driver = wait(run(final(tumbling(1_000), suppress=suppress), ("a", "x", 900)), 60)
    assert rows(driver) == []


def test_the_idle_time_is_measured_from_the_last_record_for_any_step_of_the_clock() -> None:
    driver = run(final(tumbling(1_000, idle="5s")), ("a", "x", 900))
    driver.advance_wall_clock(4_999)
    assert rows(driver) == []
    driver.advance_wall_clock(1)
    assert rows(driver) == [(("a", 0, 1_000), 1, 900)]


def test_one_long_step_of_the_wall_clock_closes_the_window() -> None:
    driver = run(final(tumbling(1_000, idle="5s")), ("a", "x", 900))
    driver.advance_wall_clock("1m")
    assert rows(driver) == [(("a", 0, 1_000), 1, 900)]


def test_idle_stream_time_advances_from_the_last_record_with_the_wall_clock() -> None:
    # the window ends at 60 000, and stream time is 30 000 when the source becomes idle
    driver = wait(run(final(tumbling("1m", idle="5s")), ("a", "x", 30_000)), 29)
    assert rows(driver) == []
    wait(driver, 2)
    assert rows(driver) == [(("a", 0, 60_000), 1, 30_000)]


def test_a_record_restarts_the_idle_time() -> None:
    driver = wait(run(final(tumbling(1_000, idle="5s")), ("a", "x", 900)), 4)
    wait(send(driver, ("a", "x", 901)), 4)
    assert rows(driver) == []
    wait(driver, 2)
    assert rows(driver) == [(("a", 0, 1_000), 2, 901)]


def test_a_record_with_a_null_key_also_restarts_the_idle_time() -> None:
    driver = wait(run(final(tumbling(1_000, idle="5s")), ("a", "x", 900)), 4)
    wait(send(driver, (None, "x", 900)), 4)
    assert rows(driver) == []


def test_before_the_first_record_nothing_happens() -> None:
    driver = wait(run(final(tumbling(1_000, idle="5s"))), 60)
    send(driver, ("a", "x", 0))
    assert (rows(driver), driver.dropped) == ([], {})


def test_a_record_of_a_window_closed_by_idle_time_is_late() -> None:
    driver = wait(run(final(tumbling(1_000, idle="5s")), ("a", "x", 900)), 7)
    send(driver, ("a", "x", 950))
    assert rows(driver) == [(("a", 0, 1_000), 1, 900)]
    assert driver.dropped == {("count", "late"): 1}


def test_windows_that_are_emitted_on_update_are_also_closed() -> None:
    app = App("test")
    windows = app.stream("in", value=str).group_by_key().windowed_by(tumbling(1_000, idle="5s"))
    windows.count(name="count").to_stream().to("out")
    driver = wait(run(app, ("a", "x", 900)), 7)
    send(driver, ("a", "x", 950))
    assert driver.dropped == {("count", "late"): 1}


def test_each_window_is_emitted_once() -> None:
    driver = wait(run(final(tumbling(1_000, idle="5s")), ("a", "x", 900)), 60)
    send(driver, ("b", "x", 200_000))
    assert rows(driver) == [(("a", 0, 1_000), 1, 900)]


def test_the_idle_time_continues_after_a_restart() -> None:
    driver = wait(run(final(tumbling(1_000, idle="5s")), ("a", "x", 900)), 3)
    driver.restart()
    wait(driver, 4)
    assert rows(driver) == [(("a", 0, 1_000), 1, 900)]


def test_windows_closed_by_idle_time_have_no_headers() -> None:
    driver = wait(run(final(tumbling(1_000, idle="5s")), ("a", "x", 900, {"n": "1"})), 7)
    assert driver.output("out").read().headers == ()


def test_an_idle_time_of_zero_is_refused() -> None:
    refused(lambda: tumbling(10, idle=0), "idle must be more than zero", hint=False)
