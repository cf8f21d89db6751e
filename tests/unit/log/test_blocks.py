"""Blocks: encoding and decoding, and the detection of damage."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from millstream.core.records import UnreadableHeaders
from millstream.errors import CorruptLogError, RecordRefusedError
from millstream.log import blocks
from millstream.log.blocks import decode, decode_headers, encode, encode_batch, encode_headers, facts

BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple)
RECORDS = st.lists(st.tuples(st.integers(0, 2**63 - 1), BYTES, BYTES, HEADERS), max_size=30)


def columns(records: list[Any]) -> tuple[list[Any], ...]:
    return tuple([record[place] for record in records] for place in range(4))


@given(RECORDS)
def test_a_decoded_block_has_the_encoded_records(records: list[Any]) -> None:
    timestamps, keys, values, headers = columns(records)
    block = encode(timestamps, keys, values, headers)
    batch = decode(block.data)
    assert batch.schema == blocks.SCHEMA
    assert batch["timestamp"].to_pylist() == timestamps
    assert batch["key"].to_pylist() == keys
    assert batch["value"].to_pylist() == values
    assert [decode_headers(data) for data in batch["headers"].to_pylist()] == headers
    assert block.count == len(records)
    assert (block.min_timestamp, block.max_timestamp) == (min(timestamps, default=0), max(timestamps, default=0))


@given(RECORDS)
def test_the_first_bytes_record_null_keys_and_the_largest_record(records: list[Any]) -> None:
    timestamps, keys, values, headers = columns(records)
    sizes = [
        len(key or b"") + len(value or b"") + len(encode_headers(pairs) or b"")
        for key, value, pairs in zip(keys, values, headers, strict=True)
    ]
    assert facts(encode(timestamps, keys, values, headers).data) == (None in keys, max(sizes, default=0))


@given(RECORDS, st.data())
def test_a_flipped_bit_is_detected(records: list[Any], data: Any) -> None:
    block = bytearray(encode(*columns(records)).data)
    place = data.draw(st.integers(0, len(block) - 1))
    block[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptLogError):
        decode(bytes(block))


@given(RECORDS, st.data())
def test_a_truncated_block_is_detected(records: list[Any], data: Any) -> None:
    block = encode(*columns(records)).data
    with pytest.raises(CorruptLogError):
        decode(block[: data.draw(st.integers(0, len(block) - 1))])


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptLogError):
        decode(data)
    with pytest.raises(CorruptLogError):
        decode(b"\x01\x00\x00\x00" + data)


def test_arrow_arrays_and_slices_are_accepted() -> None:
    timestamps = pa.array([1, 2, 3, 4])
    texts = pa.array([b"a", None, b"ccc", b"d"], pa.binary())
    batch = pa.RecordBatch.from_arrays([timestamps, texts, texts, pa.nulls(4, pa.binary())], schema=blocks.SCHEMA)
    whole = encode(timestamps, texts, texts)
    assert whole == encode_batch(batch)
    part = encode_batch(batch.slice(1, 2))
    assert decode(part.data).to_pylist() == batch.slice(1, 2).to_pylist()
    assert (part.min_timestamp, part.max_timestamp, facts(part.data)) == (2, 3, (True, 6))


def test_repetitive_text_is_compressed_and_noise_is_not() -> None:
    repeated = encode([0] * 1_000, [b"key"] * 1_000, [b"the same text"] * 1_000)
    assert len(repeated.data) < 10_000
    keys, values = ([os.urandom(100) for _ in range(100)] for _ in range(2))
    assert 20_000 < len(encode([0] * 100, keys, values).data) < 23_000


def test_a_single_record_is_small() -> None:
    assert len(encode([1_700_000_000_000], [b"key"], [b"value"]).data) < 350


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([0], ["k"], [b"v"]), "the key of a record is str, not bytes"),
        (([0], [None], [7]), "the value of a record is int, not bytes"),
        (([0.5], [b"k"], [b"v"]), "the timestamp of a record is float, not int"),
        (([None], [b"k"], [b"v"]), "the timestamp of a record is NoneType, not int"),
        (([2**63], [b"k"], [b"v"]), "the timestamp of a record has more than 64 bits"),
        (([0, 1], [b"k"], [b"v"]), "the columns are not valid records"),
        ((pa.array([0, None]), [b"k", b"k"], [b"v", b"v"]), "a record has no timestamp"),
    ],
)
def test_invalid_columns_are_refused(given: Any, message: str) -> None:
    with pytest.raises(RecordRefusedError, match=message):
        encode(*given)


def test_a_batch_with_other_columns_is_refused() -> None:
    with pytest.raises(RecordRefusedError, match="a block has the columns"):
        encode_batch(pa.record_batch({"a": pa.array([1])}))


@pytest.mark.parametrize("data", [b"\xc1", b"", b"\x91\x92\xa1\xff\xc0", encode_headers((("trace", "abc"),))])  # type: ignore[arg-type]
def test_unreadable_headers_contain_the_reason(data: bytes) -> None:
    headers = decode_headers(data)
    assert isinstance(headers, UnreadableHeaders)
    assert not headers
    assert headers.reason
