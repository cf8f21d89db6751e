"""Compares the ways to run an application on the embedded log: micro-batches, real-time on Spark, and local.

    python bench/bench_real_time.py [--only keyed-count,latency] [--scale 0.1] [--json FILE]

The cases are `keyed-count`, `latency`, `first-result`, `worker-killed` and `restart`. Scale 1 has 3 million records of
100,000 keys, 100 MB of state when a worker is killed, and 1 GB at a restart. All run one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.inputs import each_once, preload, uniform
from bench.latency_cases import at_rate
from bench.measuring import Figure, machine, quantile, show
from bench.running import APPLICATION, Bench, tree_size

from millstream import App
from millstream.log import Log, ProducerRecord, open_log

MODES: dict[str, dict[str, Any]] = {
    "micro-batch": {},
    "real-time": {"execution.mode": "real_time"},
    "local": {"execution.mode": "local"},
}
_KEYS = 100_000
_VALUE = 1_000
_BEGIN, _END = 0.15, 0.95
_POLL = 0.02
_PATIENCE = 600.0
_KILLS = 5


def keyed_count(bench: Bench) -> Iterable[Figure]:
    """Counts 100 k keys, every update written to a topic."""
    total = bench.size(3_000_000, 300_000)
    records = uniform(total, _KEYS)
    for mode, config in MODES.items():
        with bench.data("count") as (directory, log):
            preload(log, "in", records, bench.tasks)
            log.create_topic("out", bench.tasks)
            app = bench.app(directory, **config)
            app.stream("in", value=int).group_by_key().count().to_stream().to("out")
            with app.start() as handle:
                speed = _rate(log, total, lambda: handle.state.is_over)
        yield Figure("keyed-count", mode, speed, "records/s")


def _rate(log: Log, total: int, is_over: Callable[[], bool]) -> float:
    """The rate of committed input offsets between 15 % and 95 % of the input."""
    samples: list[tuple[float, int]] = []
    deadline = time.monotonic() + _PATIENCE
    while not samples or samples[-1][1] < total:
        offsets = log.committed(APPLICATION)
        samples.append((time.monotonic(), sum(end for (topic, _), end in offsets.items() if topic == "in")))
        if is_over() or time.monotonic() > deadline:
            raise SystemExit("the application makes no progress")
        time.sleep(_POLL)
    begin = next(sample for sample in samples if sample[1] >= _BEGIN * total)
    end = next(sample for sample in samples if sample[1] >= _END * total)
    return (end[1] - begin[1]) / max(_POLL, end[0] - begin[0])


def latency(bench: Bench) -> Iterable[Figure]:
    """Measures how old a record is when its result can be read, at a steady rate."""
    for rate in (1_000, 10_000):
        for mode, config in MODES.items():
            delays, _phases = at_rate(bench, rate, bench.size(40, 10), **config)
            for name, part in (("p50", 0.5), ("p99", 0.99)):
                yield Figure("latency", f"{mode}, {rate:,} records/s, {name}", quantile(delays, part), "ms")


def first_result(bench: Bench) -> Iterable[Figure]:
    """Measures the time from the start of a process to the first result of a new application."""
    for mode in MODES:
        with bench.data("first") as (directory, log):
            for topic in ("in", "out"):
                log.create_topic(topic, bench.tasks)
            yield Figure("first-result", f"a new application, {mode}", _seconds_to_result(directory, mode), "s")


def restart(bench: Bench) -> Iterable[Figure]:
    """Measures the time from the start of a process with 1 GB of state to the first new result."""
    keys = bench.size(1_000_000, 1_000)
    with bench.data("restart") as (directory, log):
        preload(log, "in", each_once(keys, step=1), bench.tasks, noise=_VALUE)
        log.create_topic("out", bench.tasks)
        app = bench.app(directory, **MODES["real-time"])
        _keep_last(app)
        app.run(until_caught_up=True)
        local = next(path for path in directory.rglob("workers") if path.is_dir())
        notes = {"local store, MB": tree_size(local)[0] / 1e6}
        what = f"{keys * _VALUE / 1e9:.2f} GB of state"
        seconds = _seconds_to_result(directory, "real-time")
        yield Figure("restart", f"{what}, local store", seconds, "s", notes=notes)
        shutil.rmtree(local)
        yield Figure("restart", f"{what}, from the changelog", _seconds_to_result(directory, "real-time"), "s")


def _seconds_to_result(directory: Path, mode: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, __file__, "--first-result", str(directory), mode], check=True)
    return time.perf_counter() - started


def write_first_result(directory: Path, mode: str) -> None:
    """Runs an application in this process, until it writes a result for a new record."""
    with open_log(directory) as log:
        before = log.ends(["out"])["out"]
        log.produce("in", [ProducerRecord(b"key-00000001", bytes(_VALUE))])
        app = Bench(directory, 1.0, len(before)).app(directory, **MODES[mode])
        _keep_last(app)
        handle = app.start()
        while not log.wait({("out", number): end for number, end in enumerate(before)}, 0.2):
            if handle.wait(0.0):
                raise SystemExit("the application ended")
        os._exit(0)  # the time to stop is not measured


def _keep_last(app: App) -> None:
    app.stream("in", value=bytes).group_by_key().reduce(_later).to_stream().to("out")


def _later(_before: bytes, now: bytes) -> bytes:
    return now


def _process_id(_value: bytes) -> str:
    return str(os.getpid())


def worker_killed(bench: Bench) -> Iterable[Figure]:
    """Measures the time from the kill of a worker to its next result."""
    keys = bench.size(100_000, 1_000)
    with bench.data("killed") as (directory, log):
        preload(log, "in", each_once(keys, step=1), bench.tasks, noise=_VALUE)
        for topic in ("out", "who"):
            log.create_topic(topic, bench.tasks)
        app = bench.app(directory, **MODES["real-time"], **{"restart.max.attempts": 2 * _KILLS})
        _keep_last(app)
        app.stream("in", value=bytes).map_values(_process_id, value=str).to("who")
        with app.start() as handle:
            _await(log, sum(log.ends(["in"])["in"]), handle)
            times = [_kill(log, handle) for _ in range(_KILLS)]
    what = f"{keys * _VALUE / 1e6:.0f} MB of state in {bench.tasks} workers"
    yield Figure("worker-killed", f"{what}, median of {_KILLS}", quantile(times, 0.5), "s", notes={"s": times}).at_most(
        2
    )


def _kill(log: Log, handle: Any) -> float:
    time.sleep(3.0)  # a worker that is lost again at once starts after a pause
    count = sum(log.ends(["in"])["in"])
    partition = next(number for number, end in enumerate(log.ends(["who"])["who"]) if end)
    end = log.ends(["who"])["who"][partition]
    process = int(log.read("who", partition, end - 1, end)["value"].to_pylist()[-1])
    key = log.read("who", partition, end - 1, end)["key"].to_pylist()[-1]
    os.kill(process, signal.SIGKILL)
    killed = time.perf_counter()
    log.produce("in", [ProducerRecord(key, bytes(_VALUE))])
    _await(log, count + 1, handle)
    return time.perf_counter() - killed


def _await(log: Log, count: int, handle: Any) -> None:
    deadline = time.monotonic() + _PATIENCE
    while sum(log.ends(["out"])["out"]) < count:
        if handle.state.is_over or time.monotonic() > deadline:
            raise SystemExit("the application makes no progress")
        time.sleep(0.005)


CASES: dict[str, Callable[[Bench], Iterable[Figure]]] = {
    "keyed-count": keyed_count,
    "latency": latency,
    "first-result": first_result,
    "worker-killed": worker_killed,
    "restart": restart,
}


def main() -> int:
    """Measures, prints, and optionally writes JSON."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default=",".join(CASES), help=f"some of: {', '.join(CASES)}")
    options.add_argument("--scale", type=float, default=0.1)
    options.add_argument("--json", type=Path)
    options.add_argument("--first-result", nargs=2, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.first_result:
        write_first_result(Path(given.first_result[0]), given.first_result[1])
    about, figures = machine(), []
    print(f"scale {given.scale:g}; {show(about)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as directory:
        bench = Bench(Path(directory), given.scale, 2)
        bench.session()  # its temporary files must outlive the directory of a case
        for name in given.only.split(","):
            for figure in CASES[name](bench):
                print(figure, flush=True)
                figures.append(figure)
    if given.json:
        data = {"scale": given.scale, "machine": about, "figures": [figure.data() for figure in figures]}
        given.json.write_text(json.dumps(data, indent=2), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
