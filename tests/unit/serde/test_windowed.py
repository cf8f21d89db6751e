from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st

from millstream.core.records import Windowed
from millstream.errors import ConfigError, DeserializationError, SerializationError
from millstream.serde import DOUBLE, JSON, STRING, session_windowed, time_windowed
from millstream.serde.key_layouts import (
    session_key,
    split_session_key,
    split_store_window_key,
    split_window_key,
    store_window_key,
    window_key,
)

MAX = 2**63 - 1
LONGS = st.integers(-(2**63), MAX)
STARTS = st.integers(0, MAX)


def test_time_windowed_key_is_key_and_start() -> None:
    serde = time_windowed(str, 60_000)
    data = b"be\x00\x00\x00\x00\x00\x00\xea\x60"
    assert serde.serialize(Windowed("be", 60_000, 120_000)) == data
    assert serde.deserialize(data) == Windowed("be", 60_000, 120_000)


def test_sliding_windows_end_their_time_difference_after_the_start() -> None:
    assert time_windowed(str, 10).deserialize(b"k" + bytes(8)) == Windowed("k", 0, 10)


def test_session_windowed_key_is_key_and_end_and_start() -> None:
    serde = session_windowed(int)
    data = b"\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01"
    assert serde.serialize(Windowed(7, 1, 2)) == data
    assert serde.deserialize(data) == Windowed(7, 1, 2)


@pytest.mark.parametrize("serde", [time_windowed(str, 5), time_windowed(str, None), session_windowed(str)])
def test_none_is_null(serde: Any) -> None:
    assert serde.serialize(None) is None
    assert serde.deserialize(None) is None


def test_without_a_size_the_end_is_the_end_of_time() -> None:
    serde = time_windowed(str, None)
    data = serde.serialize(Windowed("k", 5, 10))
    assert serde.deserialize(data) == Windowed("k", 5, MAX)


def test_an_end_past_the_end_of_time_is_the_end_of_time() -> None:
    serde = time_windowed(str, 100)
    key = Windowed("k", MAX - 1, MAX)
    assert serde.deserialize(serde.serialize(key)) == key


def test_unlimited_windows() -> None:
    serde = time_windowed(str, MAX)
    assert serde.deserialize(serde.serialize(Windowed("k", 5, MAX))) == Windowed("k", 5, MAX)
    assert serde.hashable


@given(st.text(st.characters(exclude_categories=["Cs"])), STARTS, st.integers(0, 10**9))
def test_time_round_trip(key: str, start: int, size: int) -> None:
    value = Windowed(key, start, min(start + size, MAX))
    serde = time_windowed(STRING, size)
    assert serde.deserialize(serde.serialize(value)) == value


@given(st.text(st.characters(exclude_categories=["Cs"])), STARTS, STARTS)
def test_session_round_trip(key: str, first: int, second: int) -> None:
    value = Windowed(key, min(first, second), max(first, second))
    serde = session_windowed(STRING)
    assert serde.deserialize(serde.serialize(value)) == value


def test_windows_of_one_key_are_in_the_order_of_their_starts() -> None:
    serde = time_windowed(int, 10)
    keys = [Windowed(1, start, start + 10) for start in (0, 9, 255, 256, 2**40)]
    assert sorted(keys, key=lambda key: serde.serialize(key) or b"") == keys


def test_description() -> None:
    assert time_windowed(str, 5).name == "time-windowed<string>"
    assert session_windowed(int).name == "session-windowed<long>"
    assert time_windowed(str, 5).python_type == Windowed[str]
    assert session_windowed(int).python_type == Windowed[int]


def test_a_windowed_serde_has_the_properties_of_its_key_serde() -> None:
    assert time_windowed(str, 5).hashable
    assert time_windowed(str, 5).immutable
    assert session_windowed(str).hashable
    assert session_windowed(str).immutable
    for serde in (time_windowed(JSON, 5), session_windowed(DOUBLE), time_windowed(str, None)):
        assert not serde.hashable
        assert not serde.immutable


def test_equality_and_pickle() -> None:
    assert time_windowed(str, 5) == time_windowed(STRING, 5)
    assert time_windowed(str, 5) != time_windowed(str, 6)
    assert time_windowed(str, 5) != time_windowed(int, 5)
    assert session_windowed(str) == session_windowed(str)
    assert session_windowed(str) != time_windowed(str, 5)
    assert len({time_windowed(str, 5), time_windowed(str, 5), session_windowed(str)}) == 2
    for serde in (time_windowed(str, 5), session_windowed(JSON)):
        assert pickle.loads(pickle.dumps(serde)) == serde


@pytest.mark.parametrize("size", [-1, 1.5, True, "5m"])
def test_an_invalid_size_is_refused(size: Any) -> None:
    with pytest.raises(ConfigError, match="is not a size of windows"):
        time_windowed(str, size)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("k", r"cannot write 'k' \(str\)"),
        (("k", 0, 5), "cannot write"),
        (Windowed("k", 0, 6), "its window is not of 5 ms"),
        (Windowed("k", -5, 0), "a window starts at 0 or later"),
        (Windowed(None, 0, 5), "its key is None"),
        (Windowed(1, 0, 5), r"string serde: cannot write 1 \(int\)"),
    ],
)
def test_unsupported_values_are_refused(value: Any, reason: str) -> None:
    with pytest.raises(SerializationError, match=reason):
        time_windowed(str, 5).serialize(value)


def test_a_session_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(SerializationError, match="does not end before it starts"):
        session_windowed(str).serialize(Windowed("k", 5, 4))
    with pytest.raises(DeserializationError, match="the window would be from 5 to 4"):
        session_windowed(str).deserialize(session_key(b"k", 5, 4))


def test_invalid_bytes_are_refused() -> None:
    with pytest.raises(DeserializationError, match="expected at least 8 bytes, found 3"):
        time_windowed(str, 5).deserialize(b"abc")
    with pytest.raises(DeserializationError, match="expected at least 16 bytes, found 8"):
        session_windowed(str).deserialize(bytes(8))
    with pytest.raises(DeserializationError, match="the window would start at -1"):
        time_windowed(str, 5).deserialize(b"k" + b"\xff" * 8)


def test_a_store_window_key_is_key_start_and_sequence() -> None:
    data = b"key\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x02"
    assert store_window_key(b"key", 256, 2) == data
    assert split_store_window_key(data) == (b"key", 256, 2)
    assert store_window_key(b"key", 256) == store_window_key(b"key", 256, 0)


@given(st.binary(), LONGS, LONGS, st.integers(-(2**31), 2**31 - 1))
def test_key_layouts_round_trip(data: bytes, start: int, end: int, sequence: int) -> None:
    assert split_window_key(window_key(data, start)) == (data, start)
    assert split_session_key(session_key(data, start, end)) == (data, start, end)
    assert split_store_window_key(store_window_key(data, start, sequence)) == (data, start, sequence)


@pytest.mark.parametrize(
    ("split", "least"), [(split_window_key, 8), (split_session_key, 16), (split_store_window_key, 12)]
)
def test_a_key_that_is_too_short_is_refused(split: Any, least: int) -> None:
    split(bytes(least))
    with pytest.raises(DeserializationError, match=f"expected at least {least} bytes, found {least - 1}"):
        split(bytes(least - 1))


def test_a_number_that_does_not_fit_its_field_is_refused() -> None:
    too_large = pytest.raises(SerializationError, match="not an integer of the size of its field")
    with too_large:
        window_key(b"", 2**63)
    with too_large:
        session_key(b"", 0, 2**63)
    with too_large:
        store_window_key(b"", 0, 2**31)
