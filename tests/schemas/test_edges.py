"""Schemas in the plan: expressions are checked against them when the topology is built, and `describe` shows them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pydantic
import pytest

from millstream import App, avro, col, json_schema, left, lit, protobuf, right, struct, value
from millstream.errors import ExpressionError, TopologyError
from millstream.expr.description import Description
from millstream.serde import Serde

LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int"}],
}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "doc": "An order.",
    "fields": [
        {"name": "id", "type": "string", "doc": "The number on the invoice."},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "email", "type": ["null", "string"], "default": None, "confluent:tags": ["pii"]},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "labels", "type": {"type": "map", "values": "boolean"}},
        {"name": "either", "type": ["string", "int"]},
        {"name": "next", "type": ["null", "shop.Order"], "default": None},
    ],
}
JSON_ORDER = {
    "title": "Order",
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string", "description": "The number on the invoice."},
        "amount": {"type": ["number", "null"]},
        "customer": {"$ref": "#/$defs/Customer"},
        "labels": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "extra": {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
    },
    "$defs": {"Customer": {"type": "object", "properties": {"name": {"type": "string"}}}},
}
PROTO = """
syntax = "proto3";
package shop;
message Order {
  message Line { string sku = 1; int32 count = 2; }
  string id = 1;
  double amount = 2;
  optional string note = 3;
  repeated Line lines = 4;
  map<string, int64> totals = 5;
  Order next = 6;
}
"""


@dataclass
class Typed:
    id: str
    amount: float
    email: str | None = None


class Model(pydantic.BaseModel):
    id: str
    amount: float


SERDES: dict[str, Any] = {
    "json of a pydantic model": json_schema(Model),
    "avro": avro(ORDER),
    "avro of a type": avro(Typed),
    "json": json_schema(JSON_ORDER),
    "json of a type": json_schema(Typed),
    "protobuf": protobuf(PROTO, "shop.Order"),
    "protobuf of a type": protobuf(Typed),
    "type": Typed,
}


@pytest.mark.parametrize("serde", SERDES.values(), ids=SERDES)
def test_a_misspelt_field_is_an_error_at_its_line_with_the_nearest_name(serde: Any) -> None:
    orders = App("edges").stream("orders", value=serde)
    with pytest.raises(ExpressionError) as refused:
        orders.filter(col("amout") > 3)
    assert "test_edges.py:" in str(refused.value)
    assert "the value has no field 'amout'" in str(refused.value)
    assert "did you mean 'amount'?" in str(refused.value)
    orders.filter(col("amount") > 3)


@pytest.mark.parametrize("serde", [avro(), protobuf(), json_schema(), avro(ORDER, references=[("Line", "line", 1)])])
def test_a_serde_whose_schema_is_in_the_registry_leaves_the_edge_unknown(serde: Any) -> None:
    App("edges").stream("orders", value=serde).filter(col("anything") > 3)


def test_a_schema_of_keys_is_checked_too() -> None:
    from millstream import key

    orders = App("edges").stream("orders", key=avro(LINE), value=str)
    with pytest.raises(ExpressionError, match="the key has no field 'skew'"):
        orders.filter(key()["skew"] == "a")
    orders.filter(key()["sku"] == "a")


@pytest.mark.parametrize(
    ("serde", "expression", "problem"),
    [
        ("avro", col("lines")["sku"], "`lines` is ARRAY<STRUCT<sku STRING, count INT>> and has no field 'sku'"),
        ("avro", col("id") + 1, "STRING"),
        ("json", col("customer")["nam"], "`customer` has no field 'nam'"),
        ("protobuf", col("next")["lins"], None),  # a recursive message has no finite type
        ("json", col("extra")["other"], None),  # an object that may have other properties
        ("avro", col("labels")["anything"], None),
        ("avro", col("next")["anything"], None),
        ("avro", col("either") + 1, None),
        ("protobuf", col("totals")["anything"], None),
    ],
)
def test_nested_fields_and_types_are_checked(serde: str, expression: Any, problem: str | None) -> None:
    orders = App("edges").stream("orders", value=SERDES[serde])
    if problem is None:
        orders.map_values(expression)
        return
    with pytest.raises(ExpressionError) as refused:
        orders.map_values(expression)
    assert problem in str(refused.value)


def derived(orders: Any, app: App) -> dict[str, Callable[[], Any]]:
    """Chains whose last value is a record with the fields ``total`` and ``who``."""
    priced = struct(total=col("amount") * 2, who=col("id"))
    stream = orders.map_values(priced)
    table = app.table("customers", key=str, value=avro(LINE), store="customers")
    joined = struct(total=left()["amount"], who=right()["sku"])
    return {
        "map_values": lambda: stream,
        "filter": lambda: stream.filter(col("total") > 1).filter_not(col("who").is_null()).peek(print),
        "repartition": stream.repartition,
        "select_key": lambda: stream.select_key(col("who")),
        "to_table": lambda: stream.to_table(store="rows").filter(col("total") > 1).to_stream(),
        "group_by": lambda: stream.group_by(col("who")).reduce(lambda a, _b: a).to_stream(),
        "join": lambda: orders.join(table, joined),
        "split": lambda: stream.split({"big": col("total") > 1}, default="rest")["rest"],
        "merge": lambda: stream.merge(orders.map_values(priced)),
    }


@pytest.mark.parametrize("chain", derived(App("names").stream("orders", key=str, value=avro(Typed)), App("names2")))
def test_the_schema_of_an_expression_s_results_follows_through_the_chain(chain: str) -> None:
    app = App("edges")
    result = derived(app.stream("orders", key=str, value=avro(Typed)), app)[chain]()
    with pytest.raises(ExpressionError, match="the value has no field 'totl'") as refused:
        result.map_values(col("totl"))
    assert "did you mean 'total'?" in str(refused.value)
    result.map_values(col("total"))


def test_the_results_of_aggregate_functions_are_fields() -> None:
    from millstream.expr.aggregates import count, sum_

    grouped = App("edges").stream("orders", key=str, value=avro(Typed)).group_by_key()
    table = grouped.aggregate(count=count(), total=sum_(col("amount")))
    with pytest.raises(ExpressionError, match="has no field 'cuont'"):
        table.filter(col("cuont") > 1)
    table.filter((col("count") > 1) & (col("total") > 1))
    with pytest.raises(ExpressionError, match="has no field 'amuont'"):
        grouped.sum(col("amuont"))


def test_results_that_json_changes_are_not_checked_behind_it() -> None:
    orders = App("edges").stream("orders", value=avro(ORDER))
    rows = orders.map_values(struct(amount=col("amount"), one=lit(1)))
    rows.repartition().filter(col("amount") == "1.50")  # a decimal is a text in JSON


def test_reading_a_topic_twice_with_two_schemas_is_refused() -> None:
    app = App("edges")
    app.stream("orders", value=avro(ORDER))
    app.stream("orders", value=avro(ORDER))
    with pytest.raises(TopologyError, match="topic 'orders' is already read"):
        app.stream("orders", value=avro(LINE))


# ----- describe -----------------------------------------------------------------------------------------------------


def application() -> App:
    app = App("shop")
    orders = app.stream("orders", key=str, value=avro(ORDER))
    orders.map_values(struct(who=col("email"), one=lit(1))).to("mails")
    orders.group_by(lambda order: order["id"], key=str).reduce(lambda _a, b: b, store="latest")
    return app


def test_describe_has_a_line_for_each_edge_if_there_are_fields() -> None:
    text = application().describe()
    schemas = text.partition("Schemas:\n")[2].splitlines()
    line = (
        "avro shop.Order(id STRING, amount DECIMAL(9, 2), placed TIMESTAMP, email STRING NULL #pii, "
        "lines ARRAY<STRUCT<sku STRING, count INT>>, labels MAP<STRING, BOOLEAN>, either ANY, next "
    )
    assert schemas[0].startswith(f"   orders-source: key string, value {line}"[:239])
    assert "   orders-map-values: key string, value json (who STRING NULL, one INT NULL)" in schemas
    assert "   mails-sink: key string, value json (who STRING NULL, one INT NULL)" in schemas
    names = [each.strip().partition(":")[0] for each in schemas]
    assert [name for name in names if "repartition" in name] == [
        "latest-repartition-sink",
        "latest-repartition-source",
    ]
    assert max(map(len, schemas)) <= 240
    assert "Schemas:" not in App("plain").describe()
    plain = App("plain")
    plain.stream("words", key=str, value=str).to("copies")
    assert "Schemas:" not in plain.describe()


def test_the_json_of_describe_has_the_schemas_in_full() -> None:
    described = json.loads(application().describe("json"))
    nodes = {node["name"]: node for part in described["sub_topologies"] for node in part["nodes"]}
    schema = nodes["orders-source"]["schema"]
    assert schema["key"] == {"serde": "string", "format": None, "subject": None, "type": "STRING", "nullable": False}
    fields = {field["name"]: field for field in schema["value"].pop("fields")}
    assert schema["value"] == {
        "serde": "avro",
        "format": "AVRO",
        "subject": "orders-value",
        "type": schema["value"]["type"],
        "nullable": False,
        "name": "shop.Order",
        "doc": "An order.",
    }
    assert schema["value"]["type"].startswith("STRUCT<id STRING, amount DECIMAL(9, 2), placed TIMESTAMP,")
    assert fields["id"] == {
        "name": "id",
        "type": "STRING",
        "nullable": False,
        "doc": "The number on the invoice.",
    }
    assert fields["email"] == {"name": "email", "type": "STRING", "nullable": True, "tags": ["pii"]}
    assert fields["lines"]["items"]["fields"][1] == {"name": "count", "type": "INT", "nullable": False}
    assert fields["next"] == {"name": "next", "type": "ANY", "nullable": True, "record": "shop.Order"}
    [store] = [store for part in described["sub_topologies"] for store in part["stores"]]
    assert store["value_schema"]["subject"] == "shop-latest-changelog-value"
    assert nodes["orders-map-values"]["schema"]["value"]["subject"] is None


def test_a_schema_that_is_not_known_is_null() -> None:
    app = App("shop")
    app.stream("orders", key=str, value=avro()).map(lambda value: (1, value)).to("copies", key=int)
    described = json.loads(app.describe("json"))
    nodes = {node["name"]: node["schema"] for part in described["sub_topologies"] for node in part["nodes"]}
    unknown = {"serde": "avro", "format": "AVRO", "subject": "orders-value", "type": None}
    assert nodes["orders-source"]["value"] == unknown
    assert nodes["orders-map"] == {"key": None, "value": None}


def test_python_types_are_described() -> None:
    from millstream.expr.description import of_python

    @dataclass
    class Row:
        name: Annotated[str, "x"]
        values: list[float]
        scores: dict[str, int | None]

    row = of_python(Row)
    assert isinstance(row, Description)
    assert [(name, str(part.type), part.nullable) for name, part in row.fields] == [
        ("name", "STRING", False),
        ("values", "ARRAY<DOUBLE>", False),
        ("scores", "MAP<STRING, BIGINT>", False),
    ]
    scores = row.fields[2][1].items
    assert scores is not None
    assert (str(scores.type), scores.nullable) == ("BIGINT", True)


def test_value_of_a_whole_record_is_known() -> None:
    orders = App("edges").stream("orders", value=avro(LINE))
    with pytest.raises(ExpressionError, match="has no field 'cuont'"):
        orders.map_values(value()).map_values(col("cuont"))


def test_a_schema_whose_types_refer_to_each_other_many_times_is_described_in_a_moment() -> None:
    names = [f"R{number}" for number in range(30)]
    last = {"type": "record", "name": names[-1], "fields": [{"name": "x", "type": "int"}]}
    schemas = [last]
    for name, below in zip(names[-2::-1], names[:0:-1], strict=True):
        fields = [{"name": f"f{number}", "type": below} for number in range(8)]
        schemas.append({"type": "record", "name": name, "fields": fields})
    root: Any = schemas[-1]
    inner = root
    for schema in schemas[-2::-1]:
        inner["fields"][0]["type"] = schema
        inner = schema
    orders = App("edges").stream("orders", value=avro(root))
    with pytest.raises(ExpressionError, match="has no field 'g1'"):
        orders.map_values(col("g1"))
    orders.map_values(col("f1"))


def test_a_serde_of_a_user_may_have_attributes_of_any_name() -> None:
    class Text(Serde[str]):
        name = "text"
        parts = 3
        known = "yes"
        description = "texts"

        def serialize(self, value: str | None) -> bytes | None:
            return None if value is None else value.encode()

        def deserialize(self, data: bytes | None) -> str | None:
            return None if data is None else data.decode()

    app = App("users")
    app.stream("in", key=Text(), value=Text()).filter(value() != "").to("out")
    assert json.loads(app.describe("json"))["sub_topologies"][0]["nodes"][0]["schema"]["value"]["type"] is None
