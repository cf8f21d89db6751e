"""A sample of the vectors, on a cluster: the results are those of Kafka Streams."""

from __future__ import annotations

import random
from itertools import chain

import pytest
from tests.conformance.interpreter import options_of
from tests.conformance.spark_runner import Vector
from tests.conformance.test_spark_vectors import check, eligible, run

from millstream.dev.broker import Broker
from millstream.log.kafka import KafkaLog

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SAMPLE = 48
LONGEST = 14
TOGETHER = 16


def sample() -> list[Vector]:
    """A random sample of vectors of one configuration.

    It leaves out records with timestamp 0, which clients replace by the current time, and vectors that show offsets:
    each input is a transaction here, and its control record has an offset, too.
    """
    timed = [
        vector
        for vector in eligible()
        if options_of(vector) == {"topology.optimization": "none"}
        and len(vector["inputs"]) <= LONGEST
        and all(node.get("processor") != "meta" for node in vector["topology"])
        and all(record.get("ts", 1) > 0 for record in chain(vector["inputs"], *vector["outputs"]))
    ]
    return sorted(random.Random(7).sample(timed, SAMPLE), key=lambda vector: len(vector["inputs"]))


@pytest.mark.parametrize("part", range(SAMPLE // TOGETHER))
def test_step_by_step(part: int, broker: Broker, log: KafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    chosen = sample()[part * TOGETHER : (part + 1) * TOGETHER]
    for vector, got in zip(chosen, run(chosen, "local"), strict=True):
        check(vector, got)
