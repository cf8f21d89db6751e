"""What reports contain for scrapes and charts: totals, histograms, lag by partition, stream times, memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.runtime.test_metrics import COUNT, build, measured

from millstream import App
from millstream.log import ProducerRecord, open_log
from millstream.runtime.in_process.batches import InProcessRun


def in_batches(directory: Path) -> dict[str, Any]:
    """The metrics of an application in micro-batches."""
    with InProcessRun(build(directory), records=60) as run:
        return measured(run)


def in_workers(directory: Path) -> dict[str, Any]:
    """The metrics of an application in a worker."""
    handle = build(directory).start(mode="local", until_caught_up=True)
    handle.wait()
    return handle.metrics()


both = pytest.mark.parametrize("metrics_of", [in_batches, in_workers], ids=["micro-batches", "workers"])


@both
def test_totals_leave_out_the_topics_of_the_application(tmp_path: Path, metrics_of: Any) -> None:
    metrics = metrics_of(tmp_path)
    assert metrics["records"] == {"in": COUNT + 1 + 3, "out": metrics["sinks"]["named"] + metrics["sinks"]["w"]}
    assert sum(metrics["sinks"].values()) > metrics["records"]["out"]


@both
def test_the_lag_is_known_by_partition(tmp_path: Path, metrics_of: Any) -> None:
    metrics = metrics_of(tmp_path)
    assert metrics["lags"]["in"] == [0, 0]
    assert {topic: sum(row) for topic, row in metrics["lags"].items()} == {
        topic: source["lag"] for topic, source in metrics["sources"].items()
    }


@both
def test_every_task_reports_its_stream_time(tmp_path: Path, metrics_of: Any) -> None:
    times = metrics_of(tmp_path)["stream_times"]
    assert max(time for _subtopology, _partition, time in times) == COUNT * 10
    assert {subtopology for subtopology, _partition, _time in times} == {0, 1}


@both
def test_durations_and_latencies_are_histograms(tmp_path: Path, metrics_of: Any) -> None:
    metrics = metrics_of(tmp_path)
    histograms = metrics["histograms"]
    assert histograms["phases"].keys() == metrics["phases"].keys()
    for histogram in [*histograms["phases"].values(), histograms["publication"]]:
        assert sum(histogram["counts"]) == metrics["batches"]
        assert len(histogram["counts"]) == len(histogram["bounds"]) + 1
    event, processing = histograms["latency"]["event"], histograms["latency"]["processing"]
    assert sum(event["counts"]) == metrics["records"]["out"]
    assert event["counts"][-1] == metrics["records"]["out"]  # the records are of 1970
    assert 0 < sum(processing["counts"]) <= metrics["batches"]
    assert sum(processing["counts"][:-2]) == sum(processing["counts"])


@both
def test_checkpoints_have_a_size_and_a_duration(tmp_path: Path, metrics_of: Any) -> None:
    metrics = metrics_of(tmp_path)
    assert metrics["checkpoint_bytes"] > 1000
    assert sum(metrics["histograms"]["checkpoint"]["counts"]) > 0


@both
def test_the_memory_of_the_process_is_reported(tmp_path: Path, metrics_of: Any) -> None:
    assert metrics_of(tmp_path)["memory"]["application"] > 10_000_000


def test_an_application_without_sinks_has_the_latency_of_its_tables(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("in", 2)
        log.produce("in", [ProducerRecord(b"k%d" % n, b"v", n) for n in range(50)])
    app = App("tables", config={"state.dir": str(tmp_path), "status": "none"})
    app.stream("in", key=str, value=str).group_by_key().count(store="counts")
    handle = app.start(mode="local", until_caught_up=True)
    handle.wait()
    assert sum(handle.metrics()["histograms"]["latency"]["event"]["counts"]) == 50


def test_dead_letters_are_counted_by_operator_and_reason(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("in")
        log.produce("in", [ProducerRecord(b"k", b"%d" % n, n) for n in range(9)])
    config = {
        "state.dir": str(tmp_path),
        "status": "none",
        "processing.exception.handler": "continue",
        "errors.dead.letter.queue.topic.name": "letters",
    }
    app = App("letters", config=config)
    app.stream("in", key=str, value=str).map_values(lambda text: 1 // (int(text) % 3), name="inverse").to("out")
    handle = app.start(mode="local", until_caught_up=True)
    handle.wait()
    metrics = handle.metrics()
    assert metrics["dead_letters"] == {"inverse": {"processing error": 3}}
    assert metrics["sinks"]["letters"] == 3
    assert sum(metrics["histograms"]["latency"]["event"]["counts"]) == 6  # dead letters are no output
