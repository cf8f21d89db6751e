"""Compaction: the last record of each key stays, with its offset."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.unit.log.helpers import record, rows

from millstream.errors import ConfigError
from millstream.log import ProducerRecord, Publication, Scope
from millstream.log.embedded import EmbeddedLog, open_log

DAY = 24 * 3_600_000


def topic(log: EmbeddedLog, **config: str) -> None:
    log.create_topic("t", 1, {"cleanup.policy": "compact"} | {key.replace("_", "."): v for key, v in config.items()})


def test_the_last_record_of_each_key_keeps_its_offset(log: EmbeddedLog) -> None:
    topic(log)
    log.produce("t", [record("a", "1", 5), record("b", "2", 6), record("a", "3", 7)])
    log.produce("t", [record("c", "4", 8), record("b", "5", 9, headers=(("h", b"x"),))])
    assert log.cleanup.compact("t").records == 2
    assert rows(log, "t") == [(2, "a", "3"), (3, "c", "4"), (4, "b", "5")]
    table = log.read("t", 0, 0, 5)
    assert table["timestamp"].to_pylist() == [7, 8, 9]
    assert [data is None for data in table["headers"].to_pylist()] == [True, True, False]
    assert log.starts(["t"]) == {"t": [0]}
    assert log.ends(["t"]) == {"t": [5]}
    assert log.cleanup.compact("t") == (0, 0)
    log.produce("t", [record("a", "6", 9)])
    assert rows(log, "t")[-1] == (5, "a", "6")


def test_ranges_are_exact_around_gaps(log: EmbeddedLog) -> None:
    topic(log)
    log.produce("t", [record("a" if number % 3 else str(number), "v", number) for number in range(20)])
    log.cleanup.compact("t")
    left = [offset for offset, _, _ in rows(log, "t")]
    assert left == [0, 3, 6, 9, 12, 15, 18, 19]
    for start in range(21):
        for end in range(start, 22):
            expected = [offset for offset in left if start <= offset < end]
            assert log.read("t", 0, start, end)["offset"].to_pylist() == expected
    assert log.offsets_for_times({("t", 0): 7}) == {("t", 0): 9}
    assert log.latest_times({("t", 0): (0, 20)}) == {("t", 0): 19}


def test_a_tombstone_is_kept_for_delete_retention_after_its_first_compaction(log: EmbeddedLog) -> None:
    topic(log, delete_retention_ms="100")
    log.produce("t", [record("a", "1", 0), record("a", None, 0), record("b", "2", 0)])
    log.cleanup.compact("t", now=1_000)
    assert rows(log, "t") == [(1, "a", None), (2, "b", "2")]
    log.cleanup.compact("t", now=1_099)
    assert len(rows(log, "t")) == 2
    assert log.cleanup.compact("t", now=1_100).records == 1
    assert rows(log, "t") == [(2, "b", "2")]


def test_compaction_may_delete_all_records(log: EmbeddedLog) -> None:
    topic(log, delete_retention_ms="0")
    log.produce("t", [record("a", "1"), record("a", None)])
    log.cleanup.compact("t", now=10)
    log.cleanup.compact("t", now=10)
    assert rows(log, "t") == []
    assert log.ends(["t"]) == {"t": [2]}
    assert log.latest_times({("t", 0): (0, 2)}) == {}
    assert log.offsets_for_times({("t", 0): 0}) == {("t", 0): 2}
    log.produce("t", [record("a", "2")])
    log.cleanup.compact("t", now=20)
    assert rows(log, "t") == [(2, "a", "2")]


def test_records_younger_than_the_compaction_lag_are_kept(log: EmbeddedLog) -> None:
    topic(log, min_compaction_lag_ms="50")
    for time in (0, 10, 60, 70):
        log.produce("t", [record("a", str(time), time)])
    log.cleanup.compact("t", now=100)
    assert rows(log, "t") == [(1, "a", "10"), (2, "a", "60"), (3, "a", "70")]
    log.cleanup.compact("t", now=200)
    assert rows(log, "t") == [(3, "a", "70")]


def test_held_and_unread_records_are_not_compacted(log: EmbeddedLog) -> None:
    topic(log)
    for number in range(10):
        log.produce("t", [record("a", str(number))])
    log.cleanup.hold("holder", {("t", 0): 8})
    log.applications.publish(
        Publication(Scope("reader"), log.applications.acquire(Scope("reader")), 1, offsets={("t", 0): 4})
    )
    log.cleanup.compact("t")
    assert [offset for offset, _, _ in rows(log, "t")] == [3, 4, 5, 6, 7, 8, 9]
    log.applications.delete("reader")
    log.cleanup.compact("t")
    assert [offset for offset, _, _ in rows(log, "t")] == [7, 8, 9]
    log.cleanup.release("holder")
    log.cleanup.compact("t")
    assert [offset for offset, _, _ in rows(log, "t")] == [9]


def test_compaction_keeps_log_append_times(log: EmbeddedLog) -> None:
    topic(log, message_timestamp_type="LogAppendTime")
    log.produce("t", [record("a", "1", 5), record("a", "2", 5), record("b", "3", 5)])
    before = log.read("t", 0, 0, 3)["timestamp"].to_pylist()
    log.cleanup.compact("t", now=before[0] + DAY)
    assert log.read("t", 0, 0, 3)["timestamp"].to_pylist() == before[1:]


def test_every_partition_is_compacted(log: EmbeddedLog) -> None:
    log.create_topic("t", 4, {"cleanup.policy": "compact,delete"})
    for number in range(3):
        log.produce("t", [record(str(key), str(number)) for key in range(50)])
    assert log.cleanup.compact("t").records == 100
    assert sorted(row[1:] for partition in range(4) for row in rows(log, "t", partition)) == sorted(
        (str(key), "2") for key in range(50)
    )


def test_large_blocks_without_deleted_records_are_not_rewritten(log: EmbeddedLog) -> None:
    topic(log)
    noise = [ProducerRecord(b"%d" % number, os.urandom(1_000), 0) for number in range(300)]
    log.produce("t", noise)
    log.produce("t", [record("1", "last")])
    removed = log.cleanup.compact("t")
    assert removed.records == 1
    log.produce("t", [record("x", "y")])
    assert log.cleanup.compact("t").records == 0
    table = log.read("t", 0, 0, 400)
    kept = dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
    assert kept == {row.key: row.value for row in noise} | {b"1": b"last", b"x": b"y"}


def test_only_compacted_topics_are_compacted(log: EmbeddedLog) -> None:
    log.create_topic("t")
    with pytest.raises(ConfigError, match="topic 't' is not compacted"):
        log.cleanup.compact("t")


KEYS = st.sampled_from("abcde")
VALUES = st.none() | st.sampled_from(["1", "2"])
STEPS = st.lists(
    st.tuples(st.just("produce"), st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=8))
    | st.tuples(st.just("hold"), st.integers(0, 60))
    | st.tuples(st.just("release"), st.none())
    | st.tuples(st.just("compact"), st.none()),
    max_size=15,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_compaction_matches_a_model(tmp_path: Path, steps: list[Any]) -> None:
    """Tombstones are never deleted here; their retention has tests of its own."""
    with open_log(tmp_path / "data") as log:
        name = f"t{len(log.topics())}"
        log.create_topic(name, 1, {"cleanup.policy": "compact", "delete.retention.ms": str(2**40)})
        written: list[tuple[int, str, str | None]] = []
        left: list[tuple[int, str, str | None]] = []
        ends: list[int] = []
        hold: int | None = None
        for step, value in steps:
            if step == "produce":
                log.produce(name, [record(key, text) for key, text in value])
                added = [(len(written) + place, key, text) for place, (key, text) in enumerate(value)]
                written += added
                left += added
                ends.append(len(written))
            elif step == "hold":
                hold = value
                log.cleanup.hold("app", {(name, 0): value})
            elif step == "release":
                hold = None
                log.cleanup.release("app")
            else:
                log.cleanup.compact(name)
                left = kept(left, ends, hold)
            assert rows(log, name) == left
        assert log.ends([name]) == {name: [len(written)]}
        log.cleanup.release("app")


def kept(left: list[Any], ends: list[int], hold: int | None) -> list[Any]:
    """The rows that remain: up to the last block that ends before the hold, the last record of each key."""
    limit = max((end for end in ends if hold is None or end <= hold), default=0)
    last = {key: offset for offset, key, _ in left if offset < limit}
    return [row for row in left if row[0] >= limit or last[row[1]] == row[0]]
