"""Ticks: wall-clock time advances without records, and a replayed tick has the recorded time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.unit.log.helpers import in_child

from millstream import App, Processor, Record, tumbling
from millstream.core.failpoints import EXIT_STATUS, arm
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.batches.batch_end import BatchEnd
from millstream.runtime.in_process.batches import InProcessRun

SIZES = (100, 1_000, 60_000)
"""The sizes of the windows, in milliseconds; the last one stays open."""

IDLE = 50
EVERY = 10


class Clock(Processor[str, str, str, int]):
    """Forwards the system time at each wall-clock punctuation."""

    def init(self) -> None:
        self.context.schedule(EVERY, "wall", self.tell)

    def process(self, record: Record[str, str]) -> None:
        pass

    def tell(self, now: int) -> None:
        self.context.forward(Record("now", self.context.current_system_time, now))


def build(directory: Path) -> App:
    app = App("idle", config={"state.dir": str(directory), "status": "none"})
    stream = app.stream("in", key=str, value=str)
    for size in SIZES:
        windows = stream.group_by_key().windowed_by(tumbling(size, idle=IDLE), emit="close")
        windows.count().to_stream(lambda key, _count: key.key).to(f"closed-{size}", key=str)
    stream.process(Clock, key=str, value=int).to("clock")
    return app


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path)
    log.create_topic("in", 2)
    log.produce("in", [ProducerRecord(b"k", b"v", 0)])
    return log


def counts(log: Log, topic: str) -> list[int]:
    return [
        int.from_bytes(value, "big")
        for partition, end in enumerate(log.ends([topic])[topic])
        for value in log.read(topic, partition, 0, end)["value"].to_pylist()
    ]


def closed(log: Log) -> list[int]:
    return [size for size in SIZES if counts(log, f"closed-{size}")]


def run_until(local: InProcessRun, wanted: list[int], log: Log) -> None:
    deadline = time.monotonic() + 30
    while closed(log) != wanted:
        assert time.monotonic() < deadline, closed(log)
        local.batch()


def test_windows_of_an_idle_stream_are_closed_by_ticks(tmp_path: Path, log: Log) -> None:
    with InProcessRun(build(tmp_path), ticks=True) as local:
        assert local.batch()
        assert closed(log) == []
        run_until(local, [100], log)
        run_until(local, [100, 1_000], log)
    assert counts(log, "closed-100") == counts(log, "closed-1000") == [1]  # once, for any number of ticks


def test_without_an_idle_time_no_tick_closes_a_window(tmp_path: Path, log: Log) -> None:
    app = App("waiting", config={"state.dir": str(tmp_path)})
    stream = app.stream("in", key=str, value=str)
    stream.group_by_key().windowed_by(tumbling(10), emit="close").count().to_stream().to("closed")
    with InProcessRun(app, ticks=True) as local:
        assert local.batch()
        time.sleep(0.1)
        assert not local.batch()
    assert counts(log, "closed") == []


@pytest.mark.parametrize("point", ["in-process.after-offsets:2", "in-process.after-state:2"])
def test_a_replayed_tick_sees_the_recorded_time(tmp_path: Path, log: Log, point: str) -> None:
    def child() -> None:
        arm(point)
        with InProcessRun(build(tmp_path), ticks=True) as local:
            run_until(local, [100], log)

    assert in_child(child) == EXIT_STATUS
    ends = tmp_path / "applications" / "idle" / "checkpoint" / "offsets"
    first, tick = (BatchEnd.from_json((ends / str(number)).read_bytes()) for number in (0, 1))
    assert tick.offsets == first.offsets, "the second batch is no tick"
    assert (closed(log), counts(log, "clock")) == ([], [])
    later = tick.time + SIZES[1] + 100
    time.sleep(max(0.0, later / 1000 - time.time()))  # by the clock, two windows are closed now

    with InProcessRun(build(tmp_path), ticks=True) as local:
        assert local.batch()
        assert set(counts(log, "clock")) == {tick.time}
        assert closed(log) == [size for size in SIZES if tick.time - first.time >= size]
        run_until(local, [100, 1_000], log)
        assert max(counts(log, "clock")) >= later
