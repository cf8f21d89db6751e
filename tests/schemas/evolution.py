"""Applications whose schemas change between two runs, in the executions that need no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from millstream import App
from millstream.log import Log, ProducerRecord
from millstream.registry.embedded import EmbeddedRegistry
from millstream.runtime.in_process.batches import InProcessRun
from millstream.schemas.registries import registry_for
from millstream.serde import Serde, SerdeContext

Mode = Literal["micro_batch", "local"]


def run(app: App, mode: Mode) -> None:
    """Processes what is in the topics."""
    if mode == "local":
        app.run(mode="local", until_caught_up=True)
        return
    with InProcessRun(app) as local:
        local.run()


def produce(log: Log, topic: str, directory: Path, *records: tuple[Any, Any], partition: int | None = None) -> None:
    """Produces records; keys and values are pairs of a serde and a value, with the registry of the directory."""
    registry = registry_for(EmbeddedRegistry(directory))
    log.produce(
        topic,
        [
            ProducerRecord(
                _bytes(key, topic, registry, is_key=True),
                _bytes(value, topic, registry, is_key=False),
                1,
                partition=partition,
            )
            for key, value in records
        ],
    )


def _bytes(pair: Any, topic: str, registry: Any, *, is_key: bool) -> bytes | None:
    if pair is None or isinstance(pair, bytes):
        return pair
    serde: Serde[Any] = pair[0]
    return serde.bind(SerdeContext(topic, is_key, registry)).serialize(pair[1])
