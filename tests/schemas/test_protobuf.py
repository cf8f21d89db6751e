"""Protobuf: bytes, .proto files, types, imports, evolution, hostile payloads."""

from __future__ import annotations

import importlib.util
import itertools
import pickle
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from google.protobuf import json_format
from google.type import money_pb2
from hypothesis import HealthCheck, given, settings, strategies as st

from millstream import App, TestDriver, protobuf
from millstream.errors import ConfigError, InvalidSchemaError, SerializationError, SetupError
from millstream.registry.api import Schema
from millstream.schemas.protobuf import descriptors
from millstream.schemas.python_types import FieldNumber
from millstream.testing.registry import MemoryRegistry
from tests.schemas.confluent import MockRegistry, bound, value_of
from tests.schemas.hostile import read_all
from tests.schemas.protobuf_schemas import classes, files, fill
from tests.schemas.test_avro_hostile import in_subprocess
from tests.schemas.test_avro_types import EVERYTHING, Everything, Node, OrderDict, OrderModel, OrderStruct, OrderTuple

registry = MockRegistry()
NUMBERS = itertools.count()


@given(st.data())
@settings(max_examples=2 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
def test_both_write_the_same_bytes_and_read_each_others(data: st.DataObject) -> None:
    number = next(NUMBERS)
    file = data.draw(files(f"file-{number}.proto"))
    cls = data.draw(st.sampled_from(classes(file)))
    topic = f"topic-{number}"
    ours, theirs = bound(protobuf(cls), registry, topic), ProtobufSerializer(cls, registry.client)
    for _ in range(3):
        value = fill(data.draw, cls())
        written = ours.serialize(value)
        assert written == theirs(value, value_of(topic))
        assert ours.deserialize(written) == value
        assert ProtobufDeserializer(cls, {}, registry.client)(written, value_of(topic)) == value
        generic = bound(protobuf(), registry, topic).deserialize(written)
        assert generic.DESCRIPTOR.full_name == cls.DESCRIPTOR.full_name
        assert generic.SerializeToString(deterministic=True) == value.SerializeToString(deterministic=True)
        assert protobuf(cls, registry=None).serialize(value) == value.SerializeToString(deterministic=True)


PROTO = """
syntax = "proto3";
package acme;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  string id = 1;
  optional int32 quantity = 2;
  oneof payment { string card = 3; Transfer transfer = 4; }
  map<string, int64> counts = 5;
  google.protobuf.Timestamp placed = 6;
  google.protobuf.StringValue note = 7;
  enum Size { UNKNOWN = 0; LARGE = 1; }
  Size size = 8;
  repeated Order parts = 9;
  message Transfer { string iban = 1; }
}
message Other { string text = 1; }
"""
VALUE = {
    "id": "o1",
    "quantity": 0,
    "transfer": {"iban": "DE00"},
    "counts": {"b": "2", "a": "1"},
    "placed": "2026-01-01T12:00:00Z",
    "note": "n",
    "size": "LARGE",
    "parts": [{"id": "p"}],
}


def test_a_proto_file_is_compiled_and_its_json_form_is_canonical(tmp_path: Path) -> None:
    path = tmp_path / "order.proto"
    path.write_text(PROTO)
    registry = MemoryRegistry()
    serde = bound(protobuf(str(path), "Order"), registry)
    data = serde.serialize(VALUE)
    message = serde.deserialize(data)
    assert json_format.MessageToDict(message) == VALUE
    assert message.HasField("quantity")
    assert message.WhichOneof("payment") == "transfer"
    assert registry.latest("orders-value").schema == Schema(PROTO, "PROTOBUF")
    assert serde.serialize(message) == data
    reversed_ = {**VALUE, "counts": {"a": "1", "b": "2"}}
    assert serde.serialize(reversed_) == data, "maps are written in one order"
    assert json_format.MessageToDict(bound(protobuf(), registry).deserialize(data)) == VALUE
    with pytest.raises(SerializationError, match="no field"):
        serde.serialize({"unknown": 1})


def test_other_messages_of_the_file_have_indexes_of_their_own() -> None:
    for message, indexes in (("Other", b"\x02\x02"), ("Order.Transfer", b"\x04\x00\x02")):  # a map is a message, too
        serde = bound(protobuf(PROTO, message), registry, "indexes")
        data = serde.serialize({})
        assert data[5:] == indexes
        assert bound(protobuf(), registry, "indexes").deserialize(data).DESCRIPTOR.full_name == f"acme.{message}"
        cls = type(serde.deserialize(data))
        assert ProtobufSerializer(cls, registry.client)(cls(), value_of("their-indexes"))[5:] == indexes


def test_a_message_of_another_kind_is_refused() -> None:
    order, other = protobuf(PROTO, "Order", registry=None), protobuf(PROTO, "Other", registry=None)
    with pytest.raises(SerializationError, match=r"it is a acme\.Other, not a acme\.Order"):
        order.serialize(other.deserialize(b""))


@pytest.mark.parametrize(
    ("text", "message", "expected"),
    [
        ("message {", "X", "not a valid Protobuf schema: schema.proto:1:"),
        (PROTO, "Ordr", r"no message 'Ordr'"),
        (PROTO, None, "several messages"),
        ('syntax = "proto3"; import "nowhere.proto"; message A {}', "A", "nowhere.proto"),
        ("missing.proto", "A", "neither a schema nor a file"),
    ],
)
def test_a_wrong_schema_is_refused_when_the_serde_is_built(text: str, message: str | None, expected: str) -> None:
    with pytest.raises(InvalidSchemaError, match=expected):
        protobuf(text, message)


def test_a_name_of_a_message_needs_a_file() -> None:
    with pytest.raises(ConfigError, match=r"belongs to a \.proto file"):
        protobuf(money_pb2.Money, "Money")


ADDRESS = 'syntax = "proto3"; package acme; message Address { string city = 1; }'


@pytest.fixture
def generated(tmp_path: Path) -> Any:
    """A module that protoc has generated, whose file imports another one."""
    (tmp_path / "shared_address.proto").write_text(ADDRESS)
    (tmp_path / "shared_order.proto").write_text(
        'syntax = "proto3"; package acme; import "shared_address.proto";'
        "message Shipment { string id = 1; Address to = 2; }"
    )
    names = ["shared_address.proto", "shared_order.proto"]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{tmp_path}", f"--python_out={tmp_path}", *names]
    subprocess.run(command, check=True)
    modules = {}
    for name in ("shared_address_pb2", "shared_order_pb2"):
        spec = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        modules[name] = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[name])
    yield modules["shared_order_pb2"]
    for name in modules:
        del sys.modules[name]


def test_imported_files_are_registered_as_references(generated: Any, tmp_path: Path) -> None:
    cls = generated.Shipment
    serde = bound(protobuf(cls), registry, "shipments")
    value = cls(id="s", to={"city": "Ulm"})
    data = serde.serialize(value)
    assert data == ProtobufSerializer(cls, registry.client)(value, value_of("shipments"))
    [reference] = registry.latest("shipments-value").schema.references
    assert tuple(reference) == ("shared_address.proto", "shared_address.proto", 1)
    assert json_format.MessageToDict(bound(protobuf(), registry, "shipments").deserialize(data)) == {
        "id": "s",
        "to": {"city": "Ulm"},
    }
    assert pickle.loads(pickle.dumps(serde)).deserialize(data) == value
    from_files = bound(protobuf(tmp_path / "shared_order.proto"), MemoryRegistry())
    assert from_files.deserialize(from_files.serialize({"to": {"city": "Metz"}})).to.city == "Metz"


def test_a_schema_of_text_may_refer_to_schemas_of_the_registry() -> None:
    registry = MemoryRegistry()
    registry.register("address", Schema('syntax = "proto3"; message Address { string city = 1; }', "PROTOBUF"))
    text = 'syntax = "proto3"; import "address.proto"; message Order { Address to = 1; }'
    serde = bound(protobuf(text, "Order", references=[("address.proto", "address", 1)]), registry)
    data = serde.serialize({"to": {"city": "Ulm"}})
    assert serde.deserialize(data).to.city == "Ulm"
    assert bound(protobuf(), registry).deserialize(data).to.city == "Ulm"


def test_a_reader_of_another_version_keeps_what_it_knows() -> None:
    registry = MemoryRegistry()
    old = bound(protobuf('syntax = "proto3"; message O { string id = 1; int32 gone = 2; }', "O"), registry)
    new = bound(protobuf('syntax = "proto3"; message O { string id = 1; optional int64 added = 3; }', "O"), registry)
    message = new.deserialize(old.serialize({"id": "o", "gone": 5}))
    assert message.id == "o"
    assert not message.HasField("added")
    assert old.deserialize(new.serialize({"id": "o", "added": "7"})).gone == 0


def test_all_types_of_fields_come_back() -> None:
    for options in ({}, {"package": "com.acme"}):
        serde: Any = protobuf(Everything, registry=None, **options)  # type: ignore[call-overload]
        assert serde.deserialize(serde.serialize(EVERYTHING)) == EVERYTHING
        empty = replace(EVERYTHING, number=0, text="", numbers=[], by_name={}, pair=(), unique=frozenset(), either=None)
        assert serde.deserialize(serde.serialize(empty)) == empty


@pytest.mark.parametrize(
    ("cls", "value"),
    [
        (OrderStruct, OrderStruct("o1", 2.5)),
        (OrderDict, {"id": "o1"}),
        (OrderDict, {"id": "o1", "note": ""}),
        (OrderTuple, OrderTuple("o1", 0)),
        (Node, Node(1, Node(2, Node(0)))),
        (OrderModel, OrderModel.model_validate({"id": "o", "price": "2.50", "placedAt": EVERYTHING.when})),
    ],
    ids=lambda item: getattr(item, "__name__", ""),
)
def test_values_come_back_as_the_type(cls: Any, value: Any) -> None:
    registry = MemoryRegistry()
    serde = bound(protobuf(cls), registry)
    assert serde.deserialize(serde.serialize(value)) == value
    assert registry.latest("orders-value").schema.type == "PROTOBUF"


def test_a_type_reads_what_an_older_version_of_it_wrote() -> None:
    @dataclass
    class Old:
        id: str
        gone: int = 0

    @dataclass
    class New:
        id: str
        tags: Annotated[list[str], FieldNumber(4)] = field(default_factory=list)
        quantity: Annotated[int, FieldNumber(3)] = 7

    Old.__name__ = New.__name__ = "Order"
    registry = MemoryRegistry()
    old, new = bound(protobuf(Old), registry), bound(protobuf(New), registry)
    assert new.deserialize(old.serialize(Old("o1", 5))) == New("o1", [], 7)
    assert new.deserialize(new.serialize(New("o1", ["t"], 0))) == New("o1", ["t"], 0)
    assert old.deserialize(new.serialize(New("o2"))) == Old("o2", 0)


@pytest.mark.parametrize(
    ("hint", "default"),
    [
        (list[list[int]], ...),
        (list[int] | None, ...),
        (list[int | None], ...),
        (dict[str, list[int]], ...),
        (str | None, "x"),
        (int | list[str], ...),
    ],
)
def test_a_field_without_a_form_is_an_error_that_names_it(hint: Any, default: Any) -> None:
    body = {"__annotations__": {"field": hint}} | ({} if default is ... else {"field": default})
    cls: Any = dataclass(type("Order", (), body))
    with pytest.raises(InvalidSchemaError, match=r"Order\.field: its type has no form in Protobuf"):
        protobuf(cls)


def test_none_in_a_field_that_is_not_optional_is_refused() -> None:
    with pytest.raises(SerializationError, match="the field value is None"):
        protobuf(Node, registry=None).serialize(Node(None))  # type: ignore[arg-type]


def test_an_application_uses_messages_and_types() -> None:
    app = App("shop")
    orders = app.stream("orders", value=protobuf(PROTO, "Order"))
    nodes = orders.map_values(lambda order: Node(len(order.parts)), value=protobuf(Node))
    nodes.group_by_key().reduce(lambda a, b: Node(a.value + b.value), store="sums").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.input("orders").pipe("k", {"parts": [{}, {}]})
        driver.input("orders").pipe("k", {"parts": [{}]})
        assert driver.output("out").read_values() == [Node(2), Node(3)]
        assert driver.store("sums").get("k") == Node(3)


def test_the_id_and_the_indexes_may_be_in_a_header() -> None:
    registry = MemoryRegistry()
    serde = bound(protobuf(PROTO, "Other"), registry)
    data = serde.serialize({"text": "x"})
    assert serde.deserialize_with_headers(data[7:], (("__value_schema_id", data[:7]),)).text == "x"


def test_a_serde_works_after_it_was_pickled() -> None:
    registry = MemoryRegistry()
    for serde, value in ((protobuf(Node), Node(1)), (protobuf(PROTO, "Other"), {"text": "x"})):
        original = bound(serde, registry)
        data = original.serialize(value)
        copy = pickle.loads(pickle.dumps(original))
        assert copy.serialize(value) == data
        copy.deserialize(data)


def test_text_needs_the_compiler_and_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    with pytest.raises(SetupError) as caught:
        protobuf(PROTO, "Order")
    assert caught.value.hint == 'pip install "millstream[protobuf]"'
    protobuf(Node)  # a type needs no compiler


def test_names_of_files_cannot_leave_the_folder() -> None:
    for name in ("../x.proto", "/tmp/x.proto", "--plugin=x"):
        with pytest.raises(InvalidSchemaError, match="is not the name of a file"):
            descriptors.compiled("schema.proto", {name: "", "schema.proto": ""})


def test_a_payload_of_endless_recursion_does_not_end_the_process() -> None:
    out = in_subprocess("""
        from millstream import protobuf
        from millstream.errors import DeserializationError
        serde = protobuf('syntax = "proto3"; message N { N n = 1; }', "N", registry=None)
        def nested(depth):
            data = b""
            for _ in range(depth):
                size, number = bytearray(), len(data)
                while number > 127:
                    size.append(number & 127 | 128)
                    number >>= 7
                data = b"\\x0a" + bytes((*size, number)) + data
            return data
        serde.deserialize(nested(50))
        for payload in (nested(300), nested(10_000), b"\\x0a\\xff\\xff\\xff\\xff\\x07", b"\\x0b" * 100_000):
            try:
                serde.deserialize(payload)
            except DeserializationError:
                print("error")
    """)
    assert out.split() == ["error"] * 4


@pytest.mark.timeout(120)
def test_random_and_mutated_payloads_are_errors_or_values() -> None:
    registry = MemoryRegistry()
    typed = bound(protobuf(Everything), registry)
    samples = [typed.serialize(EVERYTHING)]
    values, errors = read_all(typed.deserialize, samples)
    assert values > 0
    assert errors > 0
    read_all(bound(protobuf(), registry).deserialize, samples)
    order = bound(protobuf(PROTO, "Order"), registry, "texts")
    read_all(order.deserialize, [order.serialize(VALUE)])
