"""JSON Schemas and Protobuf schemas."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from tests.registry import json_cases, protobuf_cases
from tests.registry.avro_cases import Case
from tests.registry.json_cases import STRING, closed, thing
from tests.registry.protobuf_cases import message, proto

from millstream.errors import InvalidSchemaError, SetupError
from millstream.registry import Reference, Schema, SchemaRegistry
from millstream.registry.embedded import EmbeddedRegistry


def make(case: Case, node: Any) -> Schema:
    return Schema(node, "PROTOBUF") if isinstance(node, str) else Schema(json.dumps(node), "JSON")


CASES = [
    *(pytest.param(case, id=f"json-{case.name}") for case in json_cases.CASES),
    *(pytest.param(case, id=f"protobuf-{case.name}") for case in protobuf_cases.CASES),
]


@pytest.mark.parametrize("case", CASES)
def test_a_change_is_judged_in_both_directions_with_the_path(case: Case, embedded: EmbeddedRegistry) -> None:
    """By the rules of Confluent's registry. Those of Apicurio differ for these formats, and cannot be compared."""
    embedded.register("orders-value", make(case, case.old))
    for level, path in (("BACKWARD", case.backward), ("FORWARD", case.forward)):
        embedded.set_compatibility(level)
        problems = embedded.problems("orders-value", make(case, case.new))
        assert {problem.split(": ")[0] for problem in problems} == (set() if path is None else {path})


def test_schemas_of_all_types_are_registered(registry: SchemaRegistry, subject: str) -> None:
    for schema in (Schema(json.dumps(thing({"a": STRING})), "JSON"), Schema(message("int64 a = 1;"), "PROTOBUF")):
        name = f"{schema.type}-{subject}"
        first = registry.register(name, schema)
        assert registry.register(name, schema) == first
        found = registry.schema(first)
        assert found.type == schema.type
        assert registry.lookup(name, schema).version == 1


def test_a_subject_keeps_its_type(embedded: EmbeddedRegistry) -> None:
    embedded.register("orders-value", Schema('"int"'))
    (problem,) = embedded.problems("orders-value", Schema("{}", "JSON"))
    assert problem == "the schema: version 1 is a schema of type AVRO, the new schema of type JSON"


# ----- JSON Schema ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the schema is not JSON"),
        ("5", "it is neither an object nor true or false"),
        ('{"type": "strin"}', "not a JSON Schema: type"),
        ('{"$schema": "http://example.com/draft"}', "not a JSON Schema of a known draft"),
        ('{"$ref": "http://example.com/a.json"}', "refers to 'http://example.com/a.json', which is unknown"),
        ('{"$ref": "#/definitions/a"}', "refers to '#/definitions/a', which is unknown"),
        ('{"not": ' * 300 + "{}" + "}" * 300, "nested more than 200 levels deep"),
    ],
)
def test_what_is_no_json_schema_is_refused(text: str, message: str, embedded: EmbeddedRegistry) -> None:
    with pytest.raises(InvalidSchemaError, match=message):
        embedded.register("orders-value", Schema(text, "JSON"))


def test_a_json_schema_refers_to_another_one(embedded: EmbeddedRegistry) -> None:
    embedded.register("address-value", Schema(json.dumps(closed({"city": STRING})), "JSON"))
    to = closed({"to": {"$ref": "address.json"}})
    old = Schema(json.dumps(to), "JSON", (Reference("address.json", "address-value", 1),))
    embedded.register("customer-value", old)
    (problem,) = embedded.problems("customer-value", Schema(json.dumps(closed({"to": closed({})})), "JSON"))
    assert problem.startswith("to.city: ")


def test_json_schemas_that_differ_in_the_order_of_members_are_one_version(embedded: EmbeddedRegistry) -> None:
    one, other = '{"type":"object","title":"t"}', '{ "title": "t", "type": "object" }'
    first = embedded.register("a-value", Schema(one, "JSON"), normalize=True)
    assert embedded.register("a-value", Schema(other, "JSON"), normalize=True) == first
    assert embedded.versions("a-value") == [1]


def test_a_hostile_pattern_ends(embedded: EmbeddedRegistry) -> None:
    old = {"type": "object", "patternProperties": {"^(a+)+$": STRING}, "additionalProperties": False}
    embedded.register("a-value", Schema(json.dumps(old), "JSON"))
    new = {**old, "properties": {"a" * 60 + "b": STRING}}
    assert embedded.problems("a-value", Schema(json.dumps(new), "JSON")) == []


# ----- Protobuf ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("message {", "line 1", ""),
        (proto('import "other.proto";', "message M {}"), "not found", "an import needs a reference"),
        (message("Nothing n = 1;"), '"Nothing" is not defined', ""),
    ],
)
def test_what_is_no_protobuf_schema_is_refused(text: str, problem: str, hint: str, embedded: EmbeddedRegistry) -> None:
    with pytest.raises(InvalidSchemaError, match=problem) as raised:
        embedded.register("orders-value", Schema(text, "PROTOBUF"))
    assert hint in str(raised.value)


def test_a_protobuf_schema_imports_others(embedded: EmbeddedRegistry) -> None:
    address = proto("package shop;", "message Address { string city = 1; }")
    embedded.register("address-value", Schema(address, "PROTOBUF"))
    text = proto(
        "package shop;",
        'import "shop/address.proto";',
        'import "google/protobuf/timestamp.proto";',
        "message Customer { Address to = 1; google.protobuf.Timestamp since = 2; }",
    )
    reference = Reference("shop/address.proto", "address-value", 1)
    embedded.register("customer-value", Schema(text, "PROTOBUF", (reference,)))
    changed = text.replace("Address to", "string to")
    (problem,) = embedded.problems("customer-value", Schema(changed, "PROTOBUF", (reference,)))
    assert problem == "Customer.to: version 1 has message Address, the new schema string"
    with pytest.raises(InvalidSchemaError, match="is not a path"):
        embedded.register("x", Schema(text, "PROTOBUF", (Reference("../address.proto", "address-value", 1),)))


def test_a_protobuf_schema_may_be_a_descriptor(embedded: EmbeddedRegistry) -> None:
    file = FileDescriptorProto(name="order.proto", syntax="proto3")
    field = file.message_type.add(name="Order").field.add(name="a", number=1)
    field.type, field.label = field.TYPE_INT64, field.LABEL_OPTIONAL
    encoded = base64.b64encode(file.SerializeToString()).decode()
    embedded.register("orders-value", Schema(encoded, "PROTOBUF"))
    assert embedded.problems("orders-value", Schema(message("int64 a = 1;"), "PROTOBUF")) == []
    (problem,) = embedded.problems("orders-value", Schema(message("string a = 1;"), "PROTOBUF"))
    assert problem == "Order.a: version 1 has int64, the new schema string"
    assert embedded.lookup("orders-value", Schema(message("int64 a = 1;"), "PROTOBUF"), normalize=True).version == 1


@pytest.mark.parametrize(
    ("library", "schema", "extra"),
    [
        ("jsonschema_rs", Schema("{}", "JSON"), "jsonschema"),
        ("grpc_tools", Schema(message("int32 zz = 9;"), "PROTOBUF"), "protobuf"),
    ],
)
def test_a_missing_library_is_an_error_with_its_command(
    library: str, schema: Schema, extra: str, embedded: EmbeddedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(SetupError) as raised:
        embedded.register("orders-value", schema)
    assert raised.value.hint == f'pip install "millstream[{extra}]"'
