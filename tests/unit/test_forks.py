"""Children that tests fork, in a process that has used Kafka."""

from __future__ import annotations

import gc

from confluent_kafka import Producer
from tests.unit.log.helpers import in_child


def test_a_garbage_collection_in_a_child_does_not_destroy_clients_of_its_parent() -> None:
    gc.collect()
    for _ in range(3):
        cycle: list[object] = [Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})]
        cycle.append(cycle)
    del cycle

    def child() -> None:
        assert gc.isenabled()
        gc.collect()

    assert in_child(child) == 0
    assert gc.isenabled()
