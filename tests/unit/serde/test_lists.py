from __future__ import annotations

import pickle
import uuid
from typing import Any

import pytest
from hypothesis import given, strategies as st

from millstream.errors import DeserializationError, SerializationError
from millstream.serde import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT,
    JSON,
    LONG,
    SHORT,
    STRING,
    UUID,
    Serde,
    list_of,
)

ZERO = "00000000-0000-0000-0000-000000000000"

# Derived by hand from Kafka's ListSerializer: the strategy has one byte, all other numbers have four.
JAVA: list[tuple[Serde[Any], list[Any], bytes]] = [
    (INT, [], b"\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
    (
        INT,
        [1, 2, 3],
        b"\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03",
    ),
    (
        SHORT,
        [None, 5, None],
        b"\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x03\x00\x05",
    ),
    (LONG, [-1], b"\x00\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff"),
    (LONG, [None], b"\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01"),
    (FLOAT, [1.0], b"\x00\x00\x00\x00\x00\x00\x00\x00\x01\x3f\x80\x00\x00"),
    (DOUBLE, [1.0], b"\x00\x00\x00\x00\x00\x00\x00\x00\x01\x3f\xf0\x00\x00\x00\x00\x00\x00"),
    (UUID, [uuid.UUID(ZERO)], b"\x00\x00\x00\x00\x00\x00\x00\x00\x01" + ZERO.encode()),
    (STRING, [], b"\x01\x00\x00\x00\x00"),
    (
        STRING,
        ["A", None, "", "Bc"],
        b"\x01\x00\x00\x00\x04\x00\x00\x00\x01A\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x02Bc",
    ),
    (BOOLEAN, [True], b"\x01\x00\x00\x00\x01\x00\x00\x00\x01\x01"),
    (BYTES, [b"\x00"], b"\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00"),
]


@pytest.mark.parametrize(("inner", "value", "data"), JAVA)
def test_bytes_are_those_of_java(inner: Serde[Any], value: list[Any], data: bytes) -> None:
    serde = list_of(inner)
    assert serde.serialize(value) == data
    assert serde.deserialize(data) == value


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_round_trip_of_fixed_size(value: list[int | None]) -> None:
    assert list_of(LONG).deserialize(list_of(LONG).serialize(value)) == value


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]))))
def test_round_trip_of_variable_size(value: list[str | None]) -> None:
    assert list_of(STRING).deserialize(list_of(STRING).serialize(value)) == value


@given(st.lists(st.none() | st.lists(st.none() | st.integers(-9, 9))))
def test_round_trip_of_lists_in_lists(value: list[list[int | None] | None]) -> None:
    serde = list_of(list_of(SHORT))
    assert serde.deserialize(serde.serialize(value)) == value


def test_none_is_null() -> None:
    assert list_of(LONG).serialize(None) is None
    assert list_of(LONG).deserialize(None) is None


def test_entries_of_a_fixed_size_can_be_read_with_sizes() -> None:
    data = b"\x01\x00\x00\x00\x02\x00\x00\x00\x02\x00\x07\xff\xff\xff\xff"
    assert list_of(SHORT).deserialize(data) == [7, None]


def test_a_tuple_is_deserialized_as_a_list() -> None:
    assert list_of(LONG).deserialize(list_of(LONG).serialize((1, 2))) == [1, 2]  # type: ignore[arg-type]


def test_description() -> None:
    serde = list_of(int)
    assert serde.name == "list<long>"
    assert serde.python_type == list[int]
    assert not serde.immutable
    assert not serde.hashable
    assert list_of(list_of(str)).name == "list<list<string>>"


def test_equality_and_pickle() -> None:
    assert list_of(int) == list_of(LONG)
    assert list_of(int) != list_of(str)
    assert hash(list_of(int)) == hash(list_of(int))
    assert pickle.loads(pickle.dumps(list_of(JSON))) == list_of(JSON)
    assert pickle.loads(pickle.dumps(list_of(UUID))).serialize([]) == bytes(9)


@pytest.mark.parametrize("value", ["ab", 5, {1: 2}, {1, 2}])
def test_a_value_that_is_not_a_list_is_refused(value: Any) -> None:
    with pytest.raises(SerializationError, match=r"list<string> serde: cannot write"):
        list_of(str).serialize(value)


def test_an_entry_that_its_serde_does_not_support_is_refused() -> None:
    with pytest.raises(SerializationError, match="long serde: cannot write 'x'"):
        list_of(int).serialize([1, "x"])


@pytest.mark.parametrize(
    ("inner", "data", "reason"),
    [
        (INT, b"", "it ends too early, after 0 bytes"),
        (INT, b"\x00\x00", "it ends too early, after 2 bytes"),
        (INT, b"\x02", "it begins with 0x02, expected 0x00 or 0x01"),
        (INT, b"\x00" + bytes(4) + b"\x00\x00\x00\x02" + bytes(4), "2 entries should end at byte 17, found 13 bytes"),
        (INT, bytes(9) + b"!", "0 entries should end at byte 9, found 10 bytes"),
        (INT, b"\x00\xff\xff\xff\xff" + bytes(4), "-1 nulls in 0 entries"),
        (INT, b"\x00\x7f\xff\xff\xff" + bytes(4), "it ends too early, after 9 bytes"),
        (INT, b"\x00\x00\x00\x00\x01\x00\x00\x00\x07\x00\x00\x00\x01", "1 nulls in 1 entries"),
        (INT, b"\x00" + bytes(4) + b"\xff\xff\xff\xff", "-1 entries should end at byte 5, found 9 bytes"),
        (STRING, bytes(9), "its entries were written without their sizes"),
        (STRING, b"\x01\x00\x00\x00\x01", "it ends too early, after 5 bytes"),
        (STRING, b"\x01\x00\x00\x00\x01\x00\x00\x00\x05ab", "an entry of 5 bytes at byte 9, but 2 are left"),
        (STRING, b"\x01\x00\x00\x00\x01\xff\xff\xff\xfe", "an entry of -2 bytes at byte 9, but 0 are left"),
        (STRING, b"\x01\x00\x00\x00\x00!", "0 entries should end at byte 5, found 6 bytes"),
        (STRING, b"\x01\xff\xff\xff\xff", "-1 entries should end at byte 5, found 5 bytes"),
    ],
)
def test_invalid_bytes_are_refused(inner: Serde[Any], data: bytes, reason: str) -> None:
    with pytest.raises(DeserializationError) as caught:
        list_of(inner).deserialize(data)
    assert caught.value.message.endswith(f": {reason}")


@given(st.binary(max_size=40))
def test_any_bytes_are_a_list_or_a_deserialization_error(data: bytes) -> None:
    for serde in (list_of(SHORT), list_of(BYTES)):
        try:
            assert isinstance(serde.deserialize(data), list)
        except DeserializationError:
            pass
