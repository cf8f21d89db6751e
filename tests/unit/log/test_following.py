"""Following partitions of the embedded log."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.log.helpers import fetched_rows, follow, follow_to_end, in_child, record

from millstream.core.records import UnreadableHeaders
from millstream.errors import OffsetOutOfRangeError, UnknownTopicError
from millstream.log import Append, ColumnBlock, Follower
from millstream.log.blocks import encode, encode_unreadable
from millstream.log.embedded import EmbeddedLog, open_log


@pytest.fixture
def follower(log: EmbeddedLog) -> Iterator[Follower]:
    log.create_topic("t", 2)
    follower = log.follow()
    yield follower
    follower.close()


def test_records_of_several_partitions_arrive_in_the_order_of_each(log: EmbeddedLog, follower: Follower) -> None:
    for number in range(6):
        log.produce("t", [record("k", str(number), number)], partition=number % 2)
    follower.follow({("t", 0): 0, ("t", 1): 1})
    read = follow(follower, 5)
    assert [value for _, partition, _, value in read if partition == 0] == ["0", "2", "4"]
    assert [value for _, partition, _, value in read if partition == 1] == ["3", "5"]
    assert follower.poll(0) == []
    assert follower.position("t", 0) == 3


def test_all_columns_of_a_record_are_returned(log: EmbeddedLog, follower: Follower) -> None:
    follower.follow({("t", 0): 0})
    log.produce("t", [record(None, "a", 5), record("k", None, 6, headers=(("trace", b"1"),))], partition=0)
    (fetched,) = follower.poll(0)
    assert fetched == ("t", 0, [0, 1], [5, 6], [None, b"k"], [b"a", None], [(), (("trace", b"1"),)], 2)
    log.produce("t", [record("k", "", 7)], partition=0)
    (fetched,) = follower.poll(0)
    assert fetched == ("t", 0, [2], [7], [b"k"], [b""], None, 3)


def test_headers_that_cannot_be_decoded_are_marked(log: EmbeddedLog, follower: Follower) -> None:
    headers = pa.array([encode_unreadable("not UTF-8")], pa.binary())
    log.append([Append("t", 0, encode([1], [b"k"], [b"v"], headers))])
    follower.follow({("t", 0): 0})
    (fetched,) = follower.poll(0)
    assert fetched.headers is not None
    assert isinstance(fetched.headers[0], UnreadableHeaders)
    assert fetched.headers[0].reason == "not UTF-8"


def test_the_end_of_a_partition_is_known_at_once(log: EmbeddedLog, follower: Follower) -> None:
    follower.follow({("t", 0): 0, ("t", 1): 0})
    assert not follower.has_more("t", 0)
    log.produce("t", [record("k", "a")], partition=0)
    assert not follower.has_more("t", 0)
    follower.refresh([("t", 0)])
    assert follower.has_more("t", 0)
    assert not follower.has_more("t", 1)
    assert follow_to_end(follower, ("t", 0)) == ["a"]


def test_a_poll_returns_whole_blocks_up_to_a_number_of_records(log: EmbeddedLog, follower: Follower) -> None:
    for number in range(4):
        log.produce("t", [record("k", f"{number}a"), record("k", f"{number}b")], partition=0)
    follower.follow({("t", 0): 1})
    assert [value for *_, value in fetched_rows(follower.poll(0, most=2))] == ["0b", "1a", "1b"]
    assert follower.has_more("t", 0)
    assert [value for *_, value in fetched_rows(follower.poll(0, most=3))] == ["2a", "2b", "3a", "3b"]
    assert not follower.has_more("t", 0)


def test_a_busy_partition_does_not_hold_back_another(log: EmbeddedLog, follower: Follower) -> None:
    for _ in range(3):
        log.produce("t", [record("k", "busy")], partition=0)
    log.produce("t", [record("k", "quiet")], partition=1)
    follower.follow({("t", 0): 0, ("t", 1): 0})
    values = [value for _ in range(2) for *_, value in fetched_rows(follower.poll(0, most=1))]
    assert sorted(values) == ["busy", "quiet"]


def test_a_position_can_be_moved_and_a_partition_removed(log: EmbeddedLog, follower: Follower) -> None:
    for number in range(3):
        log.produce("t", [record("k", str(number))], partition=0)
    follower.follow({("t", 0): 0, ("t", 1): 0})
    assert len(follow(follower, 3)) == 3
    follower.follow({("t", 0): 1})
    assert [value for *_, value in follow(follower, 2)] == ["1", "2"]
    follower.unfollow([("t", 0)])
    log.produce("t", [record("k", "3")], partition=0)
    assert follower.poll(0) == []


def test_paused_partitions_deliver_nothing_until_they_are_resumed(log: EmbeddedLog, follower: Follower) -> None:
    follower.follow({("t", 0): 0, ("t", 1): 0})
    follower.pause([("t", 0)])
    log.produce("t", [record("k", "a")], partition=0)
    log.produce("t", [record("k", "b")], partition=1)
    assert fetched_rows(follower.poll(0)) == [("t", 1, 0, "b")]
    assert follower.poll(0) == []
    assert follower.has_more("t", 0)
    follower.resume([("t", 0)])
    assert fetched_rows(follower.poll(0)) == [("t", 0, 0, "a")]


def test_compacted_records_are_skipped(log: EmbeddedLog, follower: Follower) -> None:
    log.create_topic("c", 1, {"cleanup.policy": "compact"})
    for value in ("a", "b", "c"):
        log.produce("c", [record("k", value), record(value, value)])
    log.produce("c", [record("k", "z")])
    assert log.cleanup.compact("c").records
    follower.follow({("c", 0): 0})
    assert fetched_rows(follower.poll(0)) == [("c", 0, 1, "a"), ("c", 0, 3, "b"), ("c", 0, 5, "c"), ("c", 0, 6, "z")]
    assert follower.position("c", 0) == 7
    assert not follower.has_more("c", 0)


def test_deleted_records_raise_an_error(log: EmbeddedLog, follower: Follower) -> None:
    for number in range(3):
        log.produce("t", [record("k", str(number))], partition=0)
    follower.follow({("t", 0): 0})
    log.delete_records({("t", 0): 2})
    with pytest.raises(OffsetOutOfRangeError, match=r"topic 't', partition 0: .* 0 to 1 are deleted"):
        follower.poll(0)


def test_a_recreated_topic_raises_an_error(log: EmbeddedLog, follower: Follower) -> None:
    log.produce("t", [record("k", "old")], partition=0)
    follower.follow({("t", 0): 0})
    follow(follower, 1)
    log.delete_topic("t")
    with pytest.raises(UnknownTopicError):
        follower.poll(0)
    log.create_topic("t", 2)
    log.produce("t", [record("k", "new")], partition=0)
    with pytest.raises(OffsetOutOfRangeError, match="topic 't', partition 0: there is no offset 1"):
        follower.poll(0)


def test_unknown_partitions_are_refused(follower: Follower) -> None:
    with pytest.raises(UnknownTopicError, match="no partition 2"):
        follower.follow({("t", 2): 0})
    with pytest.raises(UnknownTopicError, match="'missing'"):
        follower.follow({("missing", 0): 0})


@pytest.mark.parametrize("thread", [True, False])
def test_a_poll_ends_when_another_thread_or_process_writes(
    log: EmbeddedLog, directory: Path, follower: Follower, thread: bool
) -> None:
    def write() -> None:
        with open_log(directory) as other:
            other.produce("t", [record("k", "new")], partition=1)

    follower.follow({("t", 0): 0, ("t", 1): 0})
    assert follower.poll(0) == []
    if thread:
        writer = threading.Thread(target=lambda: log.produce("t", [record("k", "new")], partition=1))
        writer.start()
        assert fetched_rows(follower.poll(60)) == [("t", 1, 0, "new")]
        writer.join()
    else:
        assert in_child(write) == 0
        assert fetched_rows(follower.poll(60)) == [("t", 1, 0, "new")]


def test_columns_are_written_like_blocks(log: EmbeddedLog, follower: Follower) -> None:
    headers = (("trace", b"1"),)
    assert log.append([Append("t", 0, ColumnBlock([5, 3], [b"k", None], [None, b"v"], [(), headers]))]) == [0]
    assert log.append([Append("t", 0, ColumnBlock([], [], []))]) == [2]
    follower.follow({("t", 0): 0})
    assert follower.poll(0) == [("t", 0, [0, 1], [5, 3], [b"k", None], [None, b"v"], [(), headers], 2)]
    assert log.ends(["t"], committed=False) == log.ends(["t"]) == {"t": [2, 0]}
