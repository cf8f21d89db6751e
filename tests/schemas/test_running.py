"""Applications with schemas as they run: the registry is opened from the configuration, in each process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from millstream import App, avro
from millstream.cli.serdes import serdes_of
from millstream.log import ProducerRecord, open_log
from millstream.registry import api
from millstream.runtime.program.program import Program, pack_program, unpack_program
from millstream.schemas.json_values import as_text
from millstream.testing.registry import MemoryRegistry
from tests.schemas.confluent import bound


@dataclass
class Order:
    id: str
    quantity: int = 1


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments with which a registry was opened; it is one in memory."""
    calls: list[Any] = []
    registry = MemoryRegistry()

    def open_registry(config: Any, directory: Path | None = None) -> MemoryRegistry:
        calls.append((config, directory, registry))
        return registry

    monkeypatch.setattr(api, "open_registry", open_registry)
    return calls


def application(directory: Path) -> App:
    app = App("shop", state_dir=str(directory), status="none")
    orders = app.stream("orders", value=avro(Order))
    orders.group_by_key().reduce(lambda a, b: Order(b.id, a.quantity + b.quantity), store="sums").to_stream().to("out")
    return app


@pytest.mark.timeout(120)
def test_an_application_runs_with_avro_values_and_its_store_is_queried(tmp_path: Path, opened: list[Any]) -> None:
    app = application(tmp_path)
    writes = bound(avro(Order), MemoryRegistry())  # the same schema has id 1 in both
    with open_log(tmp_path) as log:
        log.create_topic("orders", partitions=1)
        log.create_topic("out", partitions=1)
        log.produce("orders", [ProducerRecord(b"k", writes.serialize(Order("o", n))) for n in (1, 2)])
    [source] = [node for node in app.topology().plan.nodes if node.name == "orders-source"]
    assert source.value.serialize(Order("o")) == writes.serialize(Order("o"))  # type: ignore[attr-defined]
    app.run(mode="local", until_caught_up=True)
    assert app.store("sums").get("k") == Order("o", 3)
    assert len(opened) == 1, "one registry for each process"
    registry = opened[0][2]
    assert registry.subjects() == ["orders-value", "out-value", "shop-sums-changelog-value"]


def test_the_command_line_reads_topics_with_the_serdes_of_an_application(tmp_path: Path, opened: list[Any]) -> None:
    script = tmp_path / "orders_app.py"
    script.write_text(
        "from millstream import App, avro\napp = App('shop')\napp.stream('orders', value=avro()).to('copies')\n"
    )
    _keys, values = serdes_of(str(script), "orders")
    data = bound(avro(Order), MemoryRegistry()).serialize(Order("o", 2))
    assert as_text(data, values).startswith("(not avro)")
    opened[0][2].register("orders-value", avro(Order).schema)  # type: ignore[attr-defined]
    _keys, values = serdes_of(str(script), "orders")
    assert as_text(data, values) == '{"id": "o", "quantity": 2}'


def test_a_process_that_unpacks_the_program_opens_its_own_registry(tmp_path: Path, opened: list[Any]) -> None:
    from millstream.log.opening import log_location

    app = application(tmp_path / "driver")
    program = Program(app.topology(), app.config, 1, {}, log_location({}, tmp_path / "worker"))
    unpacked = unpack_program(pack_program(program))
    [source] = [node for node in unpacked.topology.plan.nodes if node.name == "orders-source"]
    serde = source.value  # type: ignore[attr-defined]
    assert serde.deserialize(serde.serialize(Order("o", 2))) == Order("o", 2)
    [(config, directory, _registry)] = opened
    assert config["state.dir"] == str(tmp_path / "driver")
    assert directory == tmp_path / "worker"
