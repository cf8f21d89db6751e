"""The verifier agrees with the test driver, and detects errors in an output."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fault import model, smoke

from millstream import TestDriver
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.in_process.batches import InProcessRun

PER_KEY = 24
SEED = 3

IN_A_CYCLE = {"foreign-out"}
"""The intermediate results of a foreign-key join depend on the batches."""

BY_THE_TASKS_TIME = {"told"}
"""A punctuator follows the stream time of its sub-topology; in the driver, as in Kafka's, all share one."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("finished") / "data"
    smoke.fill(directory, SEED, PER_KEY)
    with InProcessRun(smoke.build(directory), records=200) as run:
        run.run()
    return directory


@pytest.fixture
def directory(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "data"))


def driver_results(
    inputs: dict[str, list[smoke.Given]],
) -> tuple[dict[str, model.Sequences], dict[str, dict[str, Any]]]:
    """The topics and stores of the test driver for an input."""
    with TestDriver(smoke.build("unused"), partitions=smoke.PARTITIONS, batches=1_000_000) as driver:
        for topic, records in {smoke.GLOBAL: smoke.small(), **inputs}.items():
            driver_input = driver.input(topic)
            for record in records:
                driver_input.pipe(record.key, record.value, timestamp=record.timestamp)
        topics: dict[str, model.Sequences] = {}
        for topic in sorted(driver.produced_topics):
            if not topic.startswith(f"{smoke.APPLICATION}-"):
                values: model.Sequences = defaultdict(list)
                for output in driver.output(topic).read_all():
                    values[output.key].append(output.value)
                topics[topic] = dict(values)
        stores = {name: dict(driver.store(name).all()) for name in smoke.STORES}
    return topics, stores


def test_the_model_the_test_driver_and_the_runtime_agree(tmp_path: Path) -> None:
    """The timestamps are distinct: for equal ones Kafka and the driver do not define the order of inputs."""
    inputs = smoke.inputs(SEED, PER_KEY, distinct=True)
    topics, stores = driver_results(inputs)
    expected = model.Expected(inputs)
    assert stores == expected.tables()
    for topic, wanted in expected.sequences().items():
        assert topic in BY_THE_TASKS_TIME or topics[topic] == wanted, topic
    smoke.fill(tmp_path, SEED, PER_KEY, distinct=True)
    with InProcessRun(smoke.build(tmp_path), records=200) as run:
        run.run()
        written = {topic: model.sequences(run.log, topic) for topic in topics}
    for topic in topics.keys() - IN_A_CYCLE - BY_THE_TASKS_TIME:
        assert written[topic] == topics[topic], topic


def test_the_model_covers_every_case() -> None:
    expected = model.Expected(smoke.inputs(SEED, PER_KEY))
    results = {**expected.sequences(), **expected.bags()}
    for topic, sequences in results.items():
        assert sum(len(values) for values in sequences.values()) > 5, topic
    pairs = [pair for values in results["pairs"].values() for pair in values]
    assert any(None in pair for pair in pairs)
    assert any(None not in pair for pair in pairs)
    rows = [value for values in results["with-row"].values() for value in values]
    assert any(row is None for _, row in rows)
    assert any(row is not None for _, row in rows)
    assert any(count > 1 for values in results["sessions-out"].values() for count in values)
    assert len(results["fresh"]["k00"]) < len(results["merged"]["k00"])


def test_the_order_across_exchanges_is_verified(tmp_path: Path) -> None:
    """Without exact replays, only the results behind two exchanges, beside an input, are other ones."""
    smoke.fill(tmp_path, SEED, PER_KEY)
    with InProcessRun(smoke.build(tmp_path, **{"exact.replays": False}), records=200) as run:
        run.run()
    findings = model.verify(tmp_path, SEED, PER_KEY)
    names = {text.split()[0] for texts in findings for text in texts if not text.startswith("store ")}
    assert names == {"third-out", "third-pairs"}


def rewritten(change: Callable[[list[ProducerRecord]], None]) -> Callable[[Log], None]:
    """Writes a topic again with a change in one partition."""

    def act(log: Log) -> None:
        table = log.read("merged", 0, 0, log.ends(["merged"])["merged"][0])
        records = [
            ProducerRecord(key, value, time, partition=0)
            for key, value, time in zip(*(table[c].to_pylist() for c in ("key", "value", "timestamp")), strict=True)
        ]
        other = log.read("merged", 1, 0, log.ends(["merged"])["merged"][1])
        rest = [
            ProducerRecord(key, value, time, partition=1)
            for key, value, time in zip(*(other[c].to_pylist() for c in ("key", "value", "timestamp")), strict=True)
        ]
        change(records)
        log.delete_topic("merged")
        log.create_topic("merged", smoke.PARTITIONS)
        log.produce("merged", records + rest)

    return act


def swap(records: list[ProducerRecord]) -> None:
    key = records[0].key
    other = next(n for n, record in enumerate(records) if n and record.key == key)
    records[0], records[other] = records[other], records[0]


@pytest.mark.parametrize(
    ("kind", "act"),
    [
        ("lost", rewritten(lambda records: records.pop(5) and None)),
        ("duplicated", rewritten(lambda records: records.append(records[-1]))),
        ("reordered", rewritten(swap)),
        ("wrong", rewritten(lambda records: records.append(records[0]._replace(value=json.dumps(12345).encode())))),
    ],
)
def test_an_error_in_a_topic_is_detected(kind: str, act: Callable[[Log], None], directory: Path) -> None:
    with open_log(directory) as log:
        act(log)
    findings = model.verify(directory, SEED, PER_KEY)
    assert [name for name, texts in findings._asdict().items() if texts] == [kind]
    assert all(text.startswith("merged ") for text in getattr(findings, kind))


def test_a_missing_row_of_a_view_is_detected(directory: Path) -> None:
    connection = sqlite3.connect(directory / "log.db")
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    views = [name for name in tables if name.startswith("view") and _has(connection, name, "key")]
    assert views
    for name in views:
        gone = f"FROM {name} WHERE key = CAST('k03' AS BLOB)"
        counts = connection.execute(f"SELECT store, count(*) {gone} GROUP BY store").fetchall()
        connection.execute(f"DELETE {gone}")
        # Otherwise the check of the view would fail before its rows are compared with the model.
        connection.executemany("UPDATE view_counts SET rows = rows - ?2 WHERE store = ?1", counts)
    connection.commit()
    connection.close()
    findings = model.verify(directory, SEED, PER_KEY)
    assert any("k03" in text for text in findings.wrong)


def _has(connection: sqlite3.Connection, table: str, column: str) -> bool:
    return column in [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
