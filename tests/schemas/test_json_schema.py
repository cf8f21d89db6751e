"""JSON Schema: bytes, validation, types, references, hostile payloads."""

from __future__ import annotations

import itertools
import json
import math
import time
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import pydantic
import pytest
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from hypothesis import given, settings, strategies as st

from millstream import App, TestDriver, json_schema
from millstream.errors import DeserializationError, InvalidSchemaError, SerializationError
from millstream.registry.api import Schema
from millstream.testing.registry import MemoryRegistry
from tests.schemas.confluent import MockRegistry, bound, value_of
from tests.schemas.hostile import read_all
from tests.schemas.test_avro_hostile import in_subprocess

registry = MockRegistry()
TOPICS = itertools.count()

# In Python's json, floats with an exponent have another form than in orjson, which confluent-kafka prefers.
_FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: "e" not in repr(x))


def _pair(schema: Any, values: st.SearchStrategy[Any]) -> tuple[Any, st.SearchStrategy[Any]]:
    return schema, values


_SCALARS = st.sampled_from(
    [
        _pair({"type": "string"}, st.text(max_size=8)),
        _pair({"type": "integer"}, st.integers(-(2**63), 2**63 - 1)),
        _pair({"type": "integer", "minimum": 0, "maximum": 9}, st.integers(0, 9)),
        _pair({"type": "number"}, _FLOATS),
        _pair({"type": "boolean"}, st.booleans()),
        _pair({"type": "null"}, st.none()),
        _pair({"enum": ["a", "b"]}, st.sampled_from(["a", "b"])),
        _pair({"type": "string", "pattern": "^[a-c]+$"}, st.text("abc", min_size=1, max_size=4)),
        _pair({"type": ["string", "null"]}, st.none() | st.text(max_size=3)),
    ]
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = inner.map(lambda pair: ({"type": "array", "items": pair[0]}, st.lists(pair[1], max_size=3)))
    maps = inner.map(
        lambda pair: (
            {"type": "object", "additionalProperties": pair[0]},
            st.dictionaries(st.text(max_size=4), pair[1], max_size=3),
        )
    )
    objects = st.lists(inner, min_size=1, max_size=3).map(
        lambda pairs: (
            {
                "type": "object",
                "properties": {f"f{n}": pair[0] for n, pair in enumerate(pairs)},
                "required": [f"f{n}" for n in range(len(pairs))],
                "additionalProperties": False,
            },
            st.fixed_dictionaries({f"f{n}": pair[1] for n, pair in enumerate(pairs)}),
        )
    )
    return lists | maps | objects


SCHEMAS = st.lists(st.recursive(_SCALARS, _containers, max_leaves=4), min_size=1, max_size=3).map(
    lambda pairs: (
        {"type": "object", "title": "R", "properties": {f"p{n}": pair[0] for n, pair in enumerate(pairs)}},
        st.fixed_dictionaries({f"p{n}": pair[1] for n, pair in enumerate(pairs)}),
    )
)


@given(st.data())
@settings(max_examples=2 * settings().max_examples)
def test_both_write_the_same_bytes_and_read_each_others(data: st.DataObject) -> None:
    schema, values = data.draw(SCHEMAS)
    text, topic = json.dumps(schema), f"topic-{next(TOPICS)}"
    theirs = JSONSerializer(text, registry.client)
    ours = bound(json_schema(text), registry, topic)
    for _ in range(3):
        value = data.draw(values)
        written = ours.serialize(value)
        assert written == theirs(value, value_of(topic))
        assert ours.deserialize(written) == value
        assert JSONDeserializer(text, schema_registry_client=registry.client)(written, value_of(topic)) == value
        assert bound(json_schema(), registry, topic).deserialize(written) == value
        assert json_schema(text, registry=None).serialize(value) == written[5:]


ORDER = {
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "string"}, "quantity": {"type": "integer", "minimum": 1}},
    "required": ["id"],
}


def test_values_are_validated_when_they_are_written_and_read() -> None:
    registry = MemoryRegistry()
    serde = bound(json_schema(ORDER), registry)
    with pytest.raises(SerializationError, match=r"less than the minimum of 1 - at `\$\.quantity`"):
        serde.serialize({"id": "o", "quantity": 0})
    with pytest.raises(SerializationError, match='"id" is a required property'):
        serde.serialize({"quantity": 1})
    lenient = bound(json_schema(ORDER, validate=False), registry)
    data = lenient.serialize({"quantity": 0})
    assert lenient.deserialize(data) == {"quantity": 0}
    with pytest.raises(DeserializationError, match="required property"):
        serde.deserialize(data)
    with pytest.raises(DeserializationError, match="required property"):
        bound(json_schema(), registry).deserialize(data)


def test_numbers_that_json_does_not_have_are_refused() -> None:
    with pytest.raises(SerializationError):
        json_schema({"type": "number"}, registry=None).serialize(math.nan)


@dataclass
class Line:
    item: str
    price: float = 1.5


@dataclass
class Order:
    id: str
    lines: list[Line] = field(default_factory=list)
    parent: Order | None = None
    quantity: Annotated[int, msgspec.Meta(ge=1)] = 1


class Model(pydantic.BaseModel):
    id: str
    quantity: int = pydantic.Field(default=1, ge=1)
    line: Line | None = None


@pytest.mark.parametrize(
    ("cls", "value"),
    [
        (Order, Order("o", [Line("i", 2.5)], Order("p"))),
        (Line, Line("i")),
        (Model, Model(id="o", quantity=3, line=Line("x"))),
        (dict[str, int], {"a": 1}),
    ],
)
def test_values_come_back_as_the_type(cls: Any, value: Any) -> None:
    serde = bound(json_schema(cls), MemoryRegistry())
    assert serde.deserialize(serde.serialize(value)) == value


def test_the_schema_of_a_type_has_its_name_and_its_constraints() -> None:
    registry = MemoryRegistry()
    serde = bound(json_schema(Order, subject_name_strategy="RecordName"), registry)
    with pytest.raises(SerializationError, match="less than the minimum of 1"):
        serde.serialize(Order("o", quantity=0))
    with pytest.raises(SerializationError, match="is not of type"):
        serde.serialize(Order(5))  # type: ignore[arg-type]
    assert registry.subjects() == ["Order"]
    schema = json.loads(serde.schema.text)
    assert schema["title"] == "Order"
    assert schema["required"] == ["id"]
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Line"]["additionalProperties"] is False
    assert bound(json_schema(Model, subject_name_strategy="RecordName"), registry).subject == "Model"


def test_a_type_reads_what_an_older_version_of_it_wrote() -> None:
    registry = MemoryRegistry()
    data = bound(json_schema(Line), registry).serialize(Line("i"))
    newer = msgspec.defstruct("Line", [("item", str), ("note", str, "-")])
    assert bound(json_schema(newer), registry).deserialize(data) == newer("i")


def test_a_field_without_a_schema_is_an_error_that_names_it() -> None:
    cls: Any = dataclass(type("Order", (), {"__annotations__": {"field": complex}}))
    with pytest.raises(InvalidSchemaError, match=r"Order\.field: there is no schema for complex"):
        json_schema(cls)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "not a valid JSON Schema"),
        ('{"type": "text"}', "not a valid JSON Schema"),
        ('{"pattern": "(?=a)b"}', "not a valid JSON Schema"),
        ('{"$ref": "http://127.0.0.1:9/schema.json"}', "there is no reference named http://127.0.0.1:9/schema.json"),
        ('{"$ref": "file:///etc/passwd"}', "there is no reference named file:///etc/passwd"),
        ('{"items": ' * 400 + "{}" + "}" * 400, "nested more than 300 levels"),
        ("missing.json", "neither a schema nor a file"),
    ],
)
def test_a_wrong_schema_is_refused_when_the_serde_is_built(schema: str, message: str) -> None:
    with pytest.raises(InvalidSchemaError, match=message):
        json_schema(schema)


def test_a_schema_may_refer_to_others() -> None:
    address = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    bound(json_schema(address), registry, "addresses").serialize({"city": "Ulm"})
    order = {"type": "object", "properties": {"to": {"$ref": "address.json"}}}
    orders = bound(json_schema(order, references=[("address.json", "addresses-value", 1)]), registry, "with-reference")
    written = orders.serialize({"to": {"city": "Metz"}})
    assert bound(json_schema(), registry, "with-reference").deserialize(written) == {"to": {"city": "Metz"}}
    with pytest.raises(SerializationError, match="required property"):
        orders.serialize({"to": {}})


def test_an_application_uses_json_schema() -> None:
    app = App("shop")
    lines = app.stream("lines", value=json_schema(Line))
    lines.group_by_key().reduce(lambda a, b: Line(b.item, a.price + b.price), store="sums").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.input("lines").pipe("k", Line("i", 1.0))
        driver.input("lines").pipe("k", Line("j", 2.0))
        assert driver.output("out").read_values() == [Line("i", 1.0), Line("j", 3.0)]
        assert driver.registry.schema(1).type == "JSON"


def test_a_payload_of_endless_recursion_does_not_end_the_process() -> None:
    out = in_subprocess("""
        from millstream import json_schema
        from millstream.errors import DeserializationError
        tree = '{"title": "T", "type": "object", "properties": {"n": {"$ref": "#"}}}'
        for schema in (tree, "{}"):
            for depth in (5_000, 1_000_000):
                for payload in (b'{"n":' * depth + b"{}" + b"}" * depth, b"[" * depth):
                    try:
                        json_schema(schema, registry=None).deserialize(payload)
                    except DeserializationError:
                        print("error")
    """)
    assert out.split() == ["error"] * 8


def test_a_pattern_cannot_take_exponential_time() -> None:
    serde: Any = json_schema({"type": "string", "pattern": "^(a+)+$"}, registry=None)
    began = time.perf_counter()
    with pytest.raises(DeserializationError):
        serde.deserialize(b'"' + b"a" * 100_000 + b'b"')
    assert time.perf_counter() - began < 5


@pytest.mark.timeout(120)
def test_random_and_mutated_payloads_are_errors_or_values() -> None:
    registry = MemoryRegistry()
    typed = bound(json_schema(Order), registry)
    samples = [typed.serialize(Order("o", [Line("ä", 2.5e10)], Order("p")))]
    values, errors = read_all(typed.deserialize, samples)
    assert values > 0
    assert errors > 0
    read_all(bound(json_schema(), registry).deserialize, samples)


def test_a_wrong_schema_of_the_registry_is_the_error_of_its_record() -> None:
    registry = MemoryRegistry()
    registry.register("orders-value", Schema('{"type": "text"}', "JSON"))
    with pytest.raises(DeserializationError, match="not a valid JSON Schema"):
        bound(json_schema(), registry).deserialize(b"\x00\x00\x00\x00\x01{}")
