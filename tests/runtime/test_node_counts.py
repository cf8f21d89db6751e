"""The numbers of records of operators, which follow from those of sources, sinks and the topology."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millstream import App
from millstream.log import ProducerRecord, open_log

COUNT = 40


def counts(app: App, directory: Path) -> dict[str, Any]:
    """The counts of each operator, after all records of ``in`` were processed."""
    with open_log(directory) as log:
        log.create_topic("in", 2)
        log.produce("in", [ProducerRecord(b"k%d" % n, n.to_bytes(8, "big"), n) for n in range(COUNT)])
    handle = app.start(mode="local", until_caught_up=True)
    handle.wait()
    nodes: dict[str, Any] = handle.metrics()["nodes"]
    return {name: (figures["in"], figures["out"]) for name, figures in nodes.items()}


@pytest.fixture
def app(tmp_path: Path) -> App:
    config = {"state.dir": str(tmp_path), "status": "none", "processing.exception.handler": "continue"}
    return App("numbers", config=config)


def test_the_output_of_a_filter_is_what_its_sink_writes(app: App, tmp_path: Path) -> None:
    numbers = app.stream("in", key=str, value=int)
    numbers.filter(lambda n: n % 4 == 0, name="few").map_values(lambda n: n + 1, name="next").to("out")
    nodes = counts(app, tmp_path)
    assert nodes["few"] == (COUNT, COUNT // 4)
    assert nodes["next"] == (COUNT // 4, COUNT // 4)
    assert nodes["out-sink"] == (COUNT // 4, 0)


def test_records_between_two_filters_are_not_known(app: App, tmp_path: Path) -> None:
    numbers = app.stream("in", key=str, value=int)
    numbers.filter(lambda n: n % 2 == 0, name="even").filter(lambda n: n % 4 == 0, name="few").to("out")
    nodes = counts(app, tmp_path)
    assert nodes["even"] == (COUNT, None)
    assert nodes["few"] == (None, COUNT // 4)


def test_records_of_branches_and_of_merged_streams_are_known(app: App, tmp_path: Path) -> None:
    numbers = app.stream("in", key=str, value=int)
    parts = numbers.split({"low": lambda n: n < 10}, default="high", name="parts")
    parts["low"].to("low")
    parts["low"].merge(parts["high"], name="all").to("all")
    nodes = counts(app, tmp_path)
    assert nodes["parts"] == (COUNT, None)
    assert nodes["low-sink"] == (10, 0)
    assert nodes["all"] == (COUNT, COUNT)
    assert nodes["parts-high"] == (COUNT - 10, COUNT - 10)


def test_records_of_several_sinks_of_one_topic_are_not_told_apart(app: App, tmp_path: Path) -> None:
    numbers = app.stream("in", key=str, value=int)
    numbers.filter(lambda n: n < 10, name="low").to("out")
    numbers.filter(lambda n: n >= 20, name="high").to("out")
    nodes = counts(app, tmp_path)
    assert nodes["low"] == (COUNT, None)
    assert nodes["high"] == (COUNT, None)


def test_dropped_records_are_part_of_what_an_operator_received(app: App, tmp_path: Path) -> None:
    numbers = app.stream("in", key=str, value=int)
    numbers.map_values(lambda n: 1 // (n % 10), name="inverse").to("out")
    nodes = counts(app, tmp_path)
    assert nodes["inverse"] == (COUNT, COUNT - 4)
