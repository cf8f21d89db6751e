"""Schemas from Python types: what is derived, and that values come back as the type."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import re
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import msgspec
import pydantic
import pytest

from millstream import avro
from millstream.errors import InvalidSchemaError
from millstream.schemas.python_types import Aliases, Bits, Digits
from millstream.testing.registry import MemoryRegistry
from tests.schemas.confluent import bound


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Card:
    number: str


@dataclass
class Transfer:
    iban: str


@dataclass
class Node:
    value: int
    next: Node | None = None


@dataclass
class Everything:
    text: str
    number: int
    small: Annotated[int, Bits(32)]
    ratio: float
    data: bytes
    flag: bool
    day: dt.date
    at: dt.time
    when: dt.datetime
    id: uuid.UUID
    amount: Annotated[decimal.Decimal, Digits(10, 2)]
    size: Size
    level: Level
    kind: Literal["a", "b"]
    payment: Card | Transfer
    node: Node
    maybe: str | None
    numbers: list[int] = field(default_factory=list)
    by_name: dict[str, Card] = field(default_factory=dict)
    pair: tuple[int, ...] = ()
    unique: frozenset[str] = frozenset()
    either: int | str | None = None


EVERYTHING = Everything(
    text="ä",
    number=2**62,
    small=-5,
    ratio=0.5,
    data=b"\xff",
    flag=True,
    day=dt.date(2026, 2, 28),
    at=dt.time(23, 59, 59, 999_999),
    when=dt.datetime(2026, 2, 28, 12, 0, 0, 1, tzinfo=dt.UTC),
    id=uuid.UUID(int=5),
    amount=decimal.Decimal("-12.34"),
    size=Size.LARGE,
    level=Level.HIGH,
    kind="b",
    payment=Transfer("DE00"),
    node=Node(1, Node(2)),
    maybe=None,
    numbers=[1, 2],
    by_name={"x": Card("1")},
    pair=(1, 2),
    unique=frozenset({"u"}),
    either="x",
)


def returned(serde: Any, value: Any) -> Any:
    return serde.deserialize(serde.serialize(value))


def test_all_types_of_fields_come_back() -> None:
    assert returned(avro(Everything, registry=None), EVERYTHING) == EVERYTHING
    assert returned(avro(Everything, registry=None, namespace="com.acme"), EVERYTHING) == EVERYTHING


class OrderStruct(msgspec.Struct, rename="camel"):
    order_id: str
    unit_price: float = 1.5


class TaggedStruct(msgspec.Struct, tag="card"):
    number: str


class OrderDict(TypedDict):
    id: str
    note: NotRequired[str]


class OrderTuple(NamedTuple):
    id: str
    quantity: int = 1


class OrderModel(pydantic.BaseModel):
    id: str
    price: decimal.Decimal = pydantic.Field(max_digits=8, decimal_places=2)
    size: Size = Size.SMALL
    placed_at: dt.datetime = pydantic.Field(alias="placedAt")


NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("cls", "value"),
    [
        (Card, Card("1")),
        (OrderStruct, OrderStruct("o1", 2.5)),
        (TaggedStruct, TaggedStruct("1")),
        (OrderDict, {"id": "o1"}),
        (OrderDict, {"id": "o1", "note": "n"}),
        (OrderTuple, OrderTuple("o1", 2)),
        (OrderModel, OrderModel(id="o1", price=decimal.Decimal("2.50"), placedAt=NOON)),
        (Node, Node(1, Node(2, Node(3)))),
        (list[Card], [Card("1")]),
        (dict[str, int], {"a": 1}),
        (int, 5),
        (Size, Size.SMALL),
    ],
    ids=lambda item: getattr(item, "__name__", ""),
)
def test_values_come_back_as_the_type(cls: Any, value: Any) -> None:
    assert returned(avro(cls, registry=None), value) == value
    registry = MemoryRegistry()
    assert returned(bound(avro(cls), registry), value) == value


def fields_of(cls: Any) -> dict[str, Any]:
    schema = json.loads(avro(cls, registry=None).schema.text)  # type: ignore[attr-defined]
    return {item["name"]: {key: value for key, value in item.items() if key != "name"} for item in schema["fields"]}


def test_names_defaults_and_aliases_are_in_the_schema() -> None:
    @dataclass
    class Order:
        id: Annotated[str, Aliases("order_id", "key")]
        size: Size = Size.LARGE
        level: Level = Level.LOW
        note: str | None = None
        reason: str | None = "none"
        day: dt.date = dt.date(1970, 1, 3)
        data: bytes = b"\xff"

    fields = fields_of(Order)
    assert fields["id"] == {"type": "string", "aliases": ["order_id", "key"]}
    assert fields["size"]["default"] == "large"
    assert fields["level"]["type"]["symbols"] == ["LOW", "HIGH"]
    assert fields["level"]["default"] == "LOW"
    assert fields["note"] == {"type": ["null", "string"], "default": None}
    assert fields["reason"] == {"type": ["string", "null"], "default": "none"}
    assert fields["day"]["default"] == 2
    assert fields["data"]["default"] == "\u00ff"
    assert fields_of(OrderStruct) == {"orderId": {"type": "string"}, "unitPrice": {"type": "double", "default": 1.5}}
    assert list(fields_of(OrderModel)) == ["id", "price", "size", "placedAt"]


def test_a_type_reads_what_an_older_or_newer_version_of_it_wrote() -> None:
    @dataclass
    class Old:
        id: str
        gone: int = 0

    @dataclass
    class New:
        id: str
        note: str = "none"
        tags: list[str] = field(default_factory=list)
        day: dt.date = dt.date(2026, 1, 1)

    Old.__name__ = New.__name__ = "Order"
    registry = MemoryRegistry()
    old, new = bound(avro(Old), registry), bound(avro(New), registry)
    assert new.deserialize(old.serialize(Old("o1", 5))) == New("o1")
    assert old.deserialize(new.serialize(New("o2"))) == Old("o2", 0)


@dataclass
class Inner:
    when: object


@dataclass
class Outer:
    items: list[Inner]


def test_a_field_without_a_schema_is_an_error_that_names_it() -> None:
    with pytest.raises(InvalidSchemaError, match=r"Outer\.items\[\]\.when: there is no schema for object"):
        avro(Outer)


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (decimal.Decimal, "a decimal needs its digits"),
        (dict[int, str], "the keys of a map are texts"),
        (tuple[int, str], r"give tuple\[X, …\]"),
        (list, "a schema needs the types of items"),
        (complex, "there is no schema for complex"),
        (list[str] | list[int], "a union in Avro has at most one type 'array'"),
    ],
)
def test_types_without_a_schema_are_refused_when_the_serde_is_built(hint: Any, message: str) -> None:
    cls: Any = dataclass(type("Order", (), {"__annotations__": {"field": hint}}))
    with pytest.raises(InvalidSchemaError) as caught:
        avro(cls)
    assert "Order.field" in caught.value.message
    assert re.search(message, str(caught.value))


def test_two_classes_of_one_name_are_refused() -> None:
    other: Any = dataclass(type("Card", (), {"__annotations__": {"x": int}}))
    cls: Any = dataclass(type("Order", (), {"__annotations__": {"a": Card, "b": other}}))
    with pytest.raises(InvalidSchemaError, match="two types named 'Card'"):
        avro(cls)


def test_a_default_of_another_type_is_refused() -> None:
    cls: Any = dataclass(type("Order", (), {"__annotations__": {"n": int}, "n": "x"}))
    with pytest.raises(InvalidSchemaError, match=r"Order\.n: the default 'x' is not of the type"):
        avro(cls)
