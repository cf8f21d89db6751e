from __future__ import annotations

import collections.abc
import datetime as dt
import decimal
import enum
import json
import subprocess
import sys
import typing
import uuid
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypedDict, TypeVar, Union

import msgspec
import pytest

import millstream.serde
from millstream.core.records import Windowed
from millstream.errors import ConfigError
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
    VOID,
    Serde,
    json_of,
    list_of,
    serde_for,
)

T = TypeVar("T")


@dataclass
class Order:
    id: str


@dataclass
class Box(Generic[T]):
    content: T


class Customer(TypedDict):
    name: str


class Point(NamedTuple):
    x: int


class Payment(msgspec.Struct):
    amount: float


class Colour(enum.Enum):
    RED = 1


class Opaque:
    pass


class OpaqueDict(dict):
    pass


class Mine(Serde[str]):
    def serialize(self, value: str | None) -> bytes | None:
        return None if value is None else value[::-1].encode()

    def deserialize(self, data: bytes | None) -> str | None:
        return None if data is None else data.decode()[::-1]


UserId = NewType("UserId", str)
Cart = NewType("Cart", list[int])


@pytest.mark.parametrize(
    ("hint", "serde"),
    [
        (str, STRING),
        (int, LONG),
        (float, DOUBLE),
        (bool, BOOLEAN),
        (bytes, BYTES),
        (uuid.UUID, UUID),
        (None, VOID),
        (type(None), VOID),
        (object, JSON),
        (Any, JSON),
        (UserId, STRING),
        (Optional[str], STRING),  # noqa: UP045
        (Union[None, int], LONG),  # noqa: UP007
        (str | None, STRING),
        (uuid.UUID | None, UUID),
        (LONG, LONG),
        (list_of(int), list_of(int)),
    ],
)
def test_types_with_their_own_serde(hint: Any, serde: Serde[Any]) -> None:
    assert serde_for(hint) == serde
    assert serde_for(hint, "key").name == serde.name


@pytest.mark.parametrize(
    "hint",
    [
        dict,
        list,
        tuple,
        Order,
        Box[int],
        Customer,
        Point,
        Payment,
        Colour,
        dt.datetime,
        decimal.Decimal,
        list[int],
        list[Order],
        dict[str, Any],
        dict[str, list[Order | None]],
        tuple[int, ...],
        typing.List[int],  # noqa: UP006
        collections.abc.Sequence[str],
        collections.abc.Mapping[str, int],
        Order | None,
        int | str,
        Literal["a", "b"],
        Annotated[int, msgspec.Meta(ge=0)],
        list[uuid.UUID],
    ],
)
def test_types_that_are_json(hint: Any) -> None:
    serde = serde_for(hint)
    assert serde == json_of(hint)
    assert serde.python_type == hint
    assert serde.serialize(None) is None


def test_a_new_type_of_a_list_is_json() -> None:
    assert serde_for(Cart) == json_of(list[int])


def test_json_of_an_optional_type_can_be_null() -> None:
    assert serde_for(Order | None).deserialize(b"null") is None
    assert serde_for(Order | None).deserialize(b'{"id":"o1"}') == Order("o1")


@pytest.mark.parametrize(
    ("name", "serde"),
    [
        ("string", STRING),
        ("long", LONG),
        ("int", INT),
        ("integer", INT),
        ("short", SHORT),
        ("float", FLOAT),
        ("double", DOUBLE),
        ("boolean", BOOLEAN),
        ("bytes", BYTES),
        ("uuid", UUID),
        ("json", JSON),
        ("void", VOID),
    ],
)
def test_names(name: str, serde: Serde[Any]) -> None:
    assert serde_for(name) is serde


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("strng", "did you mean 'string'?"),
        ("str", "did you mean 'string'?"),
        ("Long", "did you mean 'long'?"),
        ("bool", "did you mean 'boolean'?"),
    ],
)
def test_a_misspelt_name_has_a_suggestion(name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        serde_for(name, "value of topic orders")
    assert caught.value.message == f"value of topic orders: there is no serde named {name!r}"
    assert caught.value.hint == hint


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        serde_for("avro-schema")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("known are string, long, int, ")


@pytest.mark.parametrize(
    ("hint", "message", "advice"),
    [
        (
            Opaque,
            "there is no serde for Opaque",
            "make Opaque a dataclass, which has a JSON form, or write a Serde for it",
        ),
        (OpaqueDict, "there is no serde for OpaqueDict", "make OpaqueDict a dataclass"),
        (complex, "there is no serde for complex", "make complex a dataclass"),
        (list[Opaque], "there is no serde for list[", "JSON cannot be decoded into its items"),
        (Opaque | None, "there is no serde for ", "give a type"),
        (Mine, "there is no serde for Mine", "give an instance of it: Mine()"),
        (Windowed, "there is no serde for Windowed", "give time_windowed(key, size_ms) or session_windowed(key)"),
        (Windowed[str], "there is no serde for ", "give time_windowed(key, size_ms) or session_windowed(key)"),
        (bytearray, "there is no serde for bytearray", "give bytes"),
        (5, "there is no serde for 5", "give a type (str, int, float, bool, bytes, dict, a dataclass …), a serde"),
        ([], "there is no serde for []", "give a type"),
        (T, "there is no serde for ~T", "give a type"),
    ],
)
def test_a_type_without_a_serde_has_a_remedy(hint: Any, message: str, advice: str) -> None:
    with pytest.raises(ConfigError) as caught:
        serde_for(hint, "key")
    assert caught.value.message.startswith(f"key: {message}")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(advice)


def test_a_custom_serde() -> None:
    serde = Mine()
    assert serde_for(serde) is serde
    assert serde.name == "Mine"
    assert serde.python_type is object
    assert not serde.immutable
    assert not serde.hashable
    assert list_of(serde).deserialize(list_of(serde).serialize(["ab", None])) == ["ab", None]
    assert list_of(serde).name == "list<Mine>"


def test_a_custom_serde_needs_both_methods() -> None:
    class Half(Serde[str]):
        def serialize(self, value: str | None) -> bytes | None:
            return None

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]


def test_all_public_names_exist() -> None:
    for name in millstream.serde.__all__:
        assert hasattr(millstream.serde, name)


PROBE = """
import json, sys
import millstream.serde as serde
imported = "msgspec" in sys.modules, "uuid" in sys.modules
serde.serde_for(dict), serde.list_of(serde.JSON), serde.json_of(list[int])
looked_up = "msgspec" in sys.modules
serde.JSON.serialize({})
print(json.dumps([*imported, looked_up, "msgspec" in sys.modules]))
"""


def test_msgspec_is_imported_when_json_is_first_used() -> None:
    run = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == [False, False, False, True]
