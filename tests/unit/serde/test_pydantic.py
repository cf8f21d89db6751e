"""Pydantic models as JSON: alone, in other types, and in fields of other classes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
import pydantic
import pytest

from millstream import App, TestDriver
from millstream.errors import ConfigError, DeserializationError, SerializationError
from millstream.serde import JSON, json_of, serde_for

T = TypeVar("T")


class Line(pydantic.BaseModel):
    sku: str
    price: Decimal = pydantic.Field(default=Decimal(1), gt=0)


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    order_id: str = pydantic.Field(alias="orderId")
    at: datetime | None = None
    lines: list[Line] = pydantic.Field(default_factory=list)


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"


class Page(pydantic.BaseModel, Generic[T]):
    rows: list[T]


@pydantic.dataclasses.dataclass
class Checked:
    amount: Annotated[int, pydantic.Field(gt=0)]


@dataclass
class Parcel:
    order: Order
    others: list[Line] = field(default_factory=list)


class Box(msgspec.Struct):
    line: Line | None = None


@pytest.mark.parametrize(
    ("python_type", "data", "value"),
    [
        (
            Order,
            b'{"orderId":"1","at":"2024-01-02T03:04:05","lines":[{"sku":"a","price":"1.5"}]}',
            Order(orderId="1", at=datetime(2024, 1, 2, 3, 4, 5), lines=[Line(sku="a", price=Decimal("1.5"))]),  # noqa: DTZ001
        ),
        (list[Line], b'[{"sku":"a","price":"1"}]', [Line(sku="a")]),
        (dict[str, Line], b'{"x":{"sku":"a","price":"1"}}', {"x": Line(sku="a")}),
        (Line | None, b'{"sku":"a","price":"1"}', Line(sku="a")),
        (Cat | Dog, b'{"kind":"dog"}', Dog()),
        (Page[Line], b'{"rows":[{"sku":"a","price":"1"}]}', Page[Line](rows=[Line(sku="a")])),
        (Checked, b'{"amount":3}', Checked(3)),
        (
            Parcel,
            b'{"order":{"orderId":"1","at":null,"lines":[]},"others":[{"sku":"a","price":"1"}]}',
            Parcel(Order(orderId="1"), [Line(sku="a")]),
        ),
        (Box, b'{"line":{"sku":"a","price":"1"}}', Box(Line(sku="a"))),
    ],
)
def test_round_trip(python_type: Any, data: bytes, value: Any) -> None:
    serde = serde_for(python_type)
    read = serde.deserialize(data)
    assert read == value
    assert type(read) is type(value)
    assert serde.serialize(value) == data
    assert serde.name == "json"
    assert serde.serialize(None) is None
    assert serde.deserialize(None) is None


@pytest.mark.parametrize(
    ("python_type", "data", "reason"),
    [
        (Order, b"{}", "as Order, Field required - at `$.orderId`"),
        (
            Order,
            b'{"orderId":1,"lines":[{"price":2}]}',
            "as Order, Input should be a valid string - at `$.orderId`; Field required - at `$.lines[0].sku`",
        ),
        (Order, b"{", "as Order, Invalid JSON: EOF while parsing an object at line 1 column 1 - at `$`"),
        (list[Line], b"[{}]", "as list[tests.unit.serde.test_pydantic.Line], Field required - at `$[0].sku`"),
        (Checked, b'{"amount":0}', "as Checked, Input should be greater than 0 - at `$.amount`"),
        (Parcel, b'{"order":{}}', "as Parcel, Field required - at `$.orderId` - at `$.order`"),
    ],
)
def test_invalid_json_is_refused(python_type: Any, data: bytes, reason: str) -> None:
    with pytest.raises(DeserializationError) as caught:
        json_of(python_type).deserialize(data)
    assert caught.value.message == f"json serde: cannot read {data!r}: {reason}"


def test_json_without_a_type_supports_models() -> None:
    assert JSON.serialize({"lines": [Line(sku="a")]}) == b'{"lines":[{"sku":"a","price":"1"}]}'


def test_unsupported_values_are_refused() -> None:
    class Opaque(pydantic.BaseModel):
        thing: Any

    for value in (Opaque(thing=object()), [Opaque(thing=object())]):
        with pytest.raises(SerializationError, match="Unable to serialize unknown type"):
            json_of(Opaque).serialize(value)  # type: ignore[arg-type]


def test_a_type_that_pydantic_cannot_validate_is_an_error_of_the_configuration() -> None:
    class Opaque:
        pass

    class Incomplete(pydantic.BaseModel):
        thing: Nowhere  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(
        ConfigError, match=r"json serde: cannot decode into .*: Unable to generate pydantic-core schema"
    ):
        json_of(dict[str, Line | Opaque]).deserialize(b"{}")
    with pytest.raises(ConfigError, match=r"json serde: cannot decode into .*Incomplete: name 'Nowhere'"):
        json_of(Incomplete).deserialize(b"{}")


def test_an_invalid_record_goes_to_the_handler_and_the_dead_letter_topic() -> None:
    app = App("models", deserialization_exception_handler="continue", errors_dead_letter_queue_topic_name="dead")
    orders = app.stream("orders", key=str, value=Order)
    orders.group_by(lambda _key, order: order.lines[0], key=Line).count(store="lines").to_stream().to("counts")
    with TestDriver(app) as driver:
        for value in (
            b'{"orderId":"1","lines":[{"sku":"a"}]}',
            b'{"lines":[]}',
            b'{"orderId":"2","lines":[{"sku":"a"}]}',
        ):
            driver.input("orders", value=bytes).pipe("k", value)
        assert driver.output("counts").read_pairs() == [(Line(sku="a"), 1), (Line(sku="a"), 2)]
        assert [letter.value for letter in driver.output("dead", key=str, value=bytes).read_all()] == [b'{"lines":[]}']


def test_pydantic_is_not_imported_for_other_types() -> None:
    check = """if True:
        import sys
        from dataclasses import make_dataclass
        from millstream.serde import serde_for
        assert serde_for(make_dataclass("A", [("a", int)])).deserialize(b'{"a":1}').a == 1
        assert "pydantic" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", check], check=True)
