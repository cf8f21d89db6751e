"""Idle advance at run time: batches run while a window is open, and stop when all are closed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millstream import (
    App,
    Processor,
    Record,
    Stream,
    hopping,
    join_window,
    session,
    sliding,
    tumbling,
    until_window_closes,
)
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.admin import migrate
from millstream.runtime.in_process.batches import InProcessRun

START = 1_000_000


class Clock:
    """A wall clock that a test moves, in milliseconds."""

    def __init__(self) -> None:
        self.now = START

    def time_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000

    def sleep(self, seconds: float) -> None:
        pass

    def wait(self, run: InProcessRun, seconds: float) -> int:
        """Advances the clock in steps of 250 ms, and runs the batches that are due; returns their number."""
        count = 0
        for _ in range(int(seconds * 4)):
            self.now += 250
            count += run.run()
        return count


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr("millstream.runtime.batches.planner._WAIT", 0)
    return Clock()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path)
    log.create_topic("in")
    log.create_topic("other")
    return log


def send(log: Log, timestamp: int, value: bytes = b"x") -> None:
    log.produce("in", [ProducerRecord(b"k", value, timestamp)])


def count(log: Log, topic: str = "out") -> int:
    return sum(log.ends([topic])[topic])


def make(tmp_path: Path, build: Callable[[App, Stream[Any, Any]], Any]) -> App:
    app = App("idle", config={"state.dir": str(tmp_path), "status": "none"})
    build(app, app.stream("in", key=str, value=str)).to("out")
    return app


def closed(window: Any) -> Callable[[App, Stream[Any, Any]], Any]:
    return lambda _app, stream: stream.group_by_key().windowed_by(window, emit="close").count(name="count").to_stream()


def suppressed(_app: App, stream: Stream[Any, Any]) -> Any:
    table = stream.group_by_key().windowed_by(tumbling(1_000, idle="5s")).count(name="count")
    return table.suppress(until_window_closes()).to_stream()


def unmatched(how: str) -> Callable[[App, Stream[Any, Any]], Any]:
    def build(app: App, stream: Stream[Any, Any]) -> Any:
        other = app.stream("other", key=str, value=str)
        return getattr(stream, how)(other, lambda a, b: [a, b], join_window(1_000, idle="5s"))

    return build


BUILDS = {
    "tumbling": closed(tumbling(1_000, idle="5s")),
    "hopping": closed(hopping(1_000, 1_000, idle="5s")),
    "sliding": closed(sliding(1_000, idle="5s")),
    "session": closed(session(1_000, idle="5s")),
    "suppress": suppressed,
    "left join": unmatched("left_join"),
    "outer join": unmatched("outer_join"),
}


@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
@pytest.mark.parametrize("kind", BUILDS)
def test_ticks_stop_when_all_windows_are_closed_and_resume_with_new_records(
    kind: str, cold: bool, tmp_path: Path, log: Log, clock: Clock
) -> None:
    with InProcessRun(make(tmp_path, BUILDS[kind]), cold=cold, ticks=True, clock=clock) as run:
        run.run()
        assert clock.wait(run, 10) == 0, "nothing has come yet"
        for turn in range(1, 4):
            send(log, turn * 100_000)
            assert run.run() > 0
            assert count(log) == turn - 1
            assert 4 <= clock.wait(run, 8) <= 8
            assert count(log) == turn
            assert clock.wait(run, 60) == 0


@pytest.mark.parametrize("kind", ["tumbling", "session", "updated"])
def test_a_record_after_an_idle_period_is_late_even_if_no_window_was_open(
    kind: str, tmp_path: Path, log: Log, clock: Clock
) -> None:
    """The same record would be late if ticks had continued."""
    updated = tumbling(1_000, idle="5s")
    builds = {
        **BUILDS,
        "updated": lambda _app, stream: stream.group_by_key().windowed_by(updated).count(name="count").to_stream(),
    }
    with InProcessRun(make(tmp_path, builds[kind]), ticks=True, clock=clock) as run:
        send(log, 100_500)
        run.run()
        clock.wait(run, 60)
        assert clock.wait(run, 60) == 0
        before = count(log)
        send(log, 100_500 + 115_000)
        assert run.run() == 2
        drops = [(drop.operator, drop.reason, drop.count) for result in run.results for drop in result.drops]
        assert drops == [("count", "late", 1)]
        send(log, 100_500 + 120_000)
        run.run()
        clock.wait(run, 60)
        assert count(log) == before + 1


def test_time_in_which_the_application_was_stopped_or_paused_is_not_idle_time(
    tmp_path: Path, log: Log, clock: Clock
) -> None:
    """Records that arrive while the application is stopped or paused are not late for that reason."""
    app = make(tmp_path, BUILDS["tumbling"])
    with InProcessRun(app, ticks=True, clock=clock) as run:
        send(log, 100_000)
        run.run()
        clock.wait(run, 20)
        run.change(paused=True)
        clock.wait(run, 100)
        send(log, 200_000)
        run.change(paused=False)
        run.run()
        clock.wait(run, 20)
        assert count(log) == 2
    clock.now += 100_000
    send(log, 300_000)
    with InProcessRun(app, ticks=True, clock=clock) as run:
        run.run()
        clock.wait(run, 20)
        assert count(log) == 3


def windows(tmp_path: Path, *, table: bool = False, tasks: int = 1) -> App:
    """Counts windows that close on an idle stream; optionally joins the stream with a global table."""
    app = App("idle", config={"state.dir": str(tmp_path), "status": "none", "num.tasks": tasks})
    stream = app.stream("in", key=str, value=str)
    BUILDS["tumbling"](app, stream).to("out")
    if table:
        rows = app.global_table("other", key=str, value=str, store="rows")
        stream.join(rows, lambda value, row: value + row, on=lambda value: value).to("joined", value=str)
    return app


def late(run: InProcessRun) -> int:
    """Runs all batches; returns the number of late records."""
    count = 0
    while run.batch():
        count += sum(drop.count for result in run.results for drop in result.drops if drop.reason == "late")
    return count


@pytest.mark.parametrize("change", ["none", "a global table", "a migration"])
def test_the_stream_is_not_idle_while_other_topics_are_read_first(
    change: str, tmp_path: Path, log: Log, clock: Clock
) -> None:
    """Otherwise records that were already in the topic would be late."""
    log.produce("other", [ProducerRecord(b"x", b"row", 0)])
    with InProcessRun(windows(tmp_path), ticks=True, clock=clock) as run:
        send(log, 100_000)
        run.run()
        clock.wait(run, 20)
    if change == "a migration":
        migrate(windows(tmp_path))
    clock.now += 100_000
    send(log, 140_000)
    with InProcessRun(windows(tmp_path, table=change == "a global table"), ticks=True, clock=clock) as run:
        assert late(run) == 0
        clock.wait(run, 20)
        assert count(log) == 2


@pytest.mark.parametrize("records", [1_000, 10])
def test_the_stream_is_not_idle_while_there_is_a_backlog(records: int, tmp_path: Path, log: Log, clock: Clock) -> None:
    """A task whose records are at the end of the backlog is not idle until they are read."""
    keys = [f"k{n}".encode() for n in range(20)]
    with InProcessRun(windows(tmp_path, tasks=2), ticks=True, clock=clock) as run:
        log.produce("in", [ProducerRecord(key, b"x", 100_000) for key in keys])
        run.run()
        clock.wait(run, 20)
    clock.now += 100_000
    log.produce("in", [ProducerRecord(keys[0], b"x", 140_000 + n) for n in range(40)])
    log.produce("in", [ProducerRecord(key, b"x", 140_500) for key in keys])
    with InProcessRun(windows(tmp_path, tasks=2), ticks=True, clock=clock, records=records) as run:
        assert late(run) == 0
        clock.wait(run, 20)
        assert count(log) == 40


class Ticking(Processor[str, str, str, str]):
    def init(self) -> None:
        self.context.schedule("1s", "wall", lambda now: self.context.forward(Record("tick", str(now), now)))

    def process(self, record: Record[str, str]) -> None:
        pass


def test_user_punctuators_fire_without_records(tmp_path: Path, log: Log, clock: Clock) -> None:
    with InProcessRun(
        make(tmp_path, lambda _app, stream: stream.process(Ticking, key=str, value=str)), ticks=True, clock=clock
    ) as run:
        run.run()
        assert clock.wait(run, 30) == 30
        assert count(log) == 30


def test_a_tick_reads_no_record_again(tmp_path: Path, log: Log, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the batch before was the first one of a topic."""
    monkeypatch.setattr("millstream.runtime.batches.planner._REFRESH", 0)
    app = App("idle", config={"state.dir": str(tmp_path), "status": "none"})
    stream = app.stream(pattern="new-.*", key=str, value=str)
    stream.to("out")
    stream.process(Ticking, key=str, value=str).to("ticks")
    with InProcessRun(app, ticks=True, clock=clock) as run:
        run.run()
        log.create_topic("new-one")
        log.produce("new-one", [ProducerRecord(b"k", b"v", 1)])
        clock.now += 5_000
        run.run()
        clock.wait(run, 5)
        assert count(log) == 1
        assert count(log, "ticks") >= 5
