"""Throughput of counts and joins, compared with Spark's own operators where they exist."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

from bench import raw_spark
from bench.inputs import Records, each_once, preload, uniform, windows
from bench.measuring import Figure, Progress
from bench.running import Bench, Watch, check_count, phases

from millstream import App, tumbling

KEYS = 100_000
_WINDOW = 60_000
_GRACE_MINUTES = 15
_BATCH = 100_000
"""The number of records per batch on both sides of a comparison, so that both do the same work."""


def keyed_count(bench: Bench) -> list[Figure]:
    """Counts 100 k keys, every update written to a topic; without and with a view and a changelog.

    Batches have the size that pacing finds; then Spark has batches of that size, too.
    """
    records = uniform(bench.size(5_000_000, 500_000), KEYS)
    unnamed = _ours(bench, records, lambda app: _count(app, None))
    named = _ours(bench, records, lambda app: _count(app, "counts"))
    raw = _raw(bench, records, raw_spark.keyed_count, unnamed.batch_records())
    return [
        rate("keyed-count", "unnamed store", unnamed).at_least(120_000),
        rate("keyed-count", "named store: view and changelog", named),
        rate("keyed-count", "raw Spark", raw, raw=True),
        Figure("keyed-count", "unnamed store / raw Spark", unnamed.rate() / raw.rate(), "times"),
    ]


def windowed_count(bench: Bench) -> list[Figure]:
    """Counts in windows until there are 4 M of them."""
    keys = bench.size(400_000, 30_000)
    records = windows(keys, 10, _WINDOW)
    ours = _ours(bench, records, _windowed, _BATCH)
    raw = _raw(bench, records, raw_spark.windowed_count(_WINDOW, f"{_GRACE_MINUTES} minutes"), _BATCH)
    keeping = _raw(bench, records, raw_spark.windowed_count(_WINDOW, None), _BATCH)
    times = ours.rate() / raw.rate()
    return [
        rate("windowed-count", f"unnamed store, {keys * 10:,} live windows", ours),
        rate("windowed-count", "raw Spark", raw, raw=True),
        rate("windowed-count", "raw Spark that keeps every window for ever", keeping, raw=True),
        Figure("windowed-count", "unnamed store / raw Spark", times, "times").at_least(3),
        Figure("windowed-count", "… / raw Spark that keeps all", ours.rate() / keeping.rate(), "times"),
    ]


def stream_table_join(bench: Bench) -> list[Figure]:
    """Joins each record with the row of its key."""
    records = uniform(bench.size(3_000_000, 500_000), KEYS, start=1)

    def topology(app: App) -> None:
        table = app.table("table", value=int)
        app.stream("in", value=int).join(table, lambda left, right: left + right).to("out")

    with bench.data("stream-table") as (directory, log):
        preload(log, "table", each_once(KEYS), bench.tasks)
        progress = _run(bench, directory, log, {"in": records}, topology)
        check_count(log, "out", len(records.keys))
    return [rate("stream-table-join", f"table of {KEYS:,} rows", progress)]


def table_table_join(bench: Bench) -> list[Figure]:
    """Joins two tables of 100 k rows, updated in turn."""
    count = bench.size(1_500_000, 250_000)
    sides = {"left": uniform(count, KEYS, seed=4), "right": uniform(count, KEYS, seed=5)}

    def topology(app: App) -> None:
        left, right = (app.table(name, value=int) for name in sides)
        left.join(right, lambda one, other: one + other).to_stream().to("out")

    with bench.data("table-table") as (directory, log):
        progress = _run(bench, directory, log, sides, topology)
    return [rate("table-table-join", f"two tables of {KEYS:,} rows", progress)]


def _count(app: App, store: str | None) -> None:
    app.stream("in", value=int).group_by_key().count(store=store).to_stream().to("out")


def _windowed(app: App) -> None:
    minutes = tumbling(_WINDOW, grace=f"{_GRACE_MINUTES}m")
    counts = app.stream("in", value=int).group_by_key().windowed_by(minutes).count()
    counts.to_stream().to("out")


def _ours(bench: Bench, records: Records, topology: Callable[[App], None], batch: int | None = None) -> Progress:
    with bench.data("ours") as (directory, log):
        progress = _run(bench, directory, log, {"in": records}, topology, batch)
        check_count(log, "out", len(records.keys))
        return progress


def _run(
    bench: Bench,
    directory: Any,
    log: Any,
    inputs: dict[str, Records],
    topology: Callable[[App], None],
    batch: int | None = None,
) -> Progress:
    for topic, records in inputs.items():
        preload(log, topic, records, bench.tasks)
    log.create_topic("out", bench.tasks)
    fixed = {} if batch is None else {"min.batch.records": batch, "max.batch.records": batch}
    app = bench.app(directory, **fixed)
    topology(app)
    with app.start() as handle:
        return Watch(handle, log, inputs).until(sum(len(records.keys) for records in inputs.values()))


def _raw(bench: Bench, records: Records, shape: raw_spark.Shape, batch: float) -> Progress:
    directory = bench.raw_directory("throughput")
    try:
        return raw_spark.RawQuery(bench.raw_session(), directory, shape, int(batch)).run(records)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def rate(case: str, what: str, progress: Progress, *, raw: bool = False) -> Figure:
    """Returns the throughput of a run, with its effort and its phases."""
    notes = {
        "processor µs a record": progress.effort(),
        "records a batch": progress.batch_records(),
        "phases, ms": raw_spark.phases(progress) if raw else phases(progress),
    }
    return Figure(case, what, progress.rate(), "records/s", notes=notes)
