from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st

from millstream.errors import DeserializationError, SerializationError
from millstream.serde import JSON, change

TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (("new", "old!"), b"\x01\x00\x00\x00\x03\x00\x00\x00\x04newold!"),
        (("new", None), b"\x01\x00\x00\x00\x03\xff\xff\xff\xffnew"),
        ((None, "old"), b"\x01\xff\xff\xff\xff\x00\x00\x00\x03old"),
        (("", ""), b"\x01\x00\x00\x00\x00\x00\x00\x00\x00"),
        ((None, None), b"\x01\xff\xff\xff\xff\xff\xff\xff\xff"),
    ],
)
def test_layout(value: Any, data: bytes) -> None:
    assert change(str).serialize(value) == data
    assert change(str).deserialize(data) == value


def test_none_is_null() -> None:
    assert change(str).serialize(None) is None
    assert change(str).deserialize(None) is None


@given(TEXTS, TEXTS)
def test_round_trip(new: str | None, old: str | None) -> None:
    assert change(str).deserialize(change(str).serialize((new, old))) == (new, old)


def test_description() -> None:
    assert change(int).name == "change<long>"
    assert change(int).immutable
    assert change(int).hashable
    assert not change(JSON).immutable
    assert not change(JSON).hashable


def test_equality_and_pickle() -> None:
    assert change(int) == change(int)
    assert change(int) != change(str)
    assert hash(change(int)) == hash(change(int))
    assert pickle.loads(pickle.dumps(change(JSON))) == change(JSON)


@pytest.mark.parametrize("value", ["ab", ("a",), ("a", "b", "c"), ["a", "b"]])
def test_a_value_that_is_not_a_pair_is_refused(value: Any) -> None:
    with pytest.raises(SerializationError, match="change<string> serde: cannot write") as caught:
        change(str).serialize(value)
    assert caught.value.hint == "a change is a pair (new, old)"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "expected at least 9 bytes, found 0"),
        (b"\x02" + bytes(8), "version 2 of the layout, expected 1"),
        (b"\x01\x00\x00\x00\x03\xff\xff\xff\xffne", "values of 3 and -1 bytes in 11 bytes, expected 12"),
        (b"\x01\xff\xff\xff\xff\xff\xff\xff\xff!", "values of -1 and -1 bytes in 10 bytes, expected 9"),
        (b"\x01\xff\xff\xff\xfe\xff\xff\xff\xff", "values of -2 and -1 bytes in 9 bytes, expected 9"),
    ],
)
def test_invalid_bytes_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(DeserializationError) as caught:
        change(str).deserialize(data)
    assert caught.value.message.endswith(f": {reason}")
