"""The serdes of Protobuf and JSON Schema with every registry: ids, other versions, texts and descriptors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.registry.protobuf_cases import message

from millstream import App, TestDriver, json_schema, protobuf
from millstream.registry import SchemaRegistry
from millstream.schemas.registries import registry_for
from millstream.serde.api import SerdeContext


@dataclass
class Order:
    shop: str
    amount: int = 0


@dataclass
class Priced:
    shop: str
    amount: int = 0
    price: float | None = None


def bound(serde: Any, registry: SchemaRegistry, subject: str) -> Any:
    return serde.bind(SerdeContext(subject.removesuffix("-value"), is_key=False, registry=registry_for(registry)))


@pytest.mark.parametrize("make", [protobuf, json_schema], ids=["protobuf", "json"])
def test_a_record_has_the_id_of_its_schema_and_another_reader_finds_it(
    registry: SchemaRegistry, subject: str, make: Any
) -> None:
    serde = bound(make(Order), registry, subject)
    data = serde.serialize(Order("north", 3))
    found = registry.latest(subject)
    assert serde.schema_id(data, ()) == int.from_bytes(data[1:5], "big") == found.id
    assert bound(make(Order), registry, subject).deserialize(data) == Order("north", 3)
    generic = bound(make(), registry, subject).deserialize(data)
    as_dict = generic if isinstance(generic, dict) else {"shop": generic.shop, "amount": int(generic.amount)}
    assert {name: as_dict[name] for name in ("shop", "amount")} == {"shop": "north", "amount": 3}
    assert registry.versions(subject) == [1]


@pytest.mark.parametrize("make", [protobuf, json_schema], ids=["protobuf", "json"])
def test_a_reader_with_a_newer_schema_reads_older_records(registry: SchemaRegistry, subject: str, make: Any) -> None:
    data = bound(make(Order), registry, subject).serialize(Order("north", 3))
    assert bound(make(Priced), registry, subject).deserialize(data) == Priced("north", 3, None)


def test_a_topology_reads_one_format_and_writes_the_other(registry: SchemaRegistry, subject: str) -> None:
    name = subject.removesuffix("-value")
    app = App(name)
    orders = app.stream(f"{name}-orders", value=protobuf(Order))
    orders.map_values(lambda order: Priced(order.shop, order.amount, 1.5)).to(
        f"{name}-priced", value=json_schema(Priced)
    )
    with TestDriver(app, registry=registry) as driver:
        driver.input(f"{name}-orders").pipe("k", Order("north", 3))
        assert driver.output(f"{name}-priced").read_values() == [Priced("north", 3, 1.5)]
    assert {f"{name}-orders-value", f"{name}-priced-value"} <= set(registry.subjects())


def test_a_protobuf_schema_is_read_as_text_and_as_a_descriptor(registry: SchemaRegistry, subject: str) -> None:
    """Apicurio answers with descriptors where Confluent's registry has the text."""
    text = message("string shop = 1; int64 amount = 2;")
    data = bound(protobuf(text), registry, subject).serialize({"shop": "north", "amount": 3})
    values = bound(protobuf(), registry, subject).deserialize(data)
    assert (values.shop, values.amount) == ("north", 3)
