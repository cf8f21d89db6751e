"""Retention by time and size, and what applications hold against it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.unit.log.helpers import record, rows

from millstream.errors import OffsetOutOfRangeError
from millstream.log import ProducerRecord, Publication, Scope
from millstream.log.embedded import EmbeddedLog, open_log


def fill(log: EmbeddedLog, config: dict[str, str], *, records: int = 10) -> None:
    """A topic with one block a record, at times 0, 10, 20..."""
    log.create_topic("t", 1, config)
    for number in range(records):
        log.produce("t", [record("k", str(number), number * 10)])


def offsets(log: EmbeddedLog) -> list[int]:
    return [offset for offset, _, _ in rows(log, "t")]


def test_what_is_older_than_the_topic_keeps_goes(log: EmbeddedLog) -> None:
    fill(log, {"retention.ms": "30"})
    removed = log.cleanup.apply_retention(now=75)
    assert removed.records == 5
    assert removed.size > 0
    assert offsets(log) == [5, 6, 7, 8, 9]
    assert log.starts(["t"]) == {"t": [5]}
    assert log.ends(["t"]) == {"t": [10]}
    assert log.cleanup.apply_retention(now=75) == (0, 0)


def test_a_younger_record_in_front_keeps_those_behind_it(log: EmbeddedLog) -> None:
    log.create_topic("t", 1, {"retention.ms": "30"})
    for time in (0, 100, 0, 0):
        log.produce("t", [record("k", "v", time)])
    log.cleanup.apply_retention(now=100)
    assert offsets(log) == [1, 2, 3]


def test_a_block_goes_when_its_youngest_record_may(log: EmbeddedLog) -> None:
    log.create_topic("t", 1, {"retention.ms": "30"})
    log.produce("t", [record("k", "v", 0), record("k", "v", 50)])
    log.cleanup.apply_retention(now=80)
    assert offsets(log) == [0, 1]
    log.cleanup.apply_retention(now=81)
    assert offsets(log) == []
    assert log.starts(["t"]) == log.ends(["t"]) == {"t": [2]}
    log.produce("t", [record("k", "v", 90)])
    assert offsets(log) == [2]


def test_what_is_more_than_the_topic_keeps_goes(log: EmbeddedLog) -> None:
    log.create_topic("t", 1, {"retention.ms": "-1", "retention.bytes": "0"})
    log.produce("t", [record("k", "v", 0)])
    size = log.cleanup.apply_retention(now=0).size
    assert offsets(log) == []
    log.alter_topic("t", {"retention.bytes": str(size * 5)})
    for _ in range(10):
        log.produce("t", [record("k", "v", 0)])
    assert log.cleanup.apply_retention(now=0).records == 5
    assert offsets(log) == [6, 7, 8, 9, 10]


def test_a_topic_keeps_everything_unless_it_is_told_otherwise(log: EmbeddedLog) -> None:
    fill(log, {})
    log.cleanup.apply_retention(now=2**62)
    assert len(offsets(log)) == 10
    week = 7 * 24 * 3_600_000
    log.alter_topic("t", {"retention.ms": str(week)})
    log.cleanup.apply_retention(now=week + 20)
    assert offsets(log) == [2, 3, 4, 5, 6, 7, 8, 9]


def test_a_compacted_topic_is_left_alone_unless_it_deletes_too(log: EmbeddedLog) -> None:
    fill(log, {"cleanup.policy": "compact", "retention.ms": "1"})
    assert log.cleanup.apply_retention() == (0, 0)
    log.alter_topic("t", {"cleanup.policy": "compact,delete"})
    assert log.cleanup.apply_retention().records == 10


def test_reading_what_is_gone_says_so(log: EmbeddedLog) -> None:
    fill(log, {"retention.ms": "30"})
    log.cleanup.apply_retention(now=75)
    with pytest.raises(OffsetOutOfRangeError) as caught:
        log.read("t", 0, 2, 8)
    assert caught.value.message == "topic 't', partition 0: the records of offsets 2 to 4 are deleted"
    assert caught.value.hint == "the first remaining record has offset 5"
    assert log.read("t", 0, 5, 8)["offset"].to_pylist() == [5, 6, 7]


def test_what_an_application_holds_stays(log: EmbeddedLog) -> None:
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


def test_a_block_of_which_one_record_is_held_stays(log: EmbeddedLog) -> None:
    log.create_topic("t", 1, {"retention.ms": "0"})
    log.produce("t", [record("k", "v", 0)] * 5)
    log.cleanup.hold("app", {("t", 0): 4})
    assert log.cleanup.apply_retention(now=1_000) == (0, 0)


def test_what_an_application_has_not_read_yet_stays(log: EmbeddedLog) -> None:
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


def test_the_offsets_of_a_plain_group_hold_nothing(log: EmbeddedLog) -> None:
    fill(log, {"retention.ms": "0"})
    log.commit_offsets("group", {("t", 0): 2})
    assert log.cleanup.apply_retention(now=1_000).records == 10


def test_nobody_can_hold_what_is_gone(log: EmbeddedLog) -> None:
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
