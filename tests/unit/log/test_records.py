"""Producing and reading records."""

from __future__ import annotations

import random
from array import array
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.unit.log.helpers import record, rows

from millstream.core.partitioning import partition_for
from millstream.errors import OffsetOutOfRangeError, RecordRefusedError
from millstream.log import SCHEMA, Append, Log, ProducerRecord, open_log
from millstream.log.blocks import decode_headers, encode


def test_records_are_read_unchanged_and_in_order(log: Log) -> None:
    log.create_topic("t")
    headers = (("trace", b"1"), ("trace", None))
    produced = log.produce("t", [record("a", "1", 7, headers=headers), record(None, None, 5), record("", "", 6)])
    assert produced == [(0, 0, 3)]
    table = log.read("t", 0, 0, 3)
    assert isinstance(table, pa.Table)
    assert table.schema == SCHEMA
    assert table["offset"].to_pylist() == [0, 1, 2]
    assert table["timestamp"].to_pylist() == [7, 5, 6]
    assert table["key"].to_pylist() == [b"a", None, b""]
    assert table["value"].to_pylist() == [b"1", None, b""]
    assert [decode_headers(data) for data in table["headers"].to_pylist()] == [headers, (), ()]


def test_keys_are_partitioned_as_by_kafka(log: Log) -> None:
    log.create_topic("t", 7)
    keys = [random.randbytes(random.randrange(20)) for _ in range(500)]
    produced = log.produce("t", (ProducerRecord(key, b"") for key in keys))
    assert sum(part.count for part in produced) == 500
    for partition in range(7):
        expected = [key for key in keys if partition_for(key, 7) == partition]
        assert log.read("t", partition, 0, 500)["key"].to_pylist() == expected
        assert [part for part in produced if part.partition == partition] == [(partition, 0, len(expected))]


def test_an_explicit_partition_overrides_the_key(log: Log) -> None:
    log.create_topic("t", 3)
    records = [record("k", "call"), record("k", "own", partition=2), record(None, "call")]
    assert log.produce("t", records, partition=1) == [(1, 0, 2), (2, 0, 1)]
    assert rows(log, "t", 1) == [(0, "k", "call"), (1, None, "call")]
    assert rows(log, "t", 2) == [(0, "k", "own")]


def test_records_without_a_key_share_a_partition_that_changes_with_each_call(log: Log) -> None:
    log.create_topic("t", 3)
    used = []
    for _ in range(3):
        (part,) = log.produce("t", [record(None, "v")] * 5)
        assert part.count == 5
        used.append(part.partition)
    assert sorted(used) == [0, 1, 2]


def test_a_record_without_a_timestamp_gets_the_time_of_writing(log: Log) -> None:
    log.create_topic("t")
    log.produce("t", [record("k", "v", None), record("k", "v", 5)])
    current, explicit = log.read("t", 0, 0, 2)["timestamp"].to_pylist()
    assert current > 1_600_000_000_000
    assert explicit == 5


def test_log_append_time_applies_to_records_written_under_it(log: Log) -> None:
    log.create_topic("t", 1, {"message.timestamp.type": "LogAppendTime"})
    log.produce("t", [record("k", "v", 5), record("k", "v", -1)])
    log.alter_topic("t", {"message.timestamp.type": None})
    log.produce("t", [record("k", "v", 6)])
    first, second, third = log.read("t", 0, 0, 3)["timestamp"].to_pylist()
    assert first == second > 1_600_000_000_000
    assert third == 6
    assert log.latest_times({("t", 0): (0, 3)}) == {("t", 0): first}


def test_an_empty_list_can_be_produced(log: Log) -> None:
    log.create_topic("t")
    assert log.produce("t", []) == []
    assert log.append([]) == []
    assert log.append([Append("t", 0, encode([], [], []))]) == [0]
    assert log.ends(["t"]) == {"t": [0]}


def test_a_call_larger_than_a_block_is_one_range(log: Log) -> None:
    log.create_topic("t")
    values = [b"%d" % number for number in range(50_000)]
    assert log.produce("t", [ProducerRecord(b"k", value, 0) for value in values]) == [(0, 0, 50_000)]
    assert log.read("t", 0, 0, 50_000)["value"].to_pylist() == values
    assert log.read("t", 0, 20_000, 20_003)["value"].to_pylist() == values[20_000:20_003]


def test_blocks_are_appended_unchanged_in_one_transaction(log: Log) -> None:
    log.create_topic("t", 2)
    log.create_topic("u")
    block = encode([1, 2], [b"a", b"b"], [b"1", b"2"])
    assert log.append([Append("t", 1, block), Append("u", 0, block), Append("t", 1, block)]) == [0, 0, 2]
    assert log.ends(["t", "u"]) == {"t": [0, 4], "u": [2]}
    assert [value for _, _, value in rows(log, "t", 1)] == ["1", "2", "1", "2"]


@pytest.mark.parametrize(
    ("config", "bad", "message"),
    [
        ({"max.message.bytes": "9"}, record("12345", "12345"), "has 10 bytes; at most 9 are allowed"),
        ({"cleanup.policy": "compact"}, record(None, "v"), "has no key, but the topic is compacted"),
        ({"cleanup.policy": "compact,delete"}, record(None, "v"), "has no key, but the topic is compacted"),
        ({}, record("k", "v", -1), "has a negative timestamp: -1"),
        ({}, ProducerRecord("k", b"v"), "the key of a record is str"),  # type: ignore[arg-type]
        ({}, (b"k", b"v"), "only instances of ProducerRecord"),
        ({}, 5, "only instances of ProducerRecord"),
    ],
)
def test_a_refused_record_makes_its_whole_call_fail(log: Log, config: dict[str, str], bad: Any, message: str) -> None:
    log.create_topic("t", 4, config)
    with pytest.raises(RecordRefusedError, match=message):
        log.produce("t", [*(record(str(number), "v") for number in range(20)), bad])
    assert log.ends(["t"]) == {"t": [0, 0, 0, 0]}


def test_blocks_are_refused_for_the_same_reasons(log: Log) -> None:
    log.create_topic("good")
    log.create_topic("small", 1, {"max.message.bytes": "3"})
    log.create_topic("compacted", 1, {"cleanup.policy": "compact"})
    good = Append("good", 0, encode([0], [b"k"], [b"v"]))
    for bad in (
        Append("small", 0, encode([0], [b"1"], [b"234"])),
        Append("compacted", 0, encode([0], [None], [b"v"])),
        Append("good", 0, encode([-1], [b"k"], [b"v"])),
    ):
        with pytest.raises(RecordRefusedError):
            log.append([good, bad])
    assert log.ends(["good", "small", "compacted"]) == {"good": [0], "small": [0], "compacted": [0]}


def test_a_read_beyond_the_end_returns_the_existing_records(log: Log) -> None:
    log.create_topic("t")
    log.produce("t", [record("k", str(number)) for number in range(3)])
    assert log.read("t", 0, 1, 100)["offset"].to_pylist() == [1, 2]
    assert log.read("t", 0, 3, 100).num_rows == 0
    assert log.read("t", 0, 50, 100).num_rows == 0
    assert log.read("t", 0, 2, 1).num_rows == 0
    with pytest.raises(OffsetOutOfRangeError):
        log.read("t", 0, -1, 2)


def test_max_bytes_limits_a_read_that_is_never_empty(log: Log) -> None:
    log.create_topic("t")
    for number in range(10):
        log.produce("t", [ProducerRecord(b"k", b"%d" % number * 1_000, 0)] * 3)
    position, steps = 0, 0
    while (table := log.read("t", 0, position, 30, max_bytes=7_500)).num_rows:
        assert table["offset"].to_pylist() == list(range(position, position + table.num_rows))
        position += table.num_rows
        steps += 1
    assert position == 30
    assert steps == 5
    assert log.read("t", 0, 0, 30, max_bytes=1).num_rows == 3


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=12), data=st.data())
def test_every_range_is_read_exactly(tmp_path: Path, sizes: list[int], data: Any) -> None:
    with open_log(tmp_path / "data") as log:
        name = f"t{len(log.topics())}"
        log.create_topic(name)
        total = 0
        for size in sizes:
            values = [b"%d" % number for number in range(total, total + size)]
            log.produce(name, [ProducerRecord(None, value, 0) for value in values])
            total += size
        start = data.draw(st.integers(0, total))
        end = data.draw(st.integers(start, total + 3))
        table = log.read(name, 0, start, end)
        assert table["offset"].to_pylist() == list(range(start, min(end, total)))
        assert table["value"].to_pylist() == [b"%d" % number for number in range(start, min(end, total))]


def test_offsets_for_times_returns_the_first_record_at_or_after_a_time(log: Log) -> None:
    log.create_topic("t")
    times = [10, 30, 20, 20, 50, 40, 60]
    for first in range(0, len(times), 3):
        log.produce("t", [record("k", "v", time) for time in times[first : first + 3]])
    for time in range(70):
        expected = next((offset for offset, given in enumerate(times) if given >= time), len(times))
        assert log.offsets_for_times({("t", 0): time}) == {("t", 0): expected}


def test_the_latest_time_covers_the_range_and_at_most_its_blocks(log: Log) -> None:
    log.create_topic("t")
    for first in range(0, 100, 10):
        log.produce("t", [record("k", "v", first + number) for number in range(10)])
    assert log.latest_times({("t", 0): (0, 100)}) == {("t", 0): 99}
    assert log.latest_times({("t", 0): (25, 26)}) == {("t", 0): 29}
    assert log.latest_times({("t", 0): (20, 30)}) == {("t", 0): 29}
    assert log.latest_times({("t", 0): (29, 31)}) == {("t", 0): 39}
    assert log.latest_times({("t", 0): (100, 200)}) == {}
    assert log.latest_times({("t", 0): (5, 5)}) == {}


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ((("trace", "abc"),), "the value of header 'trace' is str, not bytes"),
        ((("ok", b""), ("trace", 7)), "the value of header 'trace' is int, not bytes"),
        ((("trace", bytearray(b"1")),), "the value of header 'trace' is bytearray, not bytes"),
        (((b"trace", b"1"),), "the name of header b'trace' is bytes, not str"),
        (((None, b"1"),), "the name of header None is NoneType, not str"),
        ((("\ud800", b"1"),), "lone surrogate"),
        ((("trace", b"1", b"2"),), r"a header is \('trace', b'1', b'2'\), not a \(name, value\) pair"),
        (("trace",), r"a header is 'trace', not a \(name, value\) pair"),
        ({"trace": b"1"}, "the headers are dict, not a tuple"),
        ("trace", "the headers are str, not a tuple"),
    ],
)
def test_headers_of_another_type_are_refused_by_produce(log: Log, headers: Any, message: str) -> None:
    log.create_topic("t", 3)
    with pytest.raises(RecordRefusedError, match=message) as refused:
        log.produce("t", [record("a", "1"), record("b", "2", headers=headers)])
    assert "topic 't'" in refused.value.message
    assert log.ends(["t"])["t"] == [0, 0, 0]


@pytest.mark.parametrize("wrong", [array("i", [1, 2]), memoryview(array("i", [1, 2])), "text", 7])
@pytest.mark.parametrize("field", ["key", "value"])
def test_keys_and_values_of_another_type_are_refused(log: Log, field: str, wrong: Any) -> None:
    log.create_topic("t")
    right = ProducerRecord(b"key", b"value", 1)
    with pytest.raises(RecordRefusedError, match=f"topic 't': the {field} of a record is {type(wrong).__name__}"):
        log.produce("t", [right, right._replace(**{field: wrong}), right])
    assert log.ends(["t"])["t"] == [0]


@pytest.mark.parametrize("timestamp", [2**63, -(2**63) - 1, 1.0, True, "1"])
def test_timestamps_out_of_range_are_refused(log: Log, timestamp: Any) -> None:
    log.create_topic("t")
    with pytest.raises(RecordRefusedError, match="topic 't': the timestamp of a record"):
        log.produce("t", [record("a", "1", timestamp)])
    log.produce("t", [record("a", "1", 2**63 - 1)])
    assert log.read("t", 0, 0, 1)["timestamp"].to_pylist() == [2**63 - 1]
