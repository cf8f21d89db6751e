"""Keys with schemas: one id for each application, and one row for each key, whatever version it was written with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millstream import App, TestDriver, avro, json_schema, protobuf
from millstream.errors import IncompatibleTopologyError
from millstream.log import Log, Scope, open_log
from millstream.registry.api import Schema
from millstream.registry.embedded import EmbeddedRegistry
from millstream.runtime.start.application_state import read_state
from tests.schemas.evolution import Mode, produce, run

MODES: tuple[Mode, ...] = ("micro_batch", "local")
CONFIG: dict[str, Any] = {}


def customer(*fields: str) -> dict[str, Any]:
    """An Avro record with these fields; all but the first have a default."""
    first, *others = fields
    return {
        "type": "record",
        "name": "Customer",
        "fields": [
            {"name": first, "type": "string"},
            *({"name": name, "type": "string", "default": "?"} for name in others),
        ],
    }


ONE, TWO = customer("id"), customer("id", "region")

PROTO = 'syntax = "proto3"; message Customer { string id = 1; %s }'
JSON = '{"type": "object", "properties": {"shop": {"type": "string"}, "id": {"type": "string"}}}'


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    monkeypatch.setenv("MILLSTREAM_DATA", str(tmp_path))
    # A process finds a registry by the data directory of the configuration.
    monkeypatch.setattr("tests.schemas.test_keys.CONFIG", {"status": "none", "state.dir": str(tmp_path)})
    log = open_log(tmp_path)
    log.create_topic("orders", 1)
    log.create_topic("counted", 1)
    return log


def counting(key: Any) -> App:
    app = App("shop", config=CONFIG)
    app.stream("orders", key=key, value=str).group_by_key().count(store="counts").to_stream().to("counted")
    return app


@pytest.mark.parametrize("mode", MODES)
def test_the_keys_of_an_application_stay_with_the_id_of_its_first_start(log: Log, tmp_path: Path, mode: Mode) -> None:
    produce(log, "orders", tmp_path, ((avro(ONE), {"id": "ann"}), b"o1"))
    run(counting(avro(ONE)), mode)
    registry = EmbeddedRegistry(tmp_path)
    pinned = registry.latest("shop-counts-changelog-key").id
    state = log.applications.state(Scope("shop"))
    registry.register("shop-counts-changelog-key", Schema(avro(TWO).schema.text))  # type: ignore[attr-defined]
    subjects = registry.subjects()
    newer = registry.latest("shop-counts-changelog-key").id
    assert newer != pinned
    with pytest.raises(IncompatibleTopologyError) as refused:
        run(counting(avro(TWO)), mode)
    message = str(refused.value)
    assert "counts (of orders-count): incompatible" in message
    change = f"the schema of its keys (subject shop-counts-changelog-key) had id {pinned}, and now has id {newer}"
    assert change in message
    assert "remedy: give the serde of the keys its former schema" in message
    assert registry.subjects() == subjects
    assert log.applications.state(Scope("shop")) == state, "a refused start changes nothing"
    produce(log, "orders", tmp_path, ((avro(TWO), {"id": "ann", "region": "EU"}), b"o2"))
    run(counting(avro(ONE)), mode)
    assert counting(avro(ONE)).store("counts").get({"id": "ann"}) == 2, "the row of the key, whatever its version"


@pytest.mark.parametrize("mode", MODES)
def test_keys_of_a_serde_without_a_schema_stay_with_the_first_id_although_the_subject_has_a_later_one(
    log: Log, tmp_path: Path, mode: Mode
) -> None:
    produce(log, "orders", tmp_path, ((avro(ONE), {"id": "ann"}), b"o1"))
    run(counting(avro()), mode)
    registry = EmbeddedRegistry(tmp_path)
    produce(log, "orders", tmp_path, ((avro(TWO), {"id": "ann", "region": "EU"}), b"o2"))
    registry.register("shop-counts-changelog-key", registry.latest("orders-key").schema)
    run(counting(avro()), mode)
    assert counting(avro()).store("counts").get({"id": "ann"}) == 2


def test_a_new_schema_of_keys_that_the_registry_does_not_have_is_refused_and_not_registered(
    log: Log, tmp_path: Path
) -> None:
    produce(log, "orders", tmp_path, ((avro(ONE), {"id": "ann"}), b"o1"))
    run(counting(avro(ONE)), "local")
    with pytest.raises(IncompatibleTopologyError, match=r"had id 1, and now has an id that the registry has not given"):
        run(counting(avro(TWO)), "local")
    assert EmbeddedRegistry(tmp_path).versions("shop-counts-changelog-key") == [1]


def test_a_new_schema_of_the_keys_of_an_output_topic_is_refused(log: Log, tmp_path: Path) -> None:
    def copying(key: Any) -> App:
        app = App("shop", config=CONFIG)
        app.stream("orders", key=avro(), value=str).to("counted", key=key)
        return app

    produce(log, "orders", tmp_path, ((avro(ONE), {"id": "ann"}), b"o1"))
    run(copying(avro(ONE)), "local")
    with pytest.raises(IncompatibleTopologyError) as refused:
        run(copying(avro(TWO)), "local")
    assert "counted (of counted-sink): incompatible" in str(refused.value)
    assert "(subject counted-key) had id 1" in str(refused.value)


def test_a_new_schema_of_the_keys_of_a_repartition_topic_is_refused(log: Log, tmp_path: Path) -> None:
    def grouping(key: Any) -> App:
        app = App("shop", config=CONFIG)
        by_customer = app.stream("orders", value=str).select_key(lambda value: {"id": value}, key=key)
        by_customer.repartition(name="by-customer").to("counted")
        return app

    produce(log, "orders", tmp_path, (b"k", b"ann"))
    run(grouping(avro(ONE)), "local")
    with pytest.raises(IncompatibleTopologyError, match=r"shop-by-customer-repartition-key\) had id 1"):
        run(grouping(avro(TWO)), "local")


def test_a_start_after_a_reset_pins_the_new_schema(log: Log, tmp_path: Path) -> None:
    from millstream.runtime.admin import reset

    produce(log, "orders", tmp_path, ((avro(ONE), {"id": "ann"}), b"o1"))
    run(counting(avro(ONE)), "local")
    reset("shop")
    run(counting(avro(TWO)), "local")
    [schema] = read_state(log, "shop").published_plan["stores"]["counts"]["key_schemas"]  # type: ignore[index]
    assert schema["id"] == EmbeddedRegistry(tmp_path).latest("shop-counts-changelog-key").id == 2


def bare_keys(key: Any) -> App:
    app = App("shop", config=CONFIG)
    app.stream("orders", key=key, value=str).group_by_key().count(store="counts")
    return app


def test_another_schema_of_keys_without_ids_is_refused(log: Log, tmp_path: Path) -> None:
    produce(log, "orders", tmp_path, ((avro(ONE, registry=None), {"id": "ann"}), b"o1"))
    run(bare_keys(avro(ONE, registry=None)), "local")
    with pytest.raises(IncompatibleTopologyError, match="the schema of its keys changed, and so may their bytes"):
        run(bare_keys(avro(TWO, registry=None)), "local")
    run(bare_keys(avro({**ONE, "doc": "who ordered"}, registry=None)), "local")


# ----- one row for each key -----------------------------------------------------------------------------------------


def driven(key: Any, *records: tuple[Any, Any]) -> list[tuple[Any, Any]]:
    """The rows after records whose keys were written with other serdes; they pass a repartition topic, too."""
    app = App("rows")
    app.stream("in", key=key, value=str).repartition(name="again").group_by_key().count(store="counts")
    with TestDriver(app) as driver:
        for serde, each in records:
            driver.input("in", key=serde, value=str).pipe(each, "x")
        return list(driver.store("counts").all())


def test_avro_keys_of_all_versions_have_one_row() -> None:
    later = customer("id", "region", "note")
    keys = [(avro(ONE), {"id": "ann"}), (avro(TWO), {"id": "ann"}), (avro(later), {"id": "ann", "note": "vip"})]
    assert driven(avro(TWO), *keys) == [({"id": "ann", "region": "?"}, 3)]


def test_avro_keys_with_maps_have_one_row_whatever_the_order_of_the_map() -> None:
    schema = {"type": "record", "name": "Labels", "fields": [{"name": "of", "type": {"type": "map", "values": "int"}}]}
    keys = [(avro(schema), {"of": {"a": 1, "b": 2}}), (avro(schema), {"of": {"b": 2, "a": 1}})]
    assert driven(avro(schema), *keys) == [({"of": {"a": 1, "b": 2}}, 2)]


def test_json_keys_have_one_row_whatever_the_order_of_their_properties() -> None:
    keys = [(json_schema(JSON), {"id": "1", "shop": "s"}), (json_schema(JSON), {"shop": "s", "id": "1"})]
    assert driven(json_schema(JSON), *keys) == [({"shop": "s", "id": "1"}, 2)]


@pytest.mark.parametrize("own", [protobuf(PROTO % "", "Customer"), protobuf()])
def test_protobuf_keys_of_all_versions_have_one_row(own: Any) -> None:
    newer = protobuf(PROTO % "string region = 2;", "Customer")
    keys = [(protobuf(PROTO % "", "Customer"), {"id": "ann"}), (newer, {"id": "ann", "region": "EU"})]
    [(key, count)] = driven(own, *keys)
    assert (key.id, count) == ("ann", 2)


# ----- keys inside of rows ------------------------------------------------------------------------------------------


def test_a_new_schema_of_keys_that_a_processor_writes_into_rows_is_refused(log: Log, tmp_path: Path) -> None:
    def unique(key: Any) -> App:
        app = App("shop", config=CONFIG)
        app.stream("orders", key=key, value=str).deduplicate("1h", store="seen").to("counted", key=avro(ONE))
        return app

    produce(log, "orders", tmp_path, ((avro(ONE), {"id": "ann"}), b"o1"))
    run(unique(avro(ONE)), "local")
    with pytest.raises(IncompatibleTopologyError, match=r"seen .*\n.*the schema of its keys .* had id 1"):
        run(unique(avro(TWO)), "local")


def test_both_sides_of_a_join_by_foreign_key_have_a_schema_and_one_row_for_each_key(log: Log, tmp_path: Path) -> None:
    log.create_topic("people", 1)
    product = {"type": "record", "name": "Product", "fields": [{"name": "sku", "type": "long"}]}

    def joining(left: Any, right: Any) -> App:
        app = App("shop", config=CONFIG)
        orders = app.table("orders", key=left, value=str)
        products = app.table("people", key=right, value=str)
        joined = orders.join(products, lambda a, b: f"{a} {b}", on=lambda _value: {"sku": 7}, store="joined")
        assert joined is not None
        return app

    produce(log, "orders", tmp_path, ((avro(ONE), {"id": "ann"}), b"o1"))
    produce(log, "people", tmp_path, ((avro(product), {"sku": 7}), b"shoe"))
    run(joining(avro(ONE), avro(product)), "local")
    produce(log, "orders", tmp_path, ((avro(TWO), {"id": "ann", "region": "EU"}), b"o2"))
    produce(log, "people", tmp_path, ((avro(product), {"sku": 7}), b"boot"))
    app = joining(avro(ONE), avro(product))
    run(app, "local")
    assert list(app.store("joined").all()) == [({"id": "ann"}, "o2 boot")]
    changed = {**product, "fields": [*product["fields"], {"name": "size", "type": "int", "default": 0}]}
    with pytest.raises(IncompatibleTopologyError, match=r"subscriptions-store .*\n.*-right-key\) had id"):
        run(joining(avro(ONE), avro(changed)), "local")
