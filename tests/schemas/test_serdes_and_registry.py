"""How serdes with schemas use a registry: subjects, options, requests, ids in headers, other processes."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from millstream import App, Record, TestDriver, avro
from millstream.errors import (
    ConfigError,
    DeserializationError,
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegistryError,
    RunError,
    SerializationError,
    SetupError,
    UnknownSchemaError,
)
from millstream.registry.api import Registered, Schema
from millstream.schemas import libraries
from millstream.schemas.registries import registry_for, registry_of
from millstream.serde import SerdeContext
from millstream.testing.registry import MemoryRegistry
from tests.schemas.confluent import bound


@dataclass
class Order:
    id: str
    quantity: int = 1


class CountingRegistry(MemoryRegistry):
    """Counts the requests of serdes."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: Counter[str] = Counter()

    def schema(self, id: int, subject: str | None = None) -> Schema:
        self.requests["schema"] += 1
        return super().schema(id, subject)

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        self.requests[f"register normalize={normalize}" if normalize else "register"] += 1
        return super().register(subject, schema, normalize=normalize)

    def latest(self, subject: str) -> Registered:
        self.requests["latest"] += 1
        return super().latest(subject)


def test_each_schema_is_one_request_and_records_are_none() -> None:
    registry = CountingRegistry()
    writes, reads = bound(avro(Order), registry), bound(avro(), registry)
    for n in range(100):
        assert reads.deserialize(writes.serialize(Order("o", n))) == {"id": "o", "quantity": n}
    assert registry.requests == {"register": 1, "schema": 1}


def test_an_unknown_id_is_asked_for_once_and_is_the_error_of_its_record() -> None:
    registry = CountingRegistry()
    serde = bound(avro(), registry)
    for _ in range(50):
        with pytest.raises(DeserializationError, match="the registry has no schema 99"):
            serde.deserialize(b"\x00\x00\x00\x00\x63abc")
    assert registry.requests == {"schema": 1}


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("TopicName", "orders-value"), ("RecordName", "com.acme.Order"), ("TopicRecordName", "orders-com.acme.Order")],
)
def test_the_subject_follows_the_strategy(strategy: Any, subject: str) -> None:
    registry = MemoryRegistry()
    bound(avro(Order, namespace="com.acme", subject_name_strategy=strategy), registry).serialize(Order("o"))
    assert registry.subjects() == [subject]
    by_config = MemoryRegistry()
    config = App("shop", value_subject_name_strategy=strategy).config
    bound(avro(Order, namespace="com.acme"), registry_for(by_config, config)).serialize(Order("o"))
    assert by_config.subjects() == [subject]


def test_keys_have_a_subject_of_their_own() -> None:
    registry = MemoryRegistry()
    bound(avro(str), registry, is_key=True).serialize("k")
    assert registry.subjects() == ["orders-key"]


def test_a_schema_that_may_not_be_registered_must_be_known() -> None:
    registry = CountingRegistry()
    serde = bound(avro(Order, auto_register_schemas=False), registry)
    with pytest.raises(UnknownSchemaError):
        serde.serialize(Order("o"))
    bound(avro(Order), registry).serialize(Order("o"))
    assert serde.serialize(Order("o"))[:5] == b"\x00\x00\x00\x00\x01"


def test_the_latest_version_can_be_the_schema_to_write_with() -> None:
    @dataclass
    class Newer:
        id: str
        quantity: int = 1
        note: str = "-"

    Newer.__name__ = "Order"
    registry = MemoryRegistry()
    bound(avro(Newer), registry).serialize(Newer("o"))
    data = bound(avro(Order, use_latest_version=True), registry).serialize(Order("o", 2))
    assert bound(avro(), registry).deserialize(data) == {"id": "o", "quantity": 2, "note": "-"}
    assert registry.versions("orders-value") == [1]


def test_normalize_is_passed_on() -> None:
    registry = CountingRegistry()
    bound(avro(Order, normalize_schemas=True), registry).serialize(Order("o"))
    assert registry.requests == {"register normalize=True": 1}


def test_dicts_without_a_schema_are_written_with_the_schema_of_their_topic() -> None:
    app = App("shop")
    app.stream("orders", value=avro()).filter(lambda order: order["quantity"] > 1).to("large")
    with TestDriver(app) as driver:
        driver.input("orders", value=avro(Order)).pipe("k", Order("o", 2))
        assert driver.output("large").read_values() == [{"id": "o", "quantity": 2}]
        assert driver.registry.subjects() == ["large-value", "orders-value"]


def test_dicts_without_any_schema_are_an_error() -> None:
    with pytest.raises(SerializationError, match="there is no schema to write with: subject 'orders-value'"):
        bound(avro(), MemoryRegistry()).serialize({"a": 1})


def test_an_application_uses_types_in_topics_stores_and_repartitions() -> None:
    app = App("shop")
    orders = app.stream("orders", key=avro(str), value=avro(Order))
    sums = orders.group_by(lambda order: order.id, key=avro(str)).reduce(
        lambda a, b: Order(a.id, a.quantity + b.quantity), store="sums"
    )
    sums.to_stream().to("sums")
    with TestDriver(app) as driver:
        driver.input("orders").pipe("k", Order("a", 1))
        driver.input("orders").pipe("k", Order("a", 2))
        assert driver.store("sums").get("a") == Order("a", 3)
        assert driver.output("sums").read_pairs() == [("a", Order("a", 1)), ("a", Order("a", 3))]
        topics = ("orders", "shop-sums-changelog", "shop-sums-repartition", "sums")
        assert driver.registry.subjects() == sorted(f"{t}-{p}" for t in topics for p in ("key", "value"))


def test_a_newer_application_reads_the_older_rows_of_its_store() -> None:
    @dataclass
    class Newer:
        id: str
        quantity: int = 1
        note: str = "-"

    Newer.__name__ = "Order"
    registry = MemoryRegistry()
    row = bound(avro(Order), registry, "shop-sums-changelog").serialize(Order("a", 3))
    assert bound(avro(Newer), registry, "shop-sums-changelog").deserialize(row) == Newer("a", 3)


def test_the_id_of_the_schema_may_be_in_a_header() -> None:
    registry = MemoryRegistry()
    data = bound(avro(Order), registry).serialize(Order("o", 2))
    reads = bound(avro(Order), registry)
    assert reads.deserialize_with_headers(data[5:], (("__value_schema_id", data[:5]),)) == Order("o", 2)
    assert reads.deserialize_with_headers(data, (("__key_schema_id", data[:5]),)) == Order("o", 2)
    with pytest.raises(DeserializationError, match="global id"):
        reads.deserialize_with_headers(data, (("__value_schema_id", b"\x01" + bytes(16)),))


def test_an_application_reads_the_id_in_the_header() -> None:
    app = App("shop")
    app.stream("orders", value=avro(Order)).map_values(lambda order: order.quantity, value=int).to("out")
    with TestDriver(app) as driver:
        framed = bound(avro(Order), driver.registry).serialize(Order("o", 7))
        raw = driver.input("orders", value=bytes)
        raw.pipe(Record("k", framed[5:], 0, (("__value_schema_id", framed[:5]),)))
        raw.pipe(Record("k", framed, 0))
        assert driver.output("out").read_values() == [7, 7]


class AwayRegistry(MemoryRegistry):
    def schema(self, id: int, subject: str | None = None) -> Schema:
        raise RegistryError("the registry does not answer")

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        raise IncompatibleSchemaError("the schema is not compatible")


def test_a_registry_that_is_away_stops_the_application_whatever_the_handler_says() -> None:
    app = App("shop", deserialization_exception_handler="continue", production_exception_handler="continue")
    app.stream("orders", value=avro(Order)).to("out")
    with pytest.raises(RunError, match="does not answer"), TestDriver(app, registry=AwayRegistry()) as driver:
        driver.input("orders", value=bytes).pipe("k", b"\x00\x00\x00\x00\x01abc")
    app = App("shop", production_exception_handler="continue")
    app.stream("in", value=int).map_values(lambda n: Order("o", n), value=avro(Order)).to("out")
    with pytest.raises(RunError, match="not compatible"), TestDriver(app, registry=AwayRegistry()) as driver:
        driver.input("in").pipe("k", 1)


def test_a_record_with_an_unknown_id_goes_to_the_handler() -> None:
    app = App("shop", deserialization_exception_handler="continue")
    app.stream("orders", value=avro(Order)).to("out")
    with TestDriver(app) as driver:
        driver.input("orders", value=bytes).pipe("k", b"\x00\x00\x00\x00\x09abc")
        driver.input("orders").pipe("k", Order("o"))
        assert driver.output("out").read_values() == [Order("o")]


def test_a_pickled_serde_has_neither_client_nor_secret() -> None:
    url = "http://anna:hunter2@registry.example"
    app = App("shop", config={"state.dir": "data"})
    reference = registry_of("shop", {**app.config, "schema.registry.url": url, "schema.registry.token": "hunter2"})
    serde = avro(Order).bind(SerdeContext("orders", is_key=False, registry=reference))
    packed = pickle.dumps(serde)
    assert b"hunter2" not in packed
    assert b"registry.example" in packed
    assert pickle.loads(packed) == serde


def test_a_serde_works_after_it_was_pickled() -> None:
    registry = CountingRegistry()
    serde = bound(avro(Order), registry)
    serde.serialize(Order("o"))
    other = pickle.loads(pickle.dumps(serde))
    assert other.deserialize(other.serialize(Order("o", 3))) == Order("o", 3)
    assert registry.requests == {"register": 2, "schema": 1}


def test_a_process_without_the_configuration_says_so() -> None:
    serde = bound(avro(Order), registry_for(MemoryRegistry())._replace(name="nobody"))
    with pytest.raises(RegistryError, match="does not have the configuration"):
        serde.serialize(Order("o"))
    with pytest.raises(RegistryError, match="not used by an application"):
        avro(Order).serialize(Order("o"))


def test_records_of_other_formats_are_refused() -> None:
    registry = MemoryRegistry()
    registry.register("orders-value", Schema("{}", "JSON"))
    serde = bound(avro(Order), registry)
    for data, message in (
        (b"", "does not begin with a zero byte"),
        (b"{}", "does not begin with a zero byte"),
        (b"\x00\x00", "does not begin with a zero byte"),
        (b"\x00\x00\x00\x00\x01{}", "schema 1 is of type JSON"),
    ):
        with pytest.raises(DeserializationError, match=message):
            serde.deserialize(data)


def test_null_is_null() -> None:
    serde = bound(avro(Order), MemoryRegistry())
    assert serde.serialize(None) is None
    assert serde.deserialize(None) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"registry": "http://x"}, "registry='http://x'"),
        ({"subject_name_strategy": "Topicname"}, "no subject name strategy"),
        ({"auto_register_schemas": "yes"}, "neither True nor False"),
        ({"auto_registr_schemas": True}, "there is no option"),
    ],
)
def test_wrong_options_are_refused_when_the_serde_is_built(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        avro(Order, **options)


def test_without_a_registry_a_schema_is_needed() -> None:
    with pytest.raises(ConfigError, match="without a registry it needs a schema"):
        avro(registry=None)


@pytest.mark.parametrize("schema", ["{", '{"type": "record"}', '{"type": "unknown"}', "missing.avsc", "[" * 2000])
def test_a_wrong_schema_is_refused_when_the_serde_is_built(schema: str) -> None:
    with pytest.raises(InvalidSchemaError):
        avro(schema)


def test_a_missing_library_is_an_error_with_the_command_that_installs_it() -> None:
    with pytest.raises(SetupError) as caught:
        libraries.library("no_such_module", "fastavro", "avro")
    assert caught.value.hint == 'pip install "millstream[avro]"'
