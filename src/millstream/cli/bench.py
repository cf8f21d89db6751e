"""`millstream bench`: a rough measurement of this machine."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from millstream.cli.options import Output
from millstream.cli.printing import print_note, print_rows

EXAMPLES = ("millstream bench", "millstream bench --records 1000000 --spark")

_PARTITIONS = 4
_KEYS = 10_000
_BATCH = 10_000


def bench(
    records: Annotated[int, typer.Option("--records", min=1_000, help="The number of records.")] = 100_000,
    spark: Annotated[
        bool, typer.Option("--spark", help="Also run an application on Spark, which takes longer.")
    ] = False,
    output: Output = "table",
) -> None:
    """Measures the throughput of this machine: writing to a log, reading from it, and counting by key.

    The log is in a temporary directory, which is deleted. Records have a key and a value of 100 bytes. Each figure is
    from one short run, enough to distinguish a slow disk from a fast one.
    """
    with tempfile.TemporaryDirectory(prefix="millstream-bench-", ignore_cleanup_errors=True) as directory:
        rows = []
        for name, count, seconds in _measured(Path(directory), records, spark=spark):
            rate: Any = round(count / seconds) if output == "json" else f"{count / seconds:,.0f}"
            rows.append([name, count, round(seconds, 3), rate])
    print_rows(["Step", "Records", "Seconds", "Records per second"], rows, output)


def _measured(directory: Path, records: int, *, spark: bool) -> Iterator[tuple[str, int, float]]:
    from millstream.log import ProducerRecord, open_log

    with open_log(directory) as log:
        log.create_topic("input", _PARTITIONS)
        value = b"x" * 100
        produced = [ProducerRecord(b"%d" % (number % _KEYS), value, number) for number in range(records)]

        def write() -> None:
            for at in range(0, records, _BATCH):
                log.produce("input", produced[at : at + _BATCH])

        def read() -> None:
            for partition, end in enumerate(log.ends(["input"])["input"]):
                log.read("input", partition, 0, end)

        print_note("writing and reading …")
        yield "produce to the log", records, _timed(write)
        yield "read from the log", records, _timed(read)
    print_note("counting by key …")
    yield "count by key, engine only", records, _engine(records)
    if spark:
        print_note("counting by key on Spark; its start takes some seconds …")
        yield "count by key on Spark, including its start", records, _timed(lambda: _on_spark(directory))


def _timed(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return max(time.perf_counter() - started, 1e-9)


def _engine(records: int) -> float:
    from millstream.testing import TestDriver

    app = _counting("bench-engine", {})
    with TestDriver(app) as driver:
        topic = driver.input("input")
        rows = [(str(number % _KEYS), "x" * 100) for number in range(records)]
        return _timed(lambda: topic.pipe_pairs(rows))


def _on_spark(directory: Path) -> None:
    _counting("bench", {"state.dir": str(directory), "status": "none"}).run(until_caught_up=True)


def _counting(name: str, config: dict[str, Any]) -> Any:
    from millstream.dsl.app import App

    app = App(name, config=config)
    app.stream("input", key=str, value=str).group_by_key().count(store="counts").to_stream().to("counts")
    return app
