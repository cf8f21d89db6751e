"""The application on Spark recovers from kills of all its processes, and gives the expected results."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.fault import model, smoke
from tests.fault.killing import LAST, Instance, Tally, kill_and_restart
from tests.fault.points import SPARK

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

KILLS = int(os.environ.get("KILLS", "5"))
PER_KEY = 300
SEED = 20
STOP_SECONDS = 15.0
"""The maximum time of a stop on a busy machine. On a quiet one it takes 10 seconds at most."""


def test_the_application_recovers_from_kills_at_random_times_and_crashes_at_failpoints(tmp_path: Path) -> None:
    """Workers crash at those failpoints that only Spark reaches, at the fourth pass. `make soak` has more kills."""
    lives: list[str | None] = [None] * (KILLS - len(SPARK)) + [f"{point}:4" for point in SPARK]
    random.Random(SEED).shuffle(lives)
    directory, tally, per_key = tmp_path / "data", Tally(), 100 * KILLS
    smoke.fill(directory, SEED, per_key)
    kill_and_restart(directory, SEED, lives, tally, per_key=per_key)
    print(tally.figures())
    assert not tally.findings
    assert (tally.kills, tally.points) == (KILLS, len(SPARK))
    assert tally.share >= 0.6, "too few kills were in the middle of a batch to prove anything"


def test_a_second_instance_is_refused_and_the_first_survives_lost_workers_and_stops_on_a_signal(tmp_path: Path) -> None:
    directory, options = tmp_path / "data", ("--batch", "500")
    smoke.fill(directory, SEED, PER_KEY)
    with Instance(directory, *options) as one, Instance(directory, *options) as other:
        wait_for_one_to_be_refused(one, other)
        running, refused = (one, other) if one.process.poll() is None else (other, one)
        assert refused.process.returncode != 0
        assert "AlreadyRunningError" in refused.output()
        running.wait_for_batches(2)
        dice = random.Random(SEED)
        for words in (["daemon", "pyspark.worker"], ["millstream.runtime.host"]):
            running.wait_for(lambda: running.in_batch, "a batch")
            # The first process is the parent of the others.
            os.kill(dice.choice(sorted(running.processes(*words))[-2:]), signal.SIGKILL)
            running.wait_for_batches(2)
        stop(running, signal.SIGTERM)  # by SIGINT: on a cluster's log, in tests.kafka.test_kafka_faults
    with Instance(directory, *LAST) as instance:
        assert instance.wait() == 0, instance.output()
    findings = model.verify(directory, SEED, PER_KEY)
    assert not findings, str(findings)


def wait_for_one_to_be_refused(*instances: Instance) -> None:
    deadline = time.monotonic() + 60.0
    while all(instance.process.poll() is None for instance in instances):
        assert time.monotonic() < deadline, "both run"
        time.sleep(0.01)


def stop(instance: Instance, number: signal.Signals) -> None:
    """Stops an instance by a signal: with exit status 0, at most one batch to replay, and no process left."""
    started = time.monotonic()
    os.kill(instance.process.pid, number)
    assert instance.wait() == 0, instance.output()
    seconds = time.monotonic() - started
    print(f"{number.name}: stopped after {seconds:.1f} s")
    assert seconds < STOP_SECONDS
    assert instance.last("offsets") - instance.last("commits") <= 1
    instance.seconds_until_gone()
