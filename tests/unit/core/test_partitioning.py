from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from millstream.core.partitioning import murmur2, partition_for, to_positive
from millstream.errors import ConfigError

# Kafka's UtilsTest.testMurmur2.
KAFKA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}

# librdkafka's unit test of its murmur2, whose numbers are unsigned.
LIBRDKAFKA = {
    b"kafka": 0xD067CF64,
    b"giberish123456789": 0x8F552B0C,
    b"1234": 0x9FC97B14,
    b"234": 0xE7C009CA,
    b"34": 0x873930DA,
    b"4": 0x5A4B5CA1,
    b"": 0x106E08D9,
}


def java_murmur2(data: bytes) -> int:
    """The algorithm step by step, with each intermediate result truncated to 32 bits."""

    def int32(number: int) -> int:
        return (number + 2**31) % 2**32 - 2**31

    def shift_right_unsigned(number: int, bits: int) -> int:
        return int32((number % 2**32) >> bits)

    m = 0x5BD1E995
    h = int32(0x9747B28C ^ len(data))
    whole = len(data) // 4 * 4
    for index in range(0, whole, 4):
        k = int32(int.from_bytes(data[index : index + 4], "little"))
        k = int32(k * m)
        k ^= shift_right_unsigned(k, 24)
        k = int32(k * m)
        h = int32(h * m)
        h ^= k
    tail = data[whole:]
    if len(tail) > 2:
        h ^= tail[2] << 16
    if len(tail) > 1:
        h ^= tail[1] << 8
    if tail:
        h ^= tail[0]
        h = int32(h * m)
    h ^= shift_right_unsigned(h, 13)
    h = int32(h * m)
    return h ^ shift_right_unsigned(h, 15)


@pytest.mark.parametrize(("data", "expected"), KAFKA.items())
def test_murmur2_matches_kafka(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected


@pytest.mark.parametrize(("data", "expected"), LIBRDKAFKA.items())
def test_murmur2_matches_librdkafka(data: bytes, expected: int) -> None:
    assert murmur2(data) % 2**32 == expected


@given(st.binary(max_size=200))
def test_murmur2_matches_the_reference_algorithm(data: bytes) -> None:
    assert murmur2(data) == java_murmur2(data)


@pytest.mark.parametrize("length", [63, 64, 65, 66, 67, 68, 69, 71, 72, 1000, 100_003])
def test_murmur2_of_long_data(length: int) -> None:
    data = bytes(index * 7 % 251 for index in range(length))
    assert murmur2(data) == java_murmur2(data)


def test_murmur2_accepts_the_byte_types_of_spark() -> None:
    for data in (b"foobar", b"x" * 99):
        from_spark: Any = bytearray(data)
        assert murmur2(from_spark) == murmur2(data)


def test_to_positive_drops_the_sign_bit_and_is_not_the_absolute_value() -> None:
    assert to_positive(0) == 0
    assert to_positive(2**31 - 1) == 2**31 - 1
    assert to_positive(-1) == 2**31 - 1
    assert to_positive(-(2**31)) == 0


@pytest.mark.parametrize(("data", "hashed"), KAFKA.items())
@pytest.mark.parametrize("partitions", [1, 2, 12, 50, 1000])
def test_partitions_match_kafkas_producer(data: bytes, hashed: int, partitions: int) -> None:
    assert partition_for(data, partitions) == (hashed & 0x7FFFFFFF) % partitions


@given(st.binary(), st.integers(1, 10_000))
def test_partition_is_in_range(key: bytes, partitions: int) -> None:
    assert 0 <= partition_for(key, partitions) < partitions


def test_null_key_belongs_to_partition_0() -> None:
    assert partition_for(None, 12) == 0


@pytest.mark.parametrize("partitions", [0, -3])
@pytest.mark.parametrize("key", [b"k", None])
def test_no_partitions_is_an_error(key: bytes | None, partitions: int) -> None:
    with pytest.raises(ConfigError, match="at least 1 partition"):
        partition_for(key, partitions)
