"""Retention by time and size, and the records that applications hold."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.unit.log.helpers import record, rows

from millstream.errors import OffsetOutOfRangeError
from millstream.log import ProducerRecord, Publication, Scope
from millstream.log.embedded import EmbeddedLog, open_log


def fill(log: EmbeddedLog, config: dict[str, str], *, records: int = 10) -> None:
    """Creates a topic with one record per block, at times 0, 10, 20..."""
    log.create_topic("t", 1, config)
    for number in range(records):
        log.produce("t", [record("k", str(number), number * 10)])


def offsets(log: EmbeddedLog) -> list[int]:
    return [offset for offset, _, _ in rows(log, "t")]


def test_records_older_than_retention_ms_are_deleted(log: EmbeddedLog) -> None:
    fill(log, {"retention.ms": "30"})
    removed = log.cleanup.apply_retention(now=75)
    assert removed.records == 5
    assert removed.size > 0
    assert offsets(log) == [5, 6, 7, 8, 9]
    assert log.starts(["t"]) == {"t": [5]}
    assert log.ends(["t"]) == {"t": [10]}
    assert log.cleanup.apply_retention(now=75) == (0, 0)


def test_retention_stops_at_the_first_young_record(log: EmbeddedLog) -> None:
    log.create_topic("t", 1, {"retention.ms": "30"})
    for time in (0, 100, 0, 0):
        log.produce("t", [record("k", "v", time)])
    log.cleanup.apply_retention(now=100)
    assert offsets(log) == [1, 2, 3]


def test_a_block_is_deleted_when_its_youngest_record_expires(log: EmbeddedLog) -> None:
    log.create_topic("t", 1, {"retention.ms": "30"})
    log.produce("t", [record("k", "v", 0), record("k", "v", 50)])
    log.cleanup.apply_retention(now=80)
    assert offsets(log) == [0, 1]
    log.cleanup.apply_retention(now=81)
    assert offsets(log) == []
    assert log.starts(["t"]) == log.ends(["t"]) == {"t": [2]}
    log.produce("t", [record("k", "v", 90)])
    assert offsets(log) == [2]


def test_records_beyond_retention_bytes_are_deleted(log: EmbeddedLog) -> None:
    log.create_topic("t", 1, {"retention.ms": "-1", "retention.bytes": "0"})
    log.produce("t", [record("k", "v", 0)])
    size = log.cleanup.apply_retention(now=0).size
    assert offsets(log) == []
    log.alter_topic("t", {"retention.bytes": str(size * 5)})
    for _ in range(10):
        log.produce("t", [record("k", "v", 0)])
    assert log.cleanup.apply_retention(now=0).records == 5
    assert offsets(log) == [6, 7, 8, 9, 10]


def test_topics_have_no_retention_limit_by_default(log: EmbeddedLog) -> None:
    fill(log, {})
    log.cleanup.apply_retention(now=2**62)
    assert len(offsets(log)) == 10
    week = 7 * 24 * 3_600_000
    log.alter_topic("t", {"retention.ms": str(week)})
    log.cleanup.apply_retention(now=week + 20)
    assert offsets(log) == [2, 3, 4, 5, 6, 7, 8, 9]


def test_retention_skips_compacted_topics_without_a_delete_policy(log: EmbeddedLog) -> None:
    fill(log, {"cleanup.policy": "compact", "retention.ms": "1"})
    assert log.cleanup.apply_retention() == (0, 0)
    log.alter_topic("t", {"cleanup.policy": "compact,delete"})
    assert log.cleanup.apply_retention().records == 10


def test_a_read_of_deleted_records_raises_an_error(log: EmbeddedLog) -> None:
    fill(log, {"retention.ms": "30"})
    log.cleanup.apply_retention(now=75)
    with pytest.raises(OffsetOutOfRangeError) as caught:
        log.read("t", 0, 2, 8)
    assert caught.value.message == "topic 't', partition 0: the records of offsets 2 to 4 are deleted"
    assert caught.value.hint == "the first remaining record has offset 5"
    assert log.read("t", 0, 5, 8)["offset"].to_pylist() == [5, 6, 7]


def test_held_records_are_kept(log: EmbeddedLog) -> None:
    fill(log, {"retention.ms": "0"})
    log.cleanup.hold("app", {("t", 0): 4})
    log.cleanup.hold("other", {("t", 0): 6})
    log.cleanup.apply_retention(now=1_000)
    assert offsets(log) == [4, 5, 6, 7, 8, 9]
    log.cleanup.hold("app", {("t", 0): 8})
    log.cleanup.apply_retention(now=1_000)
    assert offsets(log) == [6, 7, 8, 9]
    log.cleanup.release("other")
    log.cleanup.apply_retention(now=1_000)
    assert offsets(log) == [8, 9]
    log.cleanup.release("app")
    log.cleanup.apply_retention(now=1_000)
    assert offsets(log) == []


def test_a_block_with_one_held_record_is_kept(log: EmbeddedLog) -> None:
    log.create_topic("t", 1, {"retention.ms": "0"})
    log.produce("t", [record("k", "v", 0)] * 5)
    log.cleanup.hold("app", {("t", 0): 4})
    assert log.cleanup.apply_retention(now=1_000) == (0, 0)


def test_unread_records_of_an_application_are_kept(log: EmbeddedLog) -> None:
    fill(log, {"retention.ms": "0"})
    epoch = log.applications.acquire(Scope("app"))
    log.applications.publish(Publication(Scope("app"), epoch, 1, offsets={("t", 0): 7}))
    log.cleanup.hold("app", {("t", 0): 9})
    log.cleanup.apply_retention(now=1_000)
    assert offsets(log) == [7, 8, 9]
    log.applications.delete("app")
    log.cleanup.apply_retention(now=1_000)
    assert offsets(log) == []


def test_a_partition_that_another_worker_reads_now_is_kept_from_its_position_on(log: EmbeddedLog) -> None:
    fill(log, {"retention.ms": "0"})
    for worker, offset in (("w1", 3), ("w2", 7)):
        scope = Scope("app", worker)
        log.applications.publish(Publication(scope, log.applications.acquire(scope), 1, offsets={("t", 0): offset}))
    log.cleanup.apply_retention(now=1_000)
    assert offsets(log) == [7, 8, 9]


def test_offsets_of_a_consumer_group_hold_no_records(log: EmbeddedLog) -> None:
    fill(log, {"retention.ms": "0"})
    log.commit_offsets("group", {("t", 0): 2})
    assert log.cleanup.apply_retention(now=1_000).records == 10


def test_deleted_records_cannot_be_held(log: EmbeddedLog) -> None:
    fill(log, {"retention.ms": "0"})
    log.cleanup.hold("app", {("t", 0): 5})
    log.cleanup.apply_retention(now=1_000)
    with pytest.raises(OffsetOutOfRangeError, match="the records before offset 5 are deleted"):
        log.cleanup.hold("app", {("t", 0): 4})
    log.cleanup.apply_retention(now=1_000)
    assert offsets(log) == [5, 6, 7, 8, 9]


def test_the_file_shrinks_when_most_of_it_is_unused(log: EmbeddedLog, directory: Path) -> None:
    log.create_topic("t", 1, {"retention.bytes": "0"})
    for _ in range(12):
        log.produce("t", [ProducerRecord(None, random.randbytes(500_000), 0)])
    log.close()
    before = (directory / "log.db").stat().st_size
    assert before > 5_000_000
    with open_log(directory) as again:
        again.cleanup.apply_retention()
    assert (directory / "log.db").stat().st_size < before / 2
