"""Applications in SQL on Spark: killed in the middle of their work, they give each result exactly once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.fault.killing import MARK, wait_until_gone
from tests.spark.sql_applications import FOREIGN_KEY, UNORDERED, applications, fill

from millstream.log import Log, open_log
from millstream.runtime.in_process.batches import InProcessRun

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

_PATIENCE = 600.0
Results = dict[str, dict[bytes | None, list[tuple[bytes | None, int]]]]


def start(directory: Path, batch: int, mark: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, MARK: mark, "PYTHONPATH": str(Path(__file__).parents[2])}
    with (directory.parent / f"output-{mark}").open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.spark.sql_applications", str(directory), str(batch)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def results(log: Log) -> Results:
    """The records of all topics that applications write: by topic and key, in their order."""
    found: Results = {}
    for topic in sorted(topic.name for topic in log.topics()):
        if not topic.partition("-")[0].isdigit():
            continue
        by_key: dict[bytes | None, list[tuple[Any, Any]]] = defaultdict(list)
        for partition, end in enumerate(log.ends([topic])[topic]):
            for row in log.read(topic, partition, 0, end).to_pylist():
                by_key[row["key"]].append((row["value"], row["timestamp"]))
        found[topic] = dict(by_key)
    return found


def count(of: Results) -> int:
    return sum(len(records) for topic in of.values() for records in topic.values())


def compared(topic: str, records: Any) -> Any:
    """The part of the results that is determined.

    A foreign-key join omits outdated responses, but not the last row. Records that PARTITION BY brings from several
    partitions, and INSERT INTO from several sources, have no order.
    """
    if topic == FOREIGN_KEY:
        return {key: rows[-1][0] for key, rows in records.items()}
    if topic in UNORDERED:
        return {key: sorted(rows, key=repr) for key, rows in records.items()}
    return records


def wait_for_results(directory: Path, process: subprocess.Popen[bytes], topics: int, output: Path) -> None:
    """Waits until applications have written to this many topics."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        with open_log(directory) as log:
            if sum(bool(records) for records in results(log).values()) >= topics:
                return
        assert process.poll() is None, output.read_text(encoding="utf-8")[-3000:]
        assert time.monotonic() < deadline, output.read_text(encoding="utf-8")[-3000:]
        time.sleep(0.2)


def test_twenty_applications_that_are_killed_give_each_result_once(tmp_path: Path) -> None:
    expected_in, directory = tmp_path / "expected", tmp_path / "data"
    for each in (expected_in, directory):
        fill(each)
    apps = applications(expected_in, 100_000)
    assert len(apps) == 20
    for app in apps:
        with InProcessRun(app) as run:
            run.run()
    with open_log(expected_in) as log:
        expected = results(log)
    assert len(expected) == 20
    assert all(sum(map(len, records.values())) > 5 for records in expected.values())

    first, second = uuid.uuid4().hex, uuid.uuid4().hex
    process = start(directory, 100, first)
    try:
        wait_for_results(directory, process, 8, tmp_path / f"output-{first}")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    wait_until_gone(first)
    with open_log(directory) as log:
        before = results(log)
    assert 0 < count(before) < count(expected), "it was not killed in the middle"

    process = start(directory, 100_000, second)
    try:
        status = process.wait(_PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert status == 0, (tmp_path / f"output-{second}").read_text(encoding="utf-8")[-3000:]
    wait_until_gone(second)
    with open_log(directory) as log:
        after = results(log)
    different = [topic for topic in expected if compared(topic, after[topic]) != compared(topic, expected[topic])]
    assert not different, {topic: (after[topic], expected[topic]) for topic in different}
