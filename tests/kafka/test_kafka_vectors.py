"""Vectors on a cluster, in micro-batches and in workers: the results are those of Kafka Streams."""

from __future__ import annotations

import os
import random
from itertools import chain

import pytest
from tests.conformance.interpreter import options_of
from tests.conformance.spark_runner import Mode, Vector
from tests.conformance.test_spark_vectors import FAMILIES, check, eligible, family_of, run

from millstream.dev.broker import Broker
from millstream.log.kafka import KafkaLog
from millstream.runtime.real_time import publications

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

LONGEST = 14
"""The greatest number of inputs of a vector: each is a step of its own."""

TOGETHER = 16
"""The number of vectors of an application."""

COUNT_OF_SUITABLE = 190
COUNT = COUNT_OF_SUITABLE if os.environ.get("ALL_VECTORS") else 48
"""How many vectors run: a sample. All of them take about five minutes in each mode."""


def suitable() -> list[Vector]:
    """The vectors of one configuration that can run on a cluster.

    This leaves out records with timestamp 0, which clients replace by the current time, and vectors that show offsets:
    each input is a transaction here, and its control record has an offset, too.
    """
    return [
        vector
        for vector in eligible()
        if options_of(vector) == {"topology.optimization": "none"}
        and len(vector["inputs"]) <= LONGEST
        and all(node.get("processor") != "meta" for node in vector["topology"])
        and all(record.get("ts", 1) > 0 for record in chain(vector["inputs"], *vector["outputs"]))
    ]


def chosen() -> list[Vector]:
    """The vectors that run: one of each family, and others by random choice."""
    shuffled = random.Random(7).sample(suitable(), COUNT_OF_SUITABLE)
    firsts = {family_of(vector): vector for vector in reversed(shuffled)}
    others = [vector for vector in shuffled if vector is not firsts[family_of(vector)]]
    return sorted([*firsts.values(), *others][:COUNT], key=lambda vector: len(vector["inputs"]))


def test_every_family_runs() -> None:
    assert len(suitable()) == COUNT_OF_SUITABLE
    assert {family_of(vector) for vector in chosen()} == set(FAMILIES)


@pytest.mark.parametrize("part", range(-(-COUNT // TOGETHER)))
@pytest.mark.parametrize("mode", ["micro_batch", "real_time"])
def test_step_by_step(mode: Mode, part: int, broker: Broker, log: KafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """In micro-batches without Spark, and in workers of this process."""
    monkeypatch.setenv("MILLSTREAM_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setattr(publications, "_GROUP_OFFSETS_EVERY", 0.0)  # they tell when a step is done
    own = chosen()[part * TOGETHER : (part + 1) * TOGETHER]
    for vector, got in zip(own, run(own, "local", mode=mode), strict=True):
        check(vector, got)
