"""The application of the kill tests on a cluster: executors are processes of their own, and one of them is killed."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
from tests.fault import model, smoke
from tests.fault.killing import Instance, wait_until_gone
from tests.spark.cluster import standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SEED = 30


def test_an_executor_is_killed_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    smoke.fill(directory, SEED)
    dice = random.Random(SEED)
    with standalone_cluster(tmp_path) as cluster:
        options = ["--batch", "1500", "--set", f"spark.master={cluster.url}", "--set", "spark.executor.memory=600m"]
        with Instance(directory, *options) as instance:
            for _ in range(2):
                instance.wait_for_batches(2)
                instance.wait_for(lambda: instance.in_batch and len(cluster.executors()) == 2, "a batch on both")
                victim = dice.choice(cluster.executors())
                os.kill(victim, signal.SIGKILL)
                instance.wait_for(lambda v=victim: v not in cluster.executors(), "the end of the executor")  # type: ignore[misc]
            assert instance.wait() == 0, instance.output()
            assert instance.lost_executors() >= 2
            instance.seconds_until_gone()
    wait_until_gone(cluster.mark)
    findings = model.verify(directory, SEED)
    assert not findings, str(findings)
