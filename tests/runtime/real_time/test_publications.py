"""When results are published, which of them readers see, and which tasks begin while others are restored."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.real_time.shops import numbers_of, wait_for

from millstream import App
from millstream.core.partitioning import partition_for
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.real_time import publications
from millstream.runtime.real_time.hosted_task import HostedTask, Restoration

KEYS = [b"k%d" % number for number in range(10)]
ONE_MINUTE = 60.0


def counting(directory: Path, **config: Any) -> App:
    config = {"execution.mode": "local", "num.workers": 1, "status": "none", "state.dir": str(directory), **config}
    app = App("counting", config=config)
    app.stream("in", value=str).group_by_key().count(store="counts").to_stream().to("counted", value=int)
    return app


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with open_log(tmp_path) as log:
        for topic in ("in", "counted"):
            log.create_topic(topic, 2)
        yield log


def produce(log: Log, each: int = 1) -> None:
    log.produce("in", [ProducerRecord(key, b"x") for _time in range(each) for key in KEYS])


def test_many_records_are_published_whatever_the_time_is(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publications, "_LARGE", 0)
    monkeypatch.setattr(publications.Publications, "_seconds_left", lambda _self: 1.0)
    produce(log, 10)
    with counting(tmp_path).start():
        wait_for(lambda: numbers_of(log, "counted") == {key: list(range(1, 11)) for key in KEYS})


def test_reads_of_a_store_never_go_back_and_are_never_ahead_of_what_is_committed(tmp_path: Path, log: Log) -> None:
    produce(log)
    with counting(tmp_path, **{"commit.interval.ms": 5}).start() as handle:
        wait_for(lambda: b"k0" in numbers_of(log, "counted"))
        before = 1
        for number in range(2, 15):
            produce(log)
            while before < number:
                seen = handle.store("counts").get("k0")
                committed = numbers_of(log, "counted")[b"k0"][-1]
                assert before <= seen <= committed
                before = seen


def test_a_restored_task_begins_while_another_one_is_restored(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(log)
    counting(tmp_path).run(until_caught_up=True)
    restore = HostedTask.restore
    quick = {key for key in KEYS if partition_for(key, 2) == 0}
    has_begun = False

    def restore_slowly(task: HostedTask) -> Iterator[Restoration]:
        nonlocal has_begun
        if task.id.partition == 1:
            deadline = time.monotonic() + ONE_MINUTE
            while not has_begun and time.monotonic() < deadline:
                counts = numbers_of(log, "counted")
                has_begun = all(counts[key] == [1, 2] for key in quick)
                assert all(counts[key] == [1] for key in set(KEYS) - quick)
                yield Restoration(0, 1)
        yield from restore(task)

    monkeypatch.setattr(HostedTask, "restore", restore_slowly)
    produce(log)
    counting(tmp_path).run(until_caught_up=True)
    assert has_begun
    assert numbers_of(log, "counted") == {key: [1, 2] for key in KEYS}
