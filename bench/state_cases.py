"""The cost of a large state: with hot keys, with uniform keys, after a restart, and on disk."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from bench import raw_spark
from bench.inputs import Records, each_once, preload, uniform
from bench.measuring import Figure, Progress
from bench.running import Bench, Watch, checkpoint_of, phases, tree_size

from millstream import App
from millstream.log import Log, ProducerRecord, open_log

_HOT = 10_000
_BATCH = 20_000
_VALUE = 1_000
_WARM = 8
_ROUND, _ROUNDS = 20, 25


def large_state(bench: Bench) -> list[Figure]:
    """Measures batches of 10 k hot keys over a large and a small state, and uniform keys over the large one."""
    keys = bench.size(10_000_000, 2 * _HOT)
    batches = _WARM + bench.size(60, 12)
    small = _with_state(bench, _HOT, [_HOT], batches)[0]
    over_large, evenly = _with_state(bench, keys, [_HOT, keys], batches)
    settled = len(evenly.settling) * _ROUND
    raw = _raw_with_state(bench, keys, uniform((settled + batches) * _BATCH, keys, seed=8, start=keys))

    def milliseconds(progress: Progress, skip: int = 0) -> float:
        return statistics.median(progress.intervals(skip + _WARM))

    def figure(what: str, measured: _Measurement) -> Figure:
        notes = {
            "phases, ms": phases(measured.progress),
            "after the state was filled, in rounds of 20 batches, ms": measured.settling,
        }
        return Figure("large-state", what, milliseconds(measured.progress), "ms a batch", notes=notes)

    ratio = milliseconds(over_large.progress) / milliseconds(small.progress)
    beside = milliseconds(raw, settled) / milliseconds(evenly.progress)
    notes = {"phases, ms": phases(raw, settled)}
    return [
        figure(f"{_HOT:,} hot keys, state of {_HOT:,} keys", small),
        figure(f"{_HOT:,} hot keys, state of {keys:,} keys", over_large),
        Figure("large-state", "large / small", ratio, "times").at_most(1.5),
        figure(f"even keys, state of {keys:,} keys", evenly),
        Figure("large-state", "even keys, raw Spark", milliseconds(raw, settled), "ms a batch", notes=notes),
        Figure("large-state", "even keys, raw Spark / ours", beside, "times").at_least(1),
    ]


class _Measurement(NamedTuple):
    progress: Progress
    settling: list[float]


def _with_state(bench: Bench, keys: int, measured: list[int], batches: int) -> list[_Measurement]:
    """Fills the state with keys, then measures batches over some of them, once the page cache has settled."""
    with bench.data("state") as (directory, log):
        preload(log, "in", each_once(keys, step=1), bench.tasks)
        log.create_topic("out", bench.tasks)
        filling = bench.app(directory, **{"target.batch.ms": 4_000})
        _count(filling)
        filling.run(until_caught_up=True)
        app = bench.app(directory, **{"max.batch.records": _BATCH, "min.batch.records": _BATCH})
        _count(app)
        with app.start() as handle:
            measurements = []
            for among in measured:
                settling = _settle(bench, handle, log, among)
                measurements.append(_Measurement(_batches(bench, handle, log, among, batches), settling))
            return measurements


def _settle(bench: Bench, handle: Any, log: Log, keys: int) -> list[float]:
    """Runs batches until the set of cached pages and the reads of the log are stable; returns their durations.

    Otherwise the measurement would include deferred work of earlier batches.
    """
    took: list[float] = []
    before = None
    while len(took) < _ROUNDS:
        took.append(statistics.median(_batches(bench, handle, log, keys, _ROUND).intervals()))
        size = handle.metrics()["state_size"]
        now = (size["pages-resident"], size["pages-dirty"])
        if before and all(abs(a - b) <= size["pages"] / 50 for a, b in zip(before, now, strict=True)):
            break
        before = now
    return took


def _batches(bench: Bench, handle: Any, log: Log, keys: int, batches: int) -> Progress:
    watch = Watch(handle, log, ["in"])
    before = sum(log.ends(["in"])["in"])  # one record a millisecond, from the first one on
    preload(log, "in", uniform(batches * _BATCH, keys, seed=before, start=before), bench.tasks)
    return watch.until(batches * _BATCH)


def _count(app: App) -> None:
    app.stream("in", value=int).group_by_key().count().to_stream().to("out")


def _raw_with_state(bench: Bench, keys: int, measured: Records) -> Progress:
    directory = bench.raw_directory("state")
    try:
        session = bench.raw_session()
        raw_spark.RawQuery(session, directory, raw_spark.keyed_count, 500_000).run(each_once(keys, step=1))
        again = raw_spark.RawQuery(session, directory, raw_spark.keyed_count, _BATCH, written=keys)
        return again.run(measured)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


# ----- restart -----------------------------------------------------------------------------------------------------


def restart(bench: Bench) -> list[Figure]:
    """Measures the time from the start of a new process with 1 GB of state to the first new result."""
    keys = bench.size(1_000_000, 1_000)
    with bench.data("restart") as (directory, log):
        preload(log, "in", each_once(keys, step=1), bench.tasks, noise=_VALUE)
        log.create_topic("out", bench.tasks)
        app = bench.app(directory, **{"target.batch.ms": 4_000})
        _keep_last(app)
        app.run(until_caught_up=True)
        size = tree_size(checkpoint_of(directory))[0]
        script = Path(__file__).with_name("bench_runtime.py")
        started = time.perf_counter()
        subprocess.run([sys.executable, str(script), "--first-result", str(directory)], check=True)
        seconds = time.perf_counter() - started
    what = f"restart with {keys * _VALUE / 1e9:.2f} GB of state to the first result"
    return [Figure("restart", what, seconds, "s", notes={"checkpoint, MB": size / 1e6}).at_most(30)]


def first_result(directory: Path) -> None:
    """Restarts the application of `restart` in this process, until it writes a result for a new record."""
    with open_log(directory) as log:
        before = log.ends(["out"])["out"]
        bench = Bench(directory, 1.0, len(before))
        log.produce("in", [ProducerRecord(b"key-00000001", bytes(_VALUE))])
        app = bench.app(directory)
        _keep_last(app)
        handle = app.start()
        positions = {("out", partition): end for partition, end in enumerate(before)}
        while not log.wait(positions, 1.0):
            if handle.wait(0.0):
                raise SystemExit("the application ended")
        os._exit(0)  # the time to stop is not measured


def _keep_last(app: App) -> None:
    app.stream("in", value=bytes).group_by_key().reduce(lambda _before, now: now).to_stream().to("out")


# ----- the disk ----------------------------------------------------------------------------------------------------


def checkpoint_size(bench: Bench) -> list[Figure]:
    """Measures the size of the checkpoint over an hour at a thousand records per second: it must level off."""
    seconds, each, keys = bench.size(3_600, 60), 1_000, 10_000
    with bench.data("checkpoint") as (directory, log):
        for topic in ("in", "out"):
            log.create_topic(topic, bench.tasks)
        app = bench.app(directory)
        _count(app)
        with app.start() as handle:
            sizes = _sizes(bench, handle, log, directory, seconds, each, keys)
            batches = handle.metrics()["batches"]
    middle, last = (max(size for size, _files in part) for part in (_third(sizes, 1), _third(sizes, 2)))
    notes = {
        "batches": batches,
        "MB": [size / 1e6 for size, _files in sizes],
        "files": [files for _size, files in sizes],
    }
    what = f"checkpoint over {seconds} s: last third / middle third"
    return [Figure("checkpoint-size", what, last / max(middle, 1), "times", notes=notes).at_most(1.25)]


def _sizes(
    bench: Bench, handle: Any, log: Log, directory: Path, seconds: int, each: int, keys: int
) -> list[tuple[int, int]]:
    """Returns bytes and files at twelve points of a run, which starts with the first batch."""
    watch = Watch(handle, log, ["in"])
    preload(log, "in", uniform(each, keys, seed=seconds), bench.tasks)
    watch.until(each)
    begun = time.monotonic()
    sizes: list[tuple[int, int]] = []
    for second in range(seconds):
        preload(log, "in", uniform(each, keys, seed=second, start=second * each), bench.tasks)
        if handle.wait(max(0.0, begun + second + 1 - time.monotonic())):
            raise SystemExit("the application ended")
        if (second + 1) * 12 // seconds > len(sizes):
            sizes.append(tree_size(checkpoint_of(directory)))
    return sizes


def _third(sizes: list[tuple[int, int]], number: int) -> list[tuple[int, int]]:
    return sizes[number * len(sizes) // 3 : (number + 1) * len(sizes) // 3]
