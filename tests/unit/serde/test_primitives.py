from __future__ import annotations

import copy
import enum
import math
import pickle
import struct
import uuid
from typing import Any

import pytest
from hypothesis import given, strategies as st

from millstream.errors import DeserializationError, SerializationError
from millstream.serde import BOOLEAN, BYTES, DOUBLE, FLOAT, INT, LONG, SHORT, STRING, UUID, VOID, Serde

ALL: list[Serde[Any]] = [STRING, LONG, INT, SHORT, FLOAT, DOUBLE, BOOLEAN, BYTES, UUID, VOID]

SAMPLE_UUID = uuid.UUID("123E4567-e89b-12d3-a456-426614174000")

# The bytes of Kafka's Java serializers.
JAVA: list[tuple[Serde[Any], Any, bytes]] = [
    (STRING, "", b""),
    (STRING, "abc", b"abc"),
    (STRING, "é€😀", b"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
    (STRING, "\0", b"\x00"),
    (LONG, 0, b"\x00\x00\x00\x00\x00\x00\x00\x00"),
    (LONG, 1, b"\x00\x00\x00\x00\x00\x00\x00\x01"),
    (LONG, -1, b"\xff\xff\xff\xff\xff\xff\xff\xff"),
    (LONG, 2**63 - 1, b"\x7f\xff\xff\xff\xff\xff\xff\xff"),
    (LONG, -(2**63), b"\x80\x00\x00\x00\x00\x00\x00\x00"),
    (INT, 1, b"\x00\x00\x00\x01"),
    (INT, 423412424, b"\x19\x3c\xc2\xc8"),
    (INT, -2, b"\xff\xff\xff\xfe"),
    (SHORT, 32767, b"\x7f\xff"),
    (SHORT, -32768, b"\x80\x00"),
    (FLOAT, 1.0, b"\x3f\x80\x00\x00"),
    (FLOAT, -0.5, b"\xbf\x00\x00\x00"),
    (FLOAT, math.inf, b"\x7f\x80\x00\x00"),
    (DOUBLE, 1.0, b"\x3f\xf0\x00\x00\x00\x00\x00\x00"),
    (DOUBLE, -0.0, b"\x80\x00\x00\x00\x00\x00\x00\x00"),
    (DOUBLE, 0.1, b"\x3f\xb9\x99\x99\x99\x99\x99\x9a"),
    (DOUBLE, -math.inf, b"\xff\xf0\x00\x00\x00\x00\x00\x00"),
    (BOOLEAN, True, b"\x01"),
    (BOOLEAN, False, b"\x00"),
    (BYTES, b"", b""),
    (BYTES, b"\x00\xff", b"\x00\xff"),
    (UUID, SAMPLE_UUID, b"123e4567-e89b-12d3-a456-426614174000"),
]


class Colour(enum.StrEnum):
    RED = "red"


class Size(enum.IntEnum):
    SMALL = 1


class Indexed:
    """An integer type like numpy's."""

    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize(("serde", "value", "data"), JAVA)
def test_bytes_are_those_of_java(serde: Serde[Any], value: Any, data: Any) -> None:
    assert serde.serialize(value) == data
    back = serde.deserialize(data)
    assert back == value
    assert type(back) is type(value)
    from_spark: Any = bytearray(data)
    assert serde.deserialize(from_spark) == value
    assert type(serde.deserialize(from_spark)) is type(value)


@pytest.mark.parametrize("serde", ALL)
def test_none_is_null(serde: Serde[Any]) -> None:
    assert serde.serialize(None) is None
    assert serde.deserialize(None) is None


@pytest.mark.parametrize("serde", ALL)
def test_each_serde_has_a_single_instance(serde: Serde[Any]) -> None:
    assert pickle.loads(pickle.dumps(serde)) is serde
    assert copy.deepcopy(serde) is serde
    assert repr(serde) == f"<{serde.name} serde>"


def test_names_and_types() -> None:
    assert {serde.name: serde.python_type for serde in ALL} == {
        "string": str,
        "long": int,
        "int": int,
        "short": int,
        "float": float,
        "double": float,
        "boolean": bool,
        "bytes": bytes,
        "uuid": uuid.UUID,
        "void": None,
    }


def test_stores_keep_only_floats_as_bytes() -> None:
    assert [serde for serde in ALL if not serde.immutable] == [FLOAT, DOUBLE]
    assert [serde for serde in ALL if not serde.hashable] == [FLOAT, DOUBLE]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_string_round_trip(value: str) -> None:
    assert STRING.deserialize(STRING.serialize(value)) == value


@given(st.integers(-(2**63), 2**63 - 1))
def test_long_round_trip(value: int) -> None:
    assert LONG.deserialize(LONG.serialize(value)) == value


@given(st.integers(-(2**31), 2**31 - 1))
def test_int_round_trip(value: int) -> None:
    assert INT.deserialize(INT.serialize(value)) == value


@given(st.integers(-(2**15), 2**15 - 1))
def test_short_round_trip(value: int) -> None:
    assert SHORT.deserialize(SHORT.serialize(value)) == value


@given(st.floats(allow_nan=False))
def test_double_round_trip(value: float) -> None:
    back = DOUBLE.deserialize(DOUBLE.serialize(value))
    assert back is not None
    assert struct.pack(">d", back) == struct.pack(">d", value)


@given(st.floats(allow_nan=False, width=32))
def test_float_round_trip(value: float) -> None:
    assert FLOAT.deserialize(FLOAT.serialize(value)) == value


@given(st.binary())
def test_bytes_round_trip(value: bytes) -> None:
    assert BYTES.deserialize(BYTES.serialize(value)) == value


@given(st.uuids())
def test_uuid_round_trip(value: uuid.UUID) -> None:
    assert UUID.deserialize(UUID.serialize(value)) == value


@given(
    st.one_of(
        st.tuples(st.just(STRING), st.text(max_size=2), st.text(max_size=2)),
        st.tuples(st.just(LONG), st.integers(-3, 3), st.integers(-3, 3)),
        st.tuples(st.just(BOOLEAN), st.booleans(), st.booleans()),
        st.tuples(st.just(BYTES), st.binary(max_size=1), st.binary(max_size=1)),
        st.tuples(st.just(UUID), st.uuids(), st.uuids()),
    )
)
def test_hashable_values_are_equal_exactly_when_their_bytes_are(sample: tuple[Serde[Any], Any, Any]) -> None:
    serde, left, right = sample
    assert (left == right) == (serde.serialize(left) == serde.serialize(right))
    assert hash(left) == hash(serde.deserialize(serde.serialize(left)))


def test_negative_numbers_come_last_in_the_order_of_bytes() -> None:
    numbers = [-(2**63), -2, -1, 0, 1, 2, 2**63 - 1]
    in_order = sorted(numbers, key=lambda number: LONG.serialize(number) or b"")
    assert in_order == [0, 1, 2, 2**63 - 1, -(2**63), -2, -1]


def test_strings_have_the_byte_order_of_their_code_points() -> None:
    words = ["", "a", "aa", "b", "é", "€", "\uffff", "😀"]
    assert sorted(words, key=lambda word: STRING.serialize(word) or b"") == words


def test_doubles_have_a_single_nan_but_floats_keep_their_bits() -> None:
    negative_nan = struct.unpack(">d", b"\xff\xf8\x00\x00\x00\x00\x00\x01")[0]
    assert DOUBLE.serialize(negative_nan) == b"\x7f\xf8\x00\x00\x00\x00\x00\x00"
    assert DOUBLE.serialize(math.nan) == b"\x7f\xf8\x00\x00\x00\x00\x00\x00"
    assert FLOAT.serialize(math.nan) == b"\x7f\xc0\x00\x00"
    assert FLOAT.serialize(-math.nan) == b"\xff\xc0\x00\x00"
    assert math.isnan(DOUBLE.deserialize(DOUBLE.serialize(math.nan)) or 0)


def test_floats_accept_integers_and_round() -> None:
    assert DOUBLE.serialize(3) == DOUBLE.serialize(3.0)
    assert type(DOUBLE.deserialize(DOUBLE.serialize(3))) is float
    assert FLOAT.deserialize(FLOAT.serialize(0.1)) == 0.10000000149011612


def test_uuid_is_read_in_upper_and_lower_case() -> None:
    assert UUID.deserialize(str(SAMPLE_UUID).upper().encode()) == SAMPLE_UUID


@pytest.mark.parametrize(
    ("serde", "value", "message"),
    [
        (STRING, 5, "string serde: cannot write 5 (int)"),
        (STRING, b"x", "string serde: cannot write b'x' (bytes)"),
        (STRING, Colour.RED, "string serde: cannot write <Colour.RED: 'red'> (Colour)"),
        (LONG, "x", "long serde: cannot write 'x' (str)"),
        (LONG, 1.0, "long serde: cannot write 1.0 (float)"),
        (LONG, True, "long serde: cannot write True (bool)"),
        (LONG, Size.SMALL, "long serde: cannot write <Size.SMALL: 1> (Size)"),
        (LONG, 2**63, "long serde: cannot write 9223372036854775808 (int): outside -2**63 … 2**63 - 1"),
        (LONG, -(2**63) - 1, "long serde: cannot write -9223372036854775809 (int): outside -2**63 … 2**63 - 1"),
        (INT, 2**31, "int serde: cannot write 2147483648 (int): outside -2**31 … 2**31 - 1"),
        (SHORT, 2**15, "short serde: cannot write 32768 (int): outside -2**15 … 2**15 - 1"),
        (FLOAT, 1e300, "float serde: cannot write 1e+300 (float): too large for 32 bits"),
        (DOUBLE, "1", "double serde: cannot write '1' (str)"),
        (DOUBLE, True, "double serde: cannot write True (bool)"),
        (BOOLEAN, 1, "boolean serde: cannot write 1 (int)"),
        (BYTES, "x", "bytes serde: cannot write 'x' (str)"),
        (BYTES, bytearray(b"x"), "bytes serde: cannot write bytearray(b'x') (bytearray)"),
        (UUID, "x", "uuid serde: cannot write 'x' (str)"),
        (VOID, 0, "void serde: cannot write 0 (int)"),
    ],
)
def test_unsupported_values_are_refused(serde: Serde[Any], value: Any, message: str) -> None:
    with pytest.raises(SerializationError) as caught:
        serde.serialize(value)
    assert caught.value.message == message
    assert caught.value.hint


def test_errors_have_a_remedy() -> None:
    def hint(serde: Serde[Any], value: Any) -> str | None:
        with pytest.raises(SerializationError) as caught:
            serde.serialize(value)
        return caught.value.hint

    assert hint(LONG, "x") == "give the operator a serde for this type, e.g. value=str"
    assert hint(LONG, True) == "convert it first: int(value)"
    assert hint(LONG, Indexed()) == "convert it first: int(value)"
    assert hint(STRING, Colour.RED) == "convert it first, e.g. str(value) or, for an enum, value.value"
    assert hint(BYTES, bytearray()) == "convert it first: bytes(value)"
    assert hint(UUID, str(SAMPLE_UUID)) == "convert it first: uuid.UUID(value)"
    assert hint(SHORT, 40_000) == "value=int has 8 bytes"


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(SerializationError, match="not valid Unicode, surrogates not allowed"):
        STRING.serialize("a\ud800")


def test_a_number_too_large_for_a_double_is_refused() -> None:
    with pytest.raises(SerializationError, match="too large for 64 bits"):
        DOUBLE.serialize(10**400)


def test_a_number_too_long_to_print_is_not_printed() -> None:
    with pytest.raises(SerializationError, match="outside"):
        LONG.serialize(10**10_000)


@pytest.mark.parametrize(
    ("serde", "data", "reason"),
    [
        (LONG, b"", "expected 8 bytes, found 0"),
        (LONG, b"abc", "expected 8 bytes, found 3"),
        (LONG, bytes(9), "expected 8 bytes, found 9"),
        (INT, bytes(8), "expected 4 bytes, found 8"),
        (SHORT, bytes(1), "expected 2 bytes, found 1"),
        (FLOAT, bytes(8), "expected 4 bytes, found 8"),
        (DOUBLE, bytes(4), "expected 8 bytes, found 4"),
        (BOOLEAN, b"", "expected 1 byte, found 0"),
        (BOOLEAN, b"\x01\x01", "expected 1 byte, found 2"),
        (BOOLEAN, b"\x02", "expected 0x00 or 0x01"),
        (UUID, b"abc", "expected 36 bytes, found 3"),
        (UUID, b"{123e4567-e89b-12d3-a456-42661417400}", "expected 36 bytes, found 37"),
        (UUID, b"123e4567_e89b-12d3-a456-426614174000", "expected hexadecimal digits in groups of 8-4-4-4-12"),
        (STRING, b"ab\xff", "not UTF-8, invalid start byte at byte 2"),
        (VOID, b"", "expected null"),
        (LONG, "text", "expected bytes, found str"),
    ],
)
def test_invalid_bytes_are_refused(serde: Serde[Any], data: Any, reason: str) -> None:
    with pytest.raises(DeserializationError) as caught:
        serde.deserialize(data)
    assert caught.value.message.startswith(f"{serde.name} serde: cannot read ")
    assert caught.value.message.endswith(f": {reason}")
    assert caught.value.hint == "was the topic written with another serde?"


@pytest.mark.parametrize(
    "error",
    [
        (STRING.serialize, list(range(100_000))),
        (LONG.serialize, "x" * 100_000),
        (LONG.serialize, {"k": "x" * 100_000}),
        (STRING.deserialize, b"\xff" * 100_000),
        (LONG.deserialize, b"secret " * 100_000),
    ],
)
def test_messages_do_not_contain_whole_payloads(error: Any) -> None:
    call, argument = error
    with pytest.raises((SerializationError, DeserializationError)) as caught:
        call(argument)
    assert len(str(caught.value)) < 250
    assert "…" in caught.value.message or "..." in caught.value.message


# --- several values at once -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("serde", [STRING, LONG, INT, BOOLEAN, DOUBLE, BYTES], ids=lambda serde: serde.name)
def test_many_values_at_once_are_the_same_as_one_by_one(serde: Serde[Any]) -> None:
    values = [value for own, value, _ in JAVA if own is serde]
    written = [serde.serialize(value) for value in values]
    assert serde.serialize_all(values) == written
    assert serde.deserialize_all(written) == [serde.deserialize(data) for data in written]
    assert serde.serialize_all([*values, None]) == [*written, None]
    assert serde.deserialize_all([*written, None])[-1] is None
    assert serde.serialize_all([]) == serde.deserialize_all([]) == []


@pytest.mark.parametrize(
    ("serde", "wrong"),
    [
        (STRING, Colour.RED),
        (LONG, Size.SMALL),
        (STRING, "\ud800"),
        (STRING, 1),
        (LONG, True),
        (LONG, 2**63),
        (LONG, "1"),
        (INT, 2**31),
    ],
    ids=repr,
)
def test_an_unsupported_value_among_many_is_refused(serde: Serde[Any], wrong: Any) -> None:
    right = "a" if serde is STRING else 1
    with pytest.raises(SerializationError):
        serde.serialize_all([right, wrong, right])


@pytest.mark.parametrize(("serde", "wrong"), [(STRING, b"\xff"), (LONG, b"1"), (INT, b"12345678")], ids=repr)
def test_invalid_bytes_among_many_are_refused(serde: Serde[Any], wrong: bytes) -> None:
    with pytest.raises(DeserializationError):
        serde.deserialize_all([serde.serialize("a" if serde is STRING else 1), wrong])
