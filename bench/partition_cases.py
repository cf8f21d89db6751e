"""The cost of partitions, with and without records in a batch."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from pathlib import Path

from bench.inputs import preload, uniform
from bench.measuring import Figure, processor_seconds
from bench.running import Bench, Watch, check_count, published_batches

from millstream import App
from millstream.log import Append, Log
from millstream.log.blocks import encode

_MANY = 1_000
_FEW = 3
_RECORDS = 20_000
_KEYS = 2_000
_WARM = 15


def partitions(bench: Bench) -> list[Figure]:
    """Measures batches of three records in topics of three and of a thousand partitions, then a backlog in each."""
    rounds = _WARM + bench.size(200, 30)
    figures = []
    trickles = {count: _trickle(bench, count, rounds) for count in (_FEW, _MANY)}
    for count, (elapsed, notes) in trickles.items():
        what = f"batch of {_FEW} records, {count:,} partitions"
        figures.append(Figure("partitions", what, elapsed, "ms", notes=notes))
    ratio = trickles[_MANY][0] / trickles[_FEW][0]
    figures.append(Figure("partitions", f"{_MANY:,} partitions / {_FEW} partitions", ratio, "times").at_most(1.3))
    for count in (_FEW, _MANY):
        elapsed, notes = _backlog(bench, count)
        figures.append(Figure("partitions", f"{_RECORDS:,} records in {count:,} partitions", elapsed, "s", notes=notes))
    return figures


def _app(bench: Bench, directory: Path) -> App:
    """Returns a keyed count with the default number of tasks."""
    app = bench.app(directory, **{"num.tasks": None})
    app.stream("in", value=int).group_by_key().count().to_stream().to("out")
    return app


def _trickle(bench: Bench, count: int, rounds: int) -> tuple[float, dict[str, float]]:
    """Returns the median time from producing a record to each of three partitions to the commit of its batch."""
    seconds = []
    used = 0.0
    with bench.data("trickle") as (directory, log):
        log.create_topic("in", count)
        with _app(bench, directory).start() as handle:
            watch = Watch(handle, log, ["in"])
            for number in range(rounds):
                if number == _WARM:
                    used = processor_seconds()
                started = time.perf_counter()
                _produce(log, count, number)
                watch.until(_FEW * (number + 1))
                seconds.append(time.perf_counter() - started)
            used = processor_seconds() - used
        check_count(log, "out", _FEW * rounds)
    return statistics.median(seconds[_WARM:]) * 1000, {"processor time, ms": used / (rounds - _WARM) * 1000}


def _produce(log: Log, count: int, number: int) -> None:
    chosen = [(number * 7 + place * 331) % count if count > _FEW else place for place in range(_FEW)]
    assert max(Counter(chosen).values()) == 1
    times = [number]
    log.append([Append("in", part, encode(times, [b"key-%d" % part], [bytes(8)], None)) for part in chosen])


def _backlog(bench: Bench, count: int) -> tuple[float, dict[str, float]]:
    """Returns the seconds from the start of the application until it has caught up."""
    with bench.data("backlog") as (directory, log):
        preload(log, "in", uniform(_RECORDS, _KEYS), count)
        used, started = processor_seconds(), time.perf_counter()
        with _app(bench, directory).start(until_caught_up=True) as handle:
            handle.wait()
            elapsed = time.perf_counter() - started
            used = processor_seconds() - used
            batches = published_batches(log)
        check_count(log, "out", _RECORDS)
    return elapsed, {"processor time, s": used, "batches": batches}
