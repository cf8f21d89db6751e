"""Throughput of a count whose input has values with a schema, beside the same with JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench.inputs import Numbers, preload, uniform
from bench.measuring import Figure
from bench.running import Bench, Watch, check_count
from bench.throughput_cases import KEYS, rate

from millstream import avro
from millstream.registry.embedded import EmbeddedRegistry
from millstream.schemas.registries import registry_for
from millstream.serde import Serde, SerdeContext, serde_for

_DIFFERENT = 1_000


@dataclass
class Order:
    """The values of all cases."""

    id: str
    amount: float
    quantity: int
    currency: str = "EUR"
    express: bool = False


def schema_count(bench: Bench) -> list[Figure]:
    """Counts 100 k keys of orders whose quantity is above 0: each value is decoded."""
    kinds: list[tuple[str, Any, Any]] = [
        ("JSON, dataclass", Order, lambda order: order.quantity > 0),
        ("Avro, dataclass", avro(Order), lambda order: order.quantity > 0),
        ("Avro, dicts", avro(), lambda order: order["quantity"] > 0),
    ]
    return [rate("schema-count", what, _counted(bench, value, positive)) for what, value, positive in kinds]


def _counted(bench: Bench, value: Any, positive: Any) -> Any:
    records = uniform(bench.size(2_000_000, 300_000), KEYS)
    with bench.data("schema-count") as (directory, log):
        encoded = _orders(value, directory)

        def values(times: Numbers) -> pa.Array:
            return encoded.take(pa.array(np.asarray(times) % _DIFFERENT))

        preload(log, "in", records, bench.tasks, values=values)
        log.create_topic("out", bench.tasks)
        app = bench.app(directory)
        app.stream("in", value=value).filter(positive).group_by_key().count().to_stream().to("out")
        with app.start() as handle:
            progress = Watch(handle, log, {"in": records}).until(len(records.keys))
        check_count(log, "out", len(records.keys))
        return progress


def _orders(value: Any, directory: Path) -> pa.Array:
    """Returns some orders as the serde of a case writes them."""
    serde: Serde[Any] = serde_for(value, "value")
    if value is not Order:
        # A serde without a schema of its own reads what this one writes.
        serde = avro(Order).bind(SerdeContext("in", False, registry_for(EmbeddedRegistry(directory))))
    orders = [Order(f"order-{number}", number * 0.25, number + 1) for number in range(_DIFFERENT)]
    return pa.array([serde.serialize(order) for order in orders], pa.binary())
