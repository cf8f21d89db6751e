"""The recorded end of a batch decides its replay: a planner that is asked again does not change it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from millstream import App, join_window
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.batches.batch_end import BatchEnd
from millstream.runtime.batches.control import Control, PlannerSettings
from millstream.runtime.order.batch_order import BatchOrder
from millstream.runtime.order.positions import LEAST, position
from millstream.runtime.program.program import pack_program
from millstream.runtime.read.inputs import Range
from millstream.runtime.spark.shipped_program import ShippedProgram
from millstream.runtime.spark.source import MillstreamReader, Part, Settings
from millstream.runtime.start.prepared_application import PreparedApplication

PARTITIONS = 2


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path)
    for topic in ("clicks", "orders"):
        log.create_topic(topic, PARTITIONS)
        produce(log, topic, 10)
    return log


def produce(log: Log, topic: str, count: int) -> None:
    log.produce(topic, [ProducerRecord(b"k", b"v", 1_000 * n, partition=n % PARTITIONS) for n in range(count)])


def reader_of(directory: Path, *, exact: bool = True) -> MillstreamReader:
    """The reader of an application that is started anew, as Spark gets it."""
    app = App("replayed", config={"state.dir": str(directory), "status": "none", "exact.replays": exact})
    counts = app.stream("clicks", value=str).group_by_key().count().to_stream()
    clicks = counts.select_key(lambda key, _count: f"x{key}", key=str)
    app.stream("orders", value=str).join(clicks, lambda order, _count: order, join_window(5)).to("joined")
    application = PreparedApplication(app.topology(), app.config)
    application.close()
    shipped = ShippedProgram(pack_program(application.program), None, directory)
    return MillstreamReader(Settings(shipped, str(directory / "control"), application.first, 2, [7], "run", 1))


def replay(
    reader: MillstreamReader, start: dict[str, Any], end: dict[str, Any]
) -> list[tuple[list[Range], BatchOrder]]:
    """The ranges and the order that the parts of a batch get."""
    parts = reader.partitions(start, end)
    return [(part.ranges, part.order) for part in parts if isinstance(part, Part)]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("records", [1, 7, 1_000])
def test_a_planner_that_is_asked_again_does_not_change_a_recorded_batch(
    exact: bool, records: int, tmp_path: Path, log: Log
) -> None:
    """Whether the batch size, the bounds, the held records, the log or the configuration have changed."""
    control = Control(tmp_path / "control")
    control.write(PlannerSettings(7, held=[(0, position(2_000, 0, 1))]))
    first = reader_of(tmp_path)
    start = first.initialOffset()
    recorded = json.dumps(first.latestOffset(start, None))  # as in Spark's offset log
    before = replay(first, start, json.loads(recorded))
    order = BatchEnd.from_json(recorded).order
    assert (order.sequence, order.limit(1), order.least(0)) == (1, LEAST, LEAST)
    assert [of_part for _ranges, of_part in before] == [order, order]

    produce(log, "clicks", 50)
    bounds = [("clicks", partition, position(90_000, partition, 5)) for partition in range(PARTITIONS)]
    control.write(PlannerSettings(records, bounds=bounds, held=[(1, position(0, 0, 1))], waiting=5, number=2))
    for reader in (first, reader_of(tmp_path, exact=exact)):
        assert reader.latestOffset(start, None) != json.loads(recorded)
        assert replay(reader, start, json.loads(recorded)) == before


def test_an_unchanged_planner_gives_the_same_order_again(tmp_path: Path, log: Log) -> None:
    """The order depends on the start, the log and the settings alone: a planner has no memory of its own."""
    Control(tmp_path / "control").write(PlannerSettings(7, held=[(0, position(2_000, 0, 1))]))
    first, other = reader_of(tmp_path), reader_of(tmp_path)
    start = first.initialOffset()
    orders = [BatchEnd.from_plain(reader.latestOffset(start, None)).order for reader in (first, first, other)]
    assert orders == [orders[0]] * 3
