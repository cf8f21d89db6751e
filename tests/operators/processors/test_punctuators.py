"""Punctuators: functions that are called as stream time or the wall clock advances."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, Cancellable, Processor, Record, TestDriver
from millstream.errors import MillstreamError


def ticking(interval: Any, clock: Any, *, start: int | None = None, limit: int = 99, keep: bool = False) -> App:
    """Returns an application that writes the time of each punctuation, and also its records if ``keep``."""

    class Ticker(Processor[Any, Any, Any, Any]):
        schedule: Cancellable

        def init(self) -> None:
            self.ticks = 0
            self.schedule = self.context.schedule(interval, clock, self.tick, start=start)

        def tick(self, now: int) -> None:
            assert self.context.record_metadata is None
            self.context.forward(Record("tick", now, now))
            self.ticks += 1
            if self.ticks == limit:
                self.schedule.cancel()

        def process(self, record: Record[Any, Any]) -> None:
            if keep:
                self.context.forward(record)

    app = App("processors")
    app.stream("in").process(Ticker, name="ticker", key=str, value=object).to("out")
    return app


def stream_ticks(app: App, *times: int) -> list[list[Any]]:
    """Returns the values written at each record."""
    with TestDriver(app) as driver:
        output = driver.output("out")
        ticks = []
        for time in times:
            driver.input("in").pipe("k", "record", timestamp=time)
            ticks.append(output.read_values())
        return ticks


def wall_ticks(app: App, *steps: int, wall_clock: int = 0) -> list[list[int]]:
    """Returns the values written at each advance of the wall clock."""
    with TestDriver(app, wall_clock=wall_clock) as driver:
        output = driver.output("out")
        ticks = []
        for step in steps:
            driver.advance_wall_clock(step)
            ticks.append(output.read_values())
        return ticks


def test_stream_time_punctuators_fire_at_the_first_record_and_then_aligned_to_zero() -> None:
    assert stream_ticks(ticking(10, "stream"), 3, 9, 10, 12, 25) == [[3], [], [10], [], [25]]


def test_a_stream_time_punctuator_fires_after_the_record() -> None:
    assert stream_ticks(ticking(10, "stream", keep=True), 3, 10) == [["record", 3], ["record", 10]]


def test_missed_intervals_are_skipped_and_the_alignment_is_kept() -> None:
    assert stream_ticks(ticking(10, "stream"), 0, 55, 59, 60) == [[0], [55], [], [60]]


def test_late_records_do_not_fire_punctuators() -> None:
    assert stream_ticks(ticking(10, "stream"), 50, 10, 20) == [[50], [], []]


def test_the_first_stream_time_punctuation_is_at_start() -> None:
    assert stream_ticks(ticking(10, "stream", start=25), 3, 24, 26, 34, 35) == [[], [], [26], [], [35]]


def test_without_records_stream_time_punctuators_never_fire() -> None:
    assert wall_ticks(ticking(10, "stream"), 1_000, 1_000) == [[], []]


def test_wall_clock_punctuators_first_fire_after_one_interval() -> None:
    assert wall_ticks(ticking(10, "wall"), 9, 1, 9, 1, wall_clock=100) == [[], [110], [], [120]]


def test_missed_wall_clock_intervals_are_skipped() -> None:
    assert wall_ticks(ticking(10, "wall"), 55, 4, 1) == [[55], [], [60]]


def test_the_first_wall_clock_punctuation_is_at_start() -> None:
    assert wall_ticks(ticking(10, "wall", start=25), 24, 1, 9, 1) == [[], [25], [], [35]]


def test_records_do_not_fire_wall_clock_punctuators() -> None:
    assert stream_ticks(ticking(10, "wall"), 0, 1_000) == [[], []]


def test_a_cancelled_punctuator_is_not_called_again() -> None:
    assert wall_ticks(ticking(10, "wall", limit=2), 10, 10, 10, 10) == [[10], [20], [], []]


def test_intervals_may_be_text() -> None:
    assert wall_ticks(ticking("1s", "wall"), 999, 1) == [[], [1_000]]


def test_a_punctuator_may_be_scheduled_by_a_record() -> None:
    class OnDemand(Processor[Any, int, Any, Any]):
        def process(self, record: Record[Any, int]) -> None:
            self.context.schedule(record.value, "wall", lambda now: self.context.forward(Record("tick", now, now)))

    app = App("processors")
    app.stream("in", value=int).process(OnDemand, key=str, value=int).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe(10)
        driver.advance_wall_clock(5)
        driver.input("in").pipe(10)
        driver.advance_wall_clock(5)
        driver.advance_wall_clock(5)
        assert driver.output("out").read_values() == [10, 15]


def test_several_punctuators_are_called_in_the_order_of_their_times() -> None:
    class Two(Processor[Any, Any, Any, Any]):
        def init(self) -> None:
            self.context.schedule(30, "wall", lambda now: self.note(30, now))
            self.context.schedule(20, "wall", lambda now: self.note(20, now))

        def note(self, interval: int, now: int) -> None:
            self.context.forward(Record("tick", [interval, now], now))

        def process(self, record: Record[Any, Any]) -> None: ...

    app = App("processors")
    app.stream("in").process(Two, key=str, value=object).to("out")
    with TestDriver(app) as driver:
        for _ in range(2):
            driver.advance_wall_clock(30)
        assert driver.output("out").read_values() == [[20, 30], [30, 30], [20, 60], [30, 60]]


def test_every_task_has_its_own_punctuators() -> None:
    with TestDriver(ticking(10, "wall"), partitions=3) as driver:
        driver.advance_wall_clock(10)
        assert driver.output("out").read_values() == [10, 10, 10]


@pytest.mark.parametrize(
    ("interval", "clock", "problem"),
    [(0, "wall", "more than zero"), (-5, "stream", "more than zero"), (5, "event", "no clock 'event'")],
)
def test_invalid_schedules_are_refused(interval: int, clock: str, problem: str) -> None:
    with pytest.raises(MillstreamError, match=problem):
        TestDriver(ticking(interval, clock))
