"""Exchanges behind pure operators need no topic, also in sub-topologies with state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millstream import App, Processor, Record, join_window
from millstream.log import ProducerRecord, open_log
from millstream.runtime.in_process.batches import InProcessRun
from millstream.stages.placement import Placement, place


class Seen(Processor[str, str, str, str]):
    """Counts records by key."""

    def init(self) -> None:
        self.counts = self.context.store("seen")

    def process(self, record: Record[str, str]) -> None:
        self.counts.put(record.key, (self.counts.get(record.key) or 0) + 1)


def shop(directory: Path | None = None, config: dict[str, str] | None = None, *, peek: bool = False) -> App:
    """Orders joined with re-keyed payments; a processor reads both topics."""
    where = {} if directory is None else {"state.dir": str(directory)}
    app = App("shop", config={"status": "none", **where, **(config or {})})
    orders, payments = app.stream("orders", value=str), app.stream("payments", value=str)
    checked = payments.map_values(lambda value: value[0] + value[1:], value=str, name="checked")
    checked = checked.peek(lambda _value: None) if peek else checked
    by_order = checked.select_key(lambda value: value[:2], key=str)
    orders.join(by_order, lambda order, paid: f"{order}+{paid}", join_window(1_000), value=str).to("paid")
    app.add_store("seen", value=int)
    orders.merge(checked).process(Seen, "seen", key=str, value=str)
    return app


def placement(app: App, **options: Any) -> Placement:
    return place(app.topology(), **options)


def test_the_operators_above_the_exchange_run_where_topics_are_read() -> None:
    placed = placement(shop())
    assert len(placed.direct) == 1
    assert len(placed.tasks) == 1
    assert sorted(node.kind for node in placed.shared) == ["map-values", "source"]
    (part,) = placed.tasks[0].parts
    assert not part.repartitions
    assert "select-key" not in {node.kind for node in part.nodes}  # only the exchange needs it


def test_an_exchange_behind_a_shared_operator_with_side_effects_is_a_topic() -> None:
    placed = placement(shop(peek=True))
    assert not placed.direct
    assert not placed.shared


def test_without_a_shuffle_each_exchange_is_a_topic() -> None:
    placed = placement(shop(), shuffle=False)
    assert not placed.direct
    assert not placed.readers


def produce(directory: Path, payments: list[bytes]) -> None:
    with open_log(directory) as log:
        log.create_topic("orders", 1)
        log.create_topic("payments", 1)
        log.create_topic("dead", 1)
        log.produce("orders", [ProducerRecord(b"o1", b"tea", 5)])
        log.produce("payments", [ProducerRecord(b"p", value, 6) for value in payments])


@pytest.mark.parametrize("value", [b"", b"\xff"], ids=["processing error", "deserialization error"])
def test_errors_of_shared_operators_are_reported_once(tmp_path: Path, value: bytes) -> None:
    produce(tmp_path, [value, b"o1!"])
    handlers = {"processing.exception.handler": "continue", "deserialization.exception.handler": "continue"}
    app = shop(tmp_path, {**handlers, "errors.dead.letter.queue.topic.name": "dead"})
    with InProcessRun(app) as run:
        run.run()
        assert run.log.ends(["dead"]) == {"dead": [1]}
        assert run.log.read("paid", 0, 0, 1)["value"].to_pylist() == [b"tea+o1!"]


@pytest.mark.parametrize("tasks", [1, 2])
def test_sources_with_and_without_a_timestamp_function_meet_in_the_order_of_their_times(
    tmp_path: Path, tasks: int
) -> None:
    """The read stage of one topic must not use the times that it extracted from records of another."""
    app = App("times", config={"status": "none", "state.dir": str(tmp_path), "num.tasks": tasks})
    timed = app.stream("timed", value=int, timestamp=lambda value: value)
    plain = app.stream("plain", value=int)
    merged = timed.merge(plain).map_values(str, value=str).select_key(lambda _value: "all", key=str)
    merged.group_by_key().reduce(lambda before, value: f"{before},{value}").to_stream().to("out")
    with open_log(tmp_path) as log:
        for topic, times in (("timed", [5, 7, 6, 30]), ("plain", [6, 20])):
            log.create_topic(topic, 1)
            stamp = 1 if topic == "timed" else 0
            records = [ProducerRecord(b"k", time.to_bytes(8, "big"), stamp or time) for time in times]
            log.produce(topic, records)
    with InProcessRun(app, records=2) as run:
        run.run()
        ends = run.log.ends(["out"])["out"]
        values = [v for n, end in enumerate(ends) for v in run.log.read("out", n, 0, end)["value"].to_pylist()]
    assert max(values, key=len) == b"5,6,7,6,20,30"


def test_records_and_drops_of_shared_operators_are_counted_once(tmp_path: Path) -> None:
    produce(tmp_path, [b"", b"o1!"])
    with InProcessRun(shop(tmp_path, {"processing.exception.handler": "continue"})) as run:
        assert run.batch()
        taken = [result.taken for result in run.results]
        assert sum(counts.get("payments-source", 0) for counts in taken) == 2
        assert sum(drop.count for result in run.results for drop in result.drops) == 1
