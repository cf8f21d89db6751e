"""Deletion of records while an application runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.log import Log, ProducerRecord, Scope, open_log
from millstream.log.api import Publication
from millstream.runtime.publish.log_cleanup import LogCleaner

PLACE = ("in", 0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with open_log(tmp_path) as log:
        log.create_topic("in", 1, {"retention.bytes": "0"})
        for _ in range(5):
            log.produce("in", [ProducerRecord(b"k", b"v")] * 10)
        yield log


def publish(log: Log, cleaner: LogCleaner, epoch: int, batch: int, end: int) -> None:
    log.applications.publish(Publication(Scope("app"), epoch, batch, offsets={PLACE: end}))
    cleaner.batch({PLACE: end})


def test_records_that_are_not_read_or_may_be_read_again_stay(log: Log) -> None:
    epoch = log.applications.acquire(Scope("app"))
    cleaner = LogCleaner(log, "app", 0, {PLACE: 0})
    cleaner.round()
    assert log.starts(["in"]) == {"in": [0]}
    publish(log, cleaner, epoch, 0, 10)
    cleaner.round()
    assert log.starts(["in"]) == {"in": [0]}, "the batch may be replayed"
    publish(log, cleaner, epoch, 1, 20)
    publish(log, cleaner, epoch, 2, 30)
    cleaner.round()
    assert log.starts(["in"]) == {"in": [20]}


def test_after_a_restart_the_records_of_the_last_batch_are_kept(log: Log) -> None:
    epoch = log.applications.acquire(Scope("app"))
    cleaner = LogCleaner(log, "app", 0, {PLACE: 0})
    publish(log, cleaner, epoch, 0, 10)
    publish(log, cleaner, epoch, 1, 20)
    cleaner.round()
    again = LogCleaner(log, "app", 0, {PLACE: 0})
    again.round()
    assert log.starts(["in"]) == {"in": [10]}
    publish(log, again, log.applications.acquire(Scope("app")), 2, 30)
    again.round()
    assert log.starts(["in"]) == {"in": [20]}


def test_compacted_topics_are_compacted_when_they_have_doubled(log: Log) -> None:
    log.create_topic("table", 1, {"cleanup.policy": "compact"})
    cleaner = LogCleaner(log, "app", 0, {})
    log.produce("table", [ProducerRecord(b"k", b"v")] * 9_000)
    cleaner.round()
    assert log.sizes("table")[0].records == 9_000
    log.produce("table", [ProducerRecord(b"k", b"v")] * 1_000)
    cleaner.round()
    assert log.sizes("table")[0].records == 1


def test_it_runs_in_the_background_until_it_is_stopped(log: Log) -> None:
    epoch = log.applications.acquire(Scope("app"))
    cleaner = LogCleaner(log, "app", 1, {PLACE: 0})
    cleaner.start()
    publish(log, cleaner, epoch, 0, 10)
    publish(log, cleaner, epoch, 1, 20)
    while log.starts(["in"]) != {"in": [10]}:
        pass
    cleaner.stop()


def test_a_round_that_takes_long_is_not_waited_for(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow(_upkeep: LogCleaner) -> None:
        begun.set()
        may_end.wait()

    monkeypatch.setattr(LogCleaner, "round", slow)
    upkeep = LogCleaner(log, "app", 1, {PLACE: 0})
    upkeep.start()
    begun.wait()
    upkeep.stop()
    assert not may_end.is_set()
    may_end.set()
