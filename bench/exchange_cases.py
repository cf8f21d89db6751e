"""Throughput of topologies with exchanges: through the shuffle, and through internal topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from bench.inputs import Records, each_once, preload, uniform
from bench.latency_cases import DelayReader, SteadyProducer
from bench.measuring import Figure, processor_seconds, quantile
from bench.running import Bench, published_batches

from millstream import App, join_window

_KEYS = 100_000
_BUCKETS = 1_000
_RATE = 1_000
_POLL = 0.02
_BATCH = 10_000
"""The number of records per batch, so that the runs of two commits do the same work."""


def exchanges(bench: Bench) -> Iterator[Figure]:
    """Counts behind one exchange, which needs no topic, and behind two; joins by foreign key and beside an exchange."""
    records = uniform(bench.size(2_000_000, 60_000), _KEYS)
    cases: dict[str, tuple[Callable[[App], None], dict[str, Records]]] = {
        "keyed count: no exchange": (_none, {"in": records}),
        "word count: one exchange": (_one, {"in": records}),
        "two exchanges": (_two, {"in": records}),
        "foreign-key join": (_foreign_key, {"in": records}),
        "join of a topic and a stream behind two exchanges": (_join, {"in": records, "other": records}),
    }
    for name, (topology, inputs) in cases.items():
        yield _run(bench, name, inputs, topology)


def _none(app: App) -> None:
    app.stream("in", value=int).group_by_key().count().to_stream().to("out")


def _one(app: App) -> None:
    words = app.stream("in", value=int).flat_map_values(lambda n: [n, n + 1], value=int)
    words.group_by(lambda n: str(n % _KEYS), key=str).count().to_stream().to("out")


def _two(app: App) -> None:
    counts = app.stream("in", value=int).group_by(lambda n: str(n % _KEYS), key=str).count().to_stream()
    counts.group_by(lambda key, _count: str(int(key) % _BUCKETS), key=str).count().to_stream().to("out")


def _foreign_key(app: App) -> None:
    left, right = app.table("in", value=int), app.table("right", value=int)
    left.join(right, lambda one, other: one + other, on=_bucket).to_stream().to("out")


def _bucket(number: int) -> str:
    return f"key-{number % _BUCKETS:08d}"


def _join(app: App) -> None:
    counts = app.stream("in", value=int).group_by(lambda n: str(n % _KEYS), key=str).count().to_stream()
    again = counts.select_key(lambda key, _count: str(int(key) // 2), key=str)
    other = app.stream("other", value=int)
    other.join(again, lambda one, number: one + number, join_window(1_000, grace=1_000)).to("out")


def _run(bench: Bench, name: str, inputs: dict[str, Records], topology: Callable[[App], None]) -> Figure:
    """Measures from the end of the first batch until no topic has unread records, internal ones included."""
    with bench.data("exchanges") as (directory, log):
        for topic, records in inputs.items():
            preload(log, topic, records, bench.tasks)
        preload(log, "right", each_once(_BUCKETS), bench.tasks)
        log.create_topic("out", bench.tasks)
        app = bench.app(directory, **{"min.batch.records": _BATCH, "max.batch.records": _BATCH})
        topology(app)
        count = sum(len(records.keys) for records in inputs.values()) - _BATCH
        with app.start(until_caught_up=True) as handle:
            while not published_batches(log):
                if handle.wait(_POLL):
                    raise SystemExit("the application has ended")
            seconds, processor = time.perf_counter(), processor_seconds()
            handle.wait()
            seconds, processor = time.perf_counter() - seconds, processor_seconds() - processor
        notes = {"processor µs a record": processor / count * 1e6, "batches": published_batches(log) - 1}
    return Figure("exchanges", name, count / seconds, "records/s", notes=notes)


def exchange_latency(bench: Bench) -> Iterator[Figure]:
    """The latency of an input topic that is read beside an internal topic, with and without waiting."""
    for exact in (True, False, True, False):
        with bench.data("latency") as (directory, log):
            for topic in ("in", "other", "out"):
                log.create_topic(topic, bench.tasks)
            app = bench.app(directory, **{"exact.replays": exact})
            counts = app.stream("other", value=int).group_by_key().count().to_stream()
            table = counts.select_key(lambda key, _count: key[:-1], key=str).to_table()
            app.stream("in", value=int).left_join(table, lambda left, _right: left, value=int).to("out")
            with app.start(), SteadyProducer(log, _RATE, "other"), SteadyProducer(log, _RATE):
                seen = DelayReader(log)
                seen.take_for(bench.size(60, 10))
        name = f"latency beside an exchange, {'exact' if exact else 'exact.replays=false'}"
        notes = {"p99, ms": quantile(seen.delays, 0.99), "records": len(seen.delays)}
        yield Figure("exchange-latency", name, quantile(seen.delays, 0.5), "ms", notes=notes)
