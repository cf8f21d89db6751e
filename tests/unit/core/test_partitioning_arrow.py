"""The partitions of many keys at once are those of each key alone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from millstream.core.partitioning import partition_for
from millstream.core.partitioning_arrow import partitions_for
from millstream.errors import ConfigError

KEYS = st.lists(st.none() | st.binary(max_size=30), max_size=60)


def expected(keys: list[bytes | None], count: int) -> list[int]:
    return [-1 if key is None else partition_for(key, count) for key in keys]


@given(KEYS, st.integers(1, 5_000))
def test_partitions_of_an_array_match_those_of_single_keys(keys: list[bytes | None], count: int) -> None:
    assert partitions_for(pa.array(keys, pa.binary()), count).tolist() == expected(keys, count)


@given(KEYS, st.integers(0, 60), st.integers(0, 60))
def test_slices_are_supported(keys: list[bytes | None], start: int, length: int) -> None:
    array = pa.array(keys, pa.binary()).slice(start, length)
    assert partitions_for(array, 7).tolist() == expected(keys, 7)[start : start + length]


@pytest.mark.parametrize("size", [0, 1, 4, 5, 70])
def test_arrays_longer_than_a_chunk_are_supported(size: int) -> None:
    keys: list[bytes | None] = [(b"%d-" % number * size)[:size] for number in range(40_000)]
    assert partitions_for(pa.array(keys, pa.binary()), 11).tolist() == expected(keys, 11)


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.string(), pa.binary(3)])
def test_other_binary_types_are_supported(kind: pa.DataType) -> None:
    assert partitions_for(pa.array([b"abc", b"xyz"]).cast(kind), 50).tolist() == expected([b"abc", b"xyz"], 50)


def test_there_is_at_least_one_partition() -> None:
    with pytest.raises(ConfigError, match="at least 1 partition"):
        partitions_for(pa.array([b"k"]), 0)
