from __future__ import annotations

import enum
import math
import pickle
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple, TypedDict

import msgspec
import pytest
from hypothesis import given, strategies as st

from millstream.errors import ConfigError, DeserializationError, SerializationError
from millstream.serde import JSON, Serde, json_of


@dataclass(frozen=True)
class Line:
    sku: str
    quantity: int = 1


@dataclass
class Order:
    id: str
    lines: list[Line] = field(default_factory=list)
    note: str | None = None


class Customer(TypedDict):
    name: str
    age: int


class Point(NamedTuple):
    x: int
    y: int


class Payment(msgspec.Struct):
    amount: float
    at: datetime


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Picky:
    name: str

    def __post_init__(self) -> None:
        raise KeyError(self.name)


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


def test_json_is_compact_utf8() -> None:
    assert JSON.serialize({"name": "Zoë", "tags": [1, 2.5, True, None]}) == (
        b'{"name":"Zo\xc3\xab","tags":[1,2.5,true,null]}'
    )


def test_none_is_a_null_value_and_not_json_null() -> None:
    assert JSON.serialize(None) is None
    assert JSON.deserialize(None) is None
    assert json_of(Order).deserialize(None) is None
    assert JSON.deserialize(b"null") is None


@given(PLAIN)
def test_plain_round_trip(value: Any) -> None:
    assert JSON.deserialize(JSON.serialize(value)) == value


def test_keys_keep_their_order() -> None:
    assert JSON.serialize({"b": 1, "a": 2}) == b'{"b":1,"a":2}'


@pytest.mark.parametrize(
    ("python_type", "value", "data"),
    [
        (Order, Order("o1", [Line("s", 2)]), b'{"id":"o1","lines":[{"sku":"s","quantity":2}],"note":null}'),
        (Customer, {"name": "Ann", "age": 40}, b'{"name":"Ann","age":40}'),
        (Point, Point(1, 2), b"[1,2]"),
        (
            Payment,
            Payment(9.5, datetime(2024, 1, 2, tzinfo=UTC)),
            b'{"amount":9.5,"at":"2024-01-02T00:00:00Z"}',
        ),
        (list[int], [1, 2], b"[1,2]"),
        (dict[str, Line], {"a": Line("s")}, b'{"a":{"sku":"s","quantity":1}}'),
        (dict[int, str], {1: "a"}, b'{"1":"a"}'),
        (Colour, Colour.RED, b'"red"'),
        (int | str, "x", b'"x"'),
        (tuple[int, str], (1, "a"), b'[1,"a"]'),
        (set[int], {7}, b"[7]"),
    ],
)
def test_typed_round_trip(python_type: Any, value: Any, data: bytes) -> None:
    serde = json_of(python_type)
    assert serde.serialize(value) == data
    back = serde.deserialize(data)
    assert back == value
    assert type(back) is type(value)
    assert serde.name == "json"
    assert serde.python_type == python_type


def test_missing_fields_have_defaults_and_unknown_fields_are_ignored() -> None:
    assert json_of(Order).deserialize(b'{"id":"o1","colour":"red"}') == Order("o1")


def test_json_without_a_type_is_a_single_serde() -> None:
    assert json_of(object) is JSON
    assert json_of(Any) is JSON


def test_equality_and_pickle() -> None:
    orders: Serde[Any] = json_of(Order)
    assert orders == json_of(Order)
    assert orders != json_of(Line)
    assert json_of(Order) != JSON
    assert hash(json_of(Order)) == hash(json_of(Order))
    assert hash(json_of(Annotated[int, []])) == hash(JSON)
    used = json_of(Order)
    used.serialize(Order("o1"))
    again = pickle.loads(pickle.dumps(used))
    assert again == used
    assert again.deserialize(b'{"id":"o1"}') == Order("o1")
    assert pickle.loads(pickle.dumps(JSON)) is JSON


def test_stores_keep_values_as_bytes() -> None:
    assert not JSON.immutable
    assert not JSON.hashable


class Opaque:
    pass


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (Opaque(), "Encoding objects of type Opaque is unsupported"),
        ({"deep": [1j]}, "Encoding objects of type complex is unsupported"),
        ({(1, 2): 3}, "Only dicts with str-like or number-like keys are supported"),
        ("\ud800", "a text in it has half of a surrogate pair"),
        ([10**5000], "Exceeds the limit"),
    ],
)
def test_unsupported_values_are_refused(value: Any, reason: str) -> None:
    with pytest.raises(SerializationError, match="json serde: cannot write") as caught:
        JSON.serialize(value)
    assert reason in caught.value.message
    assert caught.value.hint is not None
    assert "dataclasses" in caught.value.hint


@dataclass
class Measured:
    value: float
    note: str | None = None


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [lambda n: n, lambda n: {"a": [n, 2**70]}, lambda n: [None, (n,)], Measured])
def test_nan_and_infinities_are_refused(number: float, place: Any) -> None:
    with pytest.raises(SerializationError, match=f"JSON has no {number}"):
        JSON.serialize(place(number))
    with pytest.raises(SerializationError, match=f"JSON has no {number}"):
        JSON.serialize_all([{"a": None}, None, place(number)])


@given(st.lists(PLAIN))
def test_many_values_are_serialized_as_each_of_them(values: list[Any]) -> None:
    assert JSON.serialize_all(values) == [JSON.serialize(value) for value in values]


@given(st.integers(2**63, 2**4000) | st.integers(-(2**4000), -(2**63)))
def test_integers_of_any_size_round_trip(number: int) -> None:
    assert JSON.deserialize(JSON.serialize({"n": number, "none": None})) == {"n": number, "none": None}


def test_a_list_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(SerializationError, match="it is nested too deeply"):
        JSON.serialize(value)


@pytest.mark.parametrize(
    ("python_type", "data", "reason"),
    [
        (object, b"", "Input data was truncated"),
        (object, b"{", "Input data was truncated"),
        (object, b"\xff", "JSON is malformed"),
        (object, b'"\xff"', "can't decode byte 0xff"),
        (object, b"[" * 100_000, "it is nested too deeply"),
        (object, b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "it is nested too deeply"),
        (object, b'"\\udc00 and more text"', "invalid utf-16 surrogate pair"),
        (object, b"NaN", "JSON is malformed"),
        (object, b"[-Infinity]", "JSON is malformed"),
        (object, b"1e400", "Number out of range"),
        (object, b"1" * 5000, "Integer value out of range"),
        (Order, b'{"id": 7}', "as Order, Expected `str`, got `int` - at `$.id`"),
        (Order, b"{}", "as Order, Object missing required field `id`"),
        (Order, b"null", "as Order, Expected `object`, got `null`"),
        (list[int], b'["a"]', "as list[int], Expected `int`, got `str` - at `$[0]`"),
        (Picky, b'{"name":"x"}', "as Picky, 'x'"),
    ],
)
def test_invalid_json_is_refused(python_type: Any, data: bytes, reason: str) -> None:
    with pytest.raises(DeserializationError) as caught:
        json_of(python_type).deserialize(data)
    assert caught.value.message.startswith("json serde: cannot read b")
    assert reason in caught.value.message
    assert len(caught.value.message) < 250


def test_a_type_that_msgspec_cannot_decode_is_an_error_of_the_configuration() -> None:
    serde = json_of(list[int] | tuple[int, ...])
    with pytest.raises(ConfigError, match="json serde: cannot decode into"):
        serde.serialize([1])
    with pytest.raises(ConfigError, match="json serde: cannot decode into"):
        serde.deserialize(b"[1]")
