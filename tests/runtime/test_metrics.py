"""The metrics of an application: by source, operator, sub-topology and store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from millstream import App, Materialized, tumbling
from millstream.log import ProducerRecord, open_log
from millstream.runtime.execution import Progress
from millstream.runtime.in_process.batches import InProcessRun
from millstream.runtime.observe.metrics import Metrics

COUNT = 300


def measured(run: InProcessRun) -> dict[str, Any]:
    """The metrics after all batches."""
    metrics = Metrics(run.application)
    number = 0
    while run.batch():
        metrics.add(Progress(number, run.results, 0.1, 0.01, 2))
        number += 1
    assert number > 3
    return metrics.read()


def build(directory: Path) -> App:
    with open_log(directory) as log:
        for topic in ("in", "names"):
            log.create_topic(topic, 2)
        log.produce("in", [ProducerRecord(b"k%d" % (n % 20), b"v%d" % (n % 3), n * 10) for n in range(COUNT)])
        log.produce("in", [ProducerRecord(None, b"v", COUNT * 10)])
        log.produce("names", [ProducerRecord(b"v%d" % n, b"name", 0) for n in range(3)])
    app = App("figures", config={"state.dir": str(directory), "status": "none", "num.tasks": 4})
    names = app.global_table("names", key=str, value=str, store="names")
    stream = app.stream("in", key=str, value=str)
    counts = stream.group_by_key().count(store="counts")
    stream.left_join(names, lambda value, name: [value, name], on=lambda value: value).to("named")
    stream.group_by_key().windowed_by(tumbling(1_000, grace="1h")).count(name="windows").to_stream(
        lambda key, _n: key.key
    ).to("w")
    stream.group_by_key().count(store=Materialized("hidden", view=False))
    again = counts.to_stream().map(lambda _key, _count: ("all", 1), key=str, value=int)
    again.group_by_key(name="again").count(store="total")
    return app


def test_records_are_counted_by_source_operator_and_sub_topology(tmp_path: Path) -> None:
    with InProcessRun(build(tmp_path), records=60) as run:
        metrics = measured(run)
    assert metrics["sources"]["in"] == {"read": COUNT + 1, "lag": 0}
    assert metrics["operators"]["in-source"] == {"taken": COUNT + 1, "dropped": {}}
    assert metrics["operators"]["again-repartition"] == {"taken": COUNT, "dropped": {}}
    assert metrics["subtopologies"] == {"0": {"taken": COUNT + 1}, "1": {"taken": COUNT}}
    assert metrics["operators"]["windows"] == {"dropped": {"null key": 1}}


def test_every_store_reports_its_size(tmp_path: Path) -> None:
    with InProcessRun(build(tmp_path), records=60) as run:
        metrics = measured(run)
    stores = metrics["stores"]
    assert {name: size["rows"] for name, size in stores.items()} == {
        "counts": 20,
        "hidden": 20,
        "names": 3,  # each task has all rows
        "total": 1,
        "windows-store": 20 * 3,
    }
    assert {name for name, size in stores.items() if "changes" in size} == {"counts", "names", "total"}
    assert all(size["memory"] > 0 for size in stores.values())
    assert sum(size["memory"] for size in stores.values()) == metrics["state_size"]["memory"]
    assert sum(size["stored-bytes"] for size in stores.values()) == metrics["state_size"]["stored-bytes"]
    assert metrics["phases"].keys() == {"spark", "read", "engine", "commit"}


def test_records_without_a_task_are_counted_in_the_read_stage(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("in", 2)
        log.produce("in", [ProducerRecord(b"k%d" % n, b"a b", n) for n in range(COUNT)])
    app = App("figures", config={"state.dir": str(tmp_path), "status": "none"})
    words = app.stream("in", value=str).flat_map_values(lambda text: text.split())
    words.group_by(lambda word: word, name="words").count(store="counts")
    with InProcessRun(app, records=60) as run:
        metrics = measured(run)
    assert metrics["operators"]["in-source"]["taken"] == COUNT
    assert metrics["operators"]["words-repartition"]["taken"] == 2 * COUNT
    assert metrics["subtopologies"] == {"0": {"taken": COUNT}, "1": {"taken": 2 * COUNT}}
