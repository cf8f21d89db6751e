"""Latency: of a small warm batch, and from producing a record to reading its result."""

from __future__ import annotations

import shutil
import statistics
import threading
import time
from typing import Any, Self

import numpy as np
from bench import empty_batch
from bench.inputs import preload, uniform
from bench.measuring import Figure, Progress, quantile
from bench.running import Bench, Watch, phases

from millstream.log import Log, ProducerRecord

_SMALL = 500
_WARM = 15
_CATCH_UP = 60.0
"""Seconds in which an application must catch up after its start."""

_BYTES = 40
"""The bytes of a record in a task input: key, value, and three numbers."""


def small_batch(bench: Bench) -> list[Figure]:
    """Measures warm batches of 500 records of a stateful application and empty batches, alternately."""
    batches = _WARM + bench.size(200, 30)
    ours: list[float] = []
    empty: list[float] = []
    details: dict[str, float] = {}
    _small(bench, _WARM)  # warms up the JVM, so that the first side does not pay for the compilation of both
    _empty(bench, _WARM)
    for is_ours in (False, True, True, False):
        if is_ours:
            progress = _small(bench, batches)
            ours += progress.intervals(_WARM)
            details = phases(progress, _WARM)
        else:
            empty += _empty(bench, batches).intervals(_WARM)
    middle, least = statistics.median(ours), statistics.median(empty)
    return [
        Figure("small-batch", f"warm stateful batch of {_SMALL} records", middle, "ms", notes={"phases, ms": details}),
        Figure(
            "small-batch", "empty batch", least, "ms", notes={"p10": quantile(empty, 0.1), "p90": quantile(empty, 0.9)}
        ),
        Figure("small-batch", "batch / empty batch", middle / least, "times").at_most(1.3),
    ]


def _small(bench: Bench, batches: int) -> Progress:
    with bench.data("small") as (directory, log):
        preload(log, "in", uniform(batches * _SMALL, 10_000), bench.tasks)
        log.create_topic("out", bench.tasks)
        app = bench.app(directory, **{"max.batch.records": _SMALL, "min.batch.records": _SMALL})
        app.stream("in", value=int).group_by_key().count().to_stream().to("out")
        with app.start() as handle:
            return Watch(handle, log, ["in"]).until(batches * _SMALL)


def _empty(bench: Bench, batches: int) -> Progress:
    directory = bench.raw_directory("empty")
    try:
        size = _SMALL * _BYTES // bench.tasks
        return empty_batch.run(bench.session(), directory, tasks=bench.tasks, batches=batches, size=size)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def produce_to_visible(bench: Bench) -> list[Figure]:
    """Measures the latency from producing a record to reading its result, at a steady rate."""
    figures = []
    for rate in (1_000, 10_000):
        delays, batch = at_rate(bench, rate, seconds=bench.size(60, 10))
        for name, part in (("p50", 0.5), ("p99", 0.99)):
            what = f"{name} at {rate:,} records/s"
            figures.append(Figure("produce-to-visible", what, quantile(delays, part), "ms"))
        figures[-1].notes = {"records seen": len(delays), "phases of the last batch, ms": batch}
    return figures


def at_rate(bench: Bench, rate: int, seconds: int, **config: Any) -> tuple[list[float], dict[str, float]]:
    """Returns the ages of results in milliseconds at a steady rate, and the phases of the last batch."""
    with bench.data("latency") as (directory, log):
        log.create_topic("in", bench.tasks)
        log.create_topic("out", bench.tasks)
        app = bench.app(directory, **config)
        app.stream("in", value=int).group_by_key().reduce(_latest).to_stream().to("out")
        with app.start() as handle, SteadyProducer(log, rate) as producer:
            seen = DelayReader(log)
            seen.take_for(seconds)
            producer.stop()
            last = handle.metrics()["phases"]
            return seen.delays, {name: value * 1000 for name, value in last.items()}


def _latest(_before: int, now: int) -> int:
    return now


class SteadyProducer:
    """Produces at a steady rate, in a thread; each value is the time of its production."""

    _EACH = 0.01

    def __init__(self, log: Log, rate: int, topic: str = "in") -> None:
        self._log = log
        self._topic = topic
        self._count = max(1, int(rate * self._EACH))
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stops the thread."""
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        rng = np.random.default_rng(6)
        due = time.monotonic()
        while not self._done.wait(max(0.0, due - time.monotonic())):
            value = time.time_ns().to_bytes(8, "big")
            keys = rng.integers(0, 10_000, self._count).tolist()
            self._log.produce(self._topic, [ProducerRecord(b"key-%08d" % key, value) for key in keys])
            due += self._EACH


class DelayReader:
    """Reads results as they arrive, and records their age."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._positions: dict[tuple[str, int], int] = {
            ("out", partition): 0 for partition in range(log.topic("out").partitions)
        }
        self.delays: list[float] = []

    def take_for(self, seconds: float) -> None:
        """Warms up, waits until the backlog of the start is processed, and reads for a time.

        An application that does not catch up is too slow for the rate: its latency grows with the time of the run.
        """
        self.take_until(time.monotonic() + seconds / 2)
        deadline = time.monotonic() + _CATCH_UP
        while self.behind_ms() > 5_000:
            if time.monotonic() > deadline:
                raise SystemExit(f"the application is {self.behind_ms():,.0f} ms behind: the machine is too slow")
            self.take_until(time.monotonic() + 0.2)
        self.delays.clear()
        self.take_until(time.monotonic() + seconds)

    def take_until(self, deadline: float) -> None:
        """Reads until a deadline."""
        while (left := deadline - time.monotonic()) > 0:
            if self._log.wait(self._positions, min(left, 0.5)):
                self._take()

    def behind_ms(self) -> float:
        """Returns the age of the last result."""
        return self.delays[-1] if self.delays else float("inf")

    def _take(self) -> None:
        now = time.time_ns()
        ends = self._log.ends(["out"])["out"]
        for (topic, partition), start in self._positions.items():
            if ends[partition] > start:
                values: list[Any] = self._log.read(topic, partition, start, ends[partition])["value"].to_pylist()
                self.delays += [(now - int.from_bytes(value, "big")) / 1e6 for value in values]
                self._positions[topic, partition] = ends[partition]
