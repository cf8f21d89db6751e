"""Topics of change data capture as tables: envelopes with and without schemas, unwrapped rows, Avro, keys."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from millstream import App, TestDriver, avro, debezium, debezium_key
from millstream.connect.converters import converter_for
from millstream.connect.schema import BYTES, DECIMAL, INT32, INT64, STRING, ConnectSchema, array_of, struct_of
from millstream.errors import DeserializationError, SerializationError
from millstream.registry import open_registry
from millstream.schemas.registries import registry_for
from millstream.serde.api import SerdeContext

ROW = struct_of("shop.public.products.Value", {"id": INT64, "name": STRING.as_optional()}, optional=True)
ENVELOPE = struct_of("shop.public.products.Envelope", {"before": ROW, "after": ROW, "op": STRING})
KEY = struct_of("shop.public.products.Key", {"id": INT64})


@dataclass
class Product:
    id: int
    name: str | None = None


def envelope(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op}


def test_a_topic_of_changes_is_a_table_of_typed_rows() -> None:
    app = App("products")
    products = app.table(
        "shop.public.products", key=debezium_key("id", type=int), value=debezium(Product), store="products"
    )
    products.to_stream().map_values(lambda row: None if row is None else row.name, value=str).to("names", key=int)
    with TestDriver(app) as driver:
        changes = driver.input("shop.public.products", key=bytes, value=bytes)
        for key, value in [
            ({"id": 1}, envelope("r", None, {"id": 1, "name": "pen"})),
            ({"id": 2}, envelope("c", None, {"id": 2, "name": "cup"})),
            ({"id": 1}, envelope("u", {"id": 1, "name": "pen"}, {"id": 1, "name": "red pen"})),
            ({"id": 2}, envelope("d", {"id": 2, "name": "cup"})),
        ]:
            changes.pipe(json.dumps(key, separators=(",", ":")).encode(), json.dumps(value).encode())
        assert driver.store("products").get(1) == Product(1, "red pen")
        assert driver.store("products").get(2) is None
        assert driver.output("names", key=int, value=str).read_pairs() == [
            (1, "pen"), (2, "cup"), (1, "red pen"), (2, None),
        ]  # fmt: skip


@pytest.mark.parametrize("form", ["json", "json-schemas"])
def test_values_and_keys_of_the_converters_are_read(form: str) -> None:
    convert = converter_for(form, "value").bind(SerdeContext("t", is_key=False))
    row = {"id": 1, "name": "pen"}
    data = convert(ENVELOPE, {**envelope("u", None, row)})
    assert debezium().deserialize(data) == row
    assert debezium(Product).deserialize(data) == Product(1, "pen")
    assert debezium().deserialize(convert(ENVELOPE, envelope("d", row))) is None
    key = convert(KEY, {"id": 7})
    serde = debezium_key("id", type=int, unwrap_schema=form == "json-schemas")
    assert serde.deserialize(key) == 7
    if form == "json":
        assert serde.serialize(7) == key
    else:
        with pytest.raises(DeserializationError, match="has its schema beside it"):
            debezium_key("id").deserialize(key)
    assert convert(ENVELOPE, None) is None


def test_values_of_the_avro_converter_are_read(tmp_path: Path) -> None:
    registry = registry_for(open_registry({}, tmp_path))
    context = SerdeContext("shop.public.products", is_key=False, registry=registry)
    convert = converter_for("avro", "value").bind(context)
    row = {"id": 1, "name": None}
    data = convert(ENVELOPE, envelope("u", row, row))
    assert data is not None
    assert data[0] == 0
    serde = debezium(format=avro()).bind(context)
    assert serde.deserialize(data) == row
    assert serde.deserialize(serde.serialize(row)) == row  # as a store keeps it
    written = registry.open().latest("shop.public.products-value").schema
    parsed = json.loads(written.text)
    assert (parsed["namespace"], parsed["name"]) == ("shop.public.products", "Envelope")
    assert parsed["fields"][1]["type"] == ["null", "shop.public.products.Value"]


def test_keys_are_written_with_the_bytes_of_the_topic(tmp_path: Path) -> None:
    registry = registry_for(open_registry({}, tmp_path))
    context = SerdeContext("shop.public.products", is_key=True, registry=registry)
    data = converter_for("avro", "key").bind(context)(KEY, {"id": 7})
    serde = debezium_key("id", format=avro()).bind(context)
    assert (serde.deserialize(data), serde.serialize(7)) == (7, data)
    pair = debezium_key("shop", "id")
    assert pair.deserialize(b'{"shop":1,"id":7}') == (1, 7)
    assert pair.serialize((1, 7)) == b'{"shop":1,"id":7}'
    assert debezium_key().deserialize(b'{"shop":1,"id":7}') == {"shop": 1, "id": 7}
    assert debezium_key().serialize({"shop": 1, "id": 7}) == b'{"shop":1,"id":7}'
    with pytest.raises(SerializationError, match="not a tuple of shop, id"):
        pair.serialize(1)
    with pytest.raises(DeserializationError, match="the key has shop, id, and not id"):
        debezium_key("id").deserialize(b'{"shop":1,"id":7}')


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ('{"id": 1}', {"id": 1}),
        ('{"id": 1, "__deleted": "false"}', {"id": 1}),
        ('{"id": 1, "__deleted": "true"}', None),
        ('{"schema": null, "payload": {"id": 1}}', {"id": 1}),
        ('{"before": {"id": 1}, "source": {}, "op": "d"}', None),
        ('{"op": "t", "before": null, "after": null, "source": {}}', None),
    ],
)
def test_unwrapped_rows_and_other_forms_are_read(text: str, row: Any) -> None:
    assert debezium().deserialize(text.encode()) == row


@pytest.mark.parametrize("text", ["3", "[1]", "{", "", '"x"'])
def test_other_values_are_errors(text: str) -> None:
    with pytest.raises(DeserializationError, match="serde"):
        debezium().deserialize(text.encode())


def test_a_row_that_does_not_fit_its_type_names_the_field() -> None:
    with pytest.raises(DeserializationError, match=r"\$\.id"):
        debezium(Product).deserialize(b'{"after": {"id": "x"}, "op": "c"}')


def test_bytes_and_decimals_have_the_form_of_kafka_connect() -> None:
    price = ConnectSchema("bytes", name=DECIMAL, version=1, parameters={"scale": "2"}, optional=True)
    schema = struct_of("Row", {"raw": BYTES, "price": price, "sizes": array_of(INT32), "prices": array_of(price)})
    value = {"raw": b"\x00\xff", "price": Decimal("-1.5"), "sizes": [1], "prices": [Decimal(3), None]}
    plain = converter_for("json", "value").bind(SerdeContext("t", is_key=False))(schema, value)
    assert plain == b'{"raw":"AP8=","price":"/2o=","sizes":[1],"prices":["ASw=",null]}'
    with_schema = converter_for("json-schemas", "value").bind(SerdeContext("t", is_key=False))(schema, value)
    assert with_schema is not None
    fields = json.loads(with_schema)["schema"]["fields"]
    decimal = {"type": "bytes", "name": DECIMAL, "version": 1, "parameters": {"scale": "2"}}
    assert fields[1] == {**decimal, "optional": True, "field": "price"}
    number = {"type": "int32", "optional": False}
    assert fields[2] == {"type": "array", "items": number, "optional": False, "field": "sizes"}
    large = "1234567890123456789012345678901234567890.12"
    data = converter_for("json", "value").bind(SerdeContext("t", is_key=False))(price, Decimal(large))
    assert data is not None
    assert int.from_bytes(base64.b64decode(json.loads(data)), "big", signed=True) == int(large.replace(".", ""))
    with pytest.raises(SerializationError, match=r"1\.234 has no exact form with 2 digits"):
        converter_for("json", "value").bind(SerdeContext("t", is_key=False))(price, Decimal("1.234"))


def test_decimals_are_avro_decimals(tmp_path: Path) -> None:
    price = ConnectSchema("bytes", name=DECIMAL, version=1, parameters={"scale": "2"})
    schema = struct_of("a-b.Row", {"the price": price, "n": ConnectSchema("int16", optional=True)})
    context = SerdeContext("t", is_key=False, registry=registry_for(open_registry({}, tmp_path)))
    data = converter_for("avro", "value").bind(context)(schema, {"the price": Decimal("12.34"), "n": 3})
    assert avro().bind(context).deserialize(data) == {"the_price": Decimal("12.34"), "n": 3}
    with pytest.raises(SerializationError, match="has no schema"):
        converter_for("avro", "value").bind(context)(None, {"a": 1})
