"""Stores whose values have a schema that changes: a compatible change goes on, another one is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from millstream import App, avro, json_schema, protobuf
from millstream.errors import IncompatibleTopologyError
from millstream.log import Log, Scope, open_log
from millstream.plan.compare import compare
from millstream.registry.embedded import EmbeddedRegistry
from millstream.runtime.start.application_state import read_state
from tests.schemas.evolution import Mode, produce, run

CONFIG: dict[str, Any] = {}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    monkeypatch.setenv("MILLSTREAM_DATA", str(tmp_path))
    # A process finds a registry by the data directory of the configuration.
    monkeypatch.setattr("tests.schemas.test_evolution.CONFIG", {"status": "none", "state.dir": str(tmp_path)})
    log = open_log(tmp_path)
    log.create_topic("orders", 1)
    return log


def keeping(value: Any, make: Callable[[str], Any], name: str = "latest") -> App:
    """Keeps a value of each key in a store, after a repartition. The input is text, so only the store evolves."""
    app = App("shop", config=CONFIG)
    orders = app.stream("orders", key=str, value=str).map_values(make, value=value)
    orders.group_by(lambda key, _value: key, key=str, name="again").reduce(lambda _old, new: new, store=name)
    return app


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}, *fields]}


def properties(required: list[str], **types: str) -> str:
    import json

    each = {name: {"type": of_type} for name, of_type in types.items()}
    return json.dumps({"type": "object", "properties": each, "required": required, "additionalProperties": False})


class Evolution(NamedTuple):
    """A schema, one that reads its values and one that does not; the values, and the reason."""

    before: Any
    after: Any
    broken: Any
    made: tuple[Callable[[str], Any], Callable[[str], Any]]
    read: Callable[[Any], Any]
    rows: tuple[Any, Any]
    reason: str


def message(fields: str) -> str:
    return f'syntax = "proto3"; message Order {{ string id = 1; {fields} }}'


EVOLUTIONS = {
    "avro": Evolution(
        avro(record({"name": "amount", "type": "int"})),
        avro(record({"name": "amount", "type": "double"}, {"name": "currency", "type": "string", "default": "EUR"})),
        avro(record({"name": "amount", "type": "int"}, {"name": "currency", "type": "string"})),
        (lambda text: {"id": text, "amount": 1}, lambda text: {"id": text, "amount": 2.5, "currency": "USD"}),
        dict,
        ({"id": "o1", "amount": 1.0, "currency": "EUR"}, {"id": "o2", "amount": 2.5, "currency": "USD"}),
        "the schema of its values changed: currency",
    ),
    "protobuf": Evolution(
        protobuf(message("int32 amount = 2;"), "Order"),
        protobuf(message("int64 amount = 2; string currency = 3;"), "Order"),
        protobuf(message("string amount = 2;"), "Order"),
        (lambda text: {"id": text, "amount": 1}, lambda text: {"id": text, "amount": 2, "currency": "USD"}),
        lambda order: (order.id, order.amount, order.currency),
        (("o1", 1, ""), ("o2", 2, "USD")),
        "the schema of its values changed: Order.amount",
    ),
    "json": Evolution(
        json_schema(properties(["id"], id="string", amount="integer")),
        json_schema(properties(["id"], id="string", amount="number", currency="string")),
        json_schema(properties(["id", "currency"], id="string", amount="integer", currency="string")),
        (lambda text: {"id": text, "amount": 1}, lambda text: {"id": text, "amount": 2.5, "currency": "USD"}),
        dict,
        ({"id": "o1", "amount": 1}, {"id": "o2", "amount": 2.5, "currency": "USD"}),
        "the schema of its values changed: currency",
    ),
}


@pytest.mark.parametrize("mode", ["micro_batch", "local"])
@pytest.mark.parametrize("format", EVOLUTIONS)
def test_a_store_goes_on_with_a_compatible_schema_and_refuses_another_one(
    log: Log, tmp_path: Path, format: str, mode: Mode
) -> None:
    case = EVOLUTIONS[format]
    produce(log, "orders", tmp_path, (b"a", b"o1"))
    run(keeping(case.before, case.made[0]), mode)
    state = log.applications.state(Scope("shop"))
    with pytest.raises(IncompatibleTopologyError) as refused:
        run(keeping(case.broken, case.made[0]), mode)
    assert "latest (of orders-reduce): incompatible" in str(refused.value)
    assert case.reason in str(refused.value)
    assert "again (of again-repartition): incompatible" in str(refused.value), "its records may be unread"
    assert log.applications.state(Scope("shop")) == state, "a refused start changes nothing"
    produce(log, "orders", tmp_path, (b"b", b"o2"))
    evolved = keeping(case.after, case.made[1])
    run(evolved, mode)
    rows = [case.read(evolved.store("latest").get(key)) for key in ("a", "b")]
    assert rows == list(case.rows), "the row from before is read with the new schema"
    subjects = EmbeddedRegistry(tmp_path).subjects()
    assert subjects == ["shop-again-repartition-value", "shop-latest-changelog-value"]
    assert EmbeddedRegistry(tmp_path).versions("shop-latest-changelog-value") == [1, 2]


def test_a_schema_must_read_the_rows_of_all_versions_and_not_only_those_of_the_last(log: Log, tmp_path: Path) -> None:
    first = avro(record())
    second = avro(record({"name": "note", "type": "string", "default": ""}))
    third = avro(record({"name": "note", "type": "string"}))  # reads what the second wrote, but not the first
    EmbeddedRegistry(tmp_path).set_compatibility("NONE")
    for text, serde in ((b"o1", first), (b"o2", second)):
        produce(log, "orders", tmp_path, (text, text))
        run(keeping(serde, lambda text: {"id": text}), "local")
    run(keeping(second, lambda text: {"id": text}), "local")
    with pytest.raises(IncompatibleTopologyError, match="the schema of its values changed: note"):
        run(keeping(third, lambda text: {"id": text, "note": ""}), "local")
    run(keeping(third, lambda text: {"id": text, "note": ""}, name="latest-v2"), "local")


def test_rows_of_a_serde_without_a_schema_are_compared_with_the_schemas_of_the_subject(
    log: Log, tmp_path: Path
) -> None:
    EmbeddedRegistry(tmp_path).register("orders-value", avro(record()).schema)  # type: ignore[attr-defined]

    def app(value: Any) -> App:
        app = App("shop", config=CONFIG)
        app.stream("orders", key=str, value=value).group_by_key().reduce(lambda _old, new: new, store="latest")
        return app

    produce(log, "orders", tmp_path, (b"a", (avro(record()), {"id": "o1"})))
    run(app(avro()), "local")
    with pytest.raises(IncompatibleTopologyError, match="the schema of its values changed: note"):
        run(app(avro(record({"name": "note", "type": "string"}))), "local")
    evolved = app(avro(record({"name": "note", "type": "string", "default": "-"})))
    run(evolved, "local")
    assert evolved.store("latest").get("a") == {"id": "o1", "note": "-"}


def test_avro_without_a_registry_reads_only_what_the_same_schema_wrote(log: Log, tmp_path: Path) -> None:
    with_default = record({"name": "note", "type": "string", "default": ""})
    produce(log, "orders", tmp_path, (b"a", b"o1"))
    run(keeping(avro(record(), registry=None), lambda text: {"id": text}), "local")
    with pytest.raises(IncompatibleTopologyError, match="Avro without a registry reads only what this schema wrote"):
        run(keeping(avro(with_default, registry=None), lambda text: {"id": text}), "local")
    with pytest.raises(IncompatibleTopologyError, match="had no id of a schema, and now have the id of their schema"):
        run(keeping(avro(record()), lambda text: {"id": text}), "local")


def test_a_schema_that_refers_to_another_one_is_compared_with_it(log: Log, tmp_path: Path) -> None:
    registry = EmbeddedRegistry(tmp_path)
    registry.set_compatibility("NONE")

    def line(of_type: str) -> Any:
        return avro({"type": "record", "name": "Line", "fields": [{"name": "count", "type": of_type}]}).schema  # type: ignore[attr-defined]

    for version, of_type in enumerate(("int", "long", "string"), start=1):
        registry.register("line", line(of_type))
        assert registry.latest("line").version == version
    of = record({"name": "line", "type": "Line"})
    serdes = [avro(of, references=[("Line", "line", version)]) for version in (1, 2, 3)]
    produce(log, "orders", tmp_path, (b"a", b"o1"))
    make = lambda text: {"id": text, "line": {"count": 1}}  # noqa: E731
    run(keeping(serdes[0], make), "local")
    with pytest.raises(IncompatibleTopologyError, match=r"the schema of its values changed: line\.count"):
        run(keeping(serdes[2], make), "local")
    run(keeping(serdes[1], make), "local")
    [schema] = read_state(log, "shop").published_plan["stores"]["latest"]["value_schemas"]  # type: ignore[index]
    assert len(schema["versions"]) == 2


def test_plans_are_compared_without_a_registry() -> None:
    older, newer = EVOLUTIONS["avro"].before, EVOLUTIONS["avro"].after
    comparison = compare(keeping(older, str).plan(), keeping(newer, str).plan())
    assert comparison.compatible
    [store] = comparison.stores
    assert store.notes[0] == "the schema of its values changed; data from before is read with the new one"
    assert not compare(keeping(newer, str).plan(), keeping(older, str).plan()).compatible
