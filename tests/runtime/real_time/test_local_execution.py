"""Applications with ``execution.mode=local``: workers as threads, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.runtime.real_time.shops import records_of

from millstream import App, tumbling
from millstream.log import Log, ProducerRecord, open_log


def counting(directory: Path, **config: Any) -> App:
    app = App("words", config={"state.dir": str(directory), "execution.mode": "local", **config})
    words = app.stream("texts", value=str).flat_map_values(lambda text: text.split())
    words.group_by(lambda word: word).count(store="counts").to_stream().to("counted", value=int)
    app.stream("texts", value=str).group_by_key().windowed_by(tumbling(100)).count(store="windows")
    return app


def fill(log: Log, partitions: int = 2) -> None:
    log.create_topic("texts", partitions)
    log.produce("texts", [ProducerRecord(f"k{n % 5}".encode(), b"a b", n) for n in range(100)])


@pytest.mark.parametrize("workers", [1, 3])
def test_a_run_until_caught_up_processes_everything_once(tmp_path: Path, workers: int) -> None:
    log = open_log(tmp_path)
    fill(log)
    counting(tmp_path, **{"num.workers": workers}).run(until_caught_up=True)
    counted = records_of(log, "counted")
    assert {key: len(values) for key, values in counted.items()} == {b"a": 100, b"b": 100}
    assert all(values == [n.to_bytes(8, "big") for n in range(1, 101)] for values in counted.values())


def test_a_second_run_continues_where_the_first_ended(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    counting(tmp_path).run(until_caught_up=True)
    log.produce("texts", [ProducerRecord(b"k1", b"a", 200)])
    counting(tmp_path).run(until_caught_up=True)
    assert records_of(log, "counted")[b"a"][-1] == (101).to_bytes(8, "big")
    assert len(records_of(log, "counted")[b"a"]) == 101
