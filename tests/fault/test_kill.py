"""The application on Spark, killed in every way: it goes on, and gives what it would have given."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.fault import model, smoke
from tests.fault.killing import Instance, Tally, kill_and_restart, ranges_of
from tests.fault.points import SPARK

from millstream.failpoints import EXIT_STATUS
from millstream.log import open_log
from millstream.partitioning import partition_for

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(3000)]

KILLS = int(os.environ.get("KILLS", "10"))
SEED = 20
SOME = 200
"""Records of each key where a run need not be long."""

DRIVER_POINTS = ["driver.batch.received", "driver.batch.published", "log.publish.after-appends"]
WORKER_POINTS = [*SPARK, "host.batch.after-run", "reader.after-read"]


def filled(directory: Path, per_key: int = smoke.PER_KEY) -> Path:
    smoke.fill(directory, SEED, per_key)
    return directory


def check(directory: Path, per_key: int = smoke.PER_KEY) -> None:
    findings = model.verify(directory, SEED, per_key)
    assert not findings, str(findings)


def test_kills_at_random_moments(tmp_path: Path) -> None:
    tally = Tally()
    kill_and_restart(filled(tmp_path / "data"), SEED, KILLS, tally)
    print(tally.figures())
    assert not tally.findings
    assert tally.kills == KILLS
    assert tally.share >= 0.8, "too few were in the middle of a batch: this says nothing"


def test_deaths_at_the_points_that_only_spark_passes(tmp_path: Path) -> None:
    directory = filled(tmp_path / "data", SOME)
    for point in DRIVER_POINTS:
        with Instance(directory, "--batch", "800", point=f"{point}:2") as instance:
            assert instance.wait() == EXIT_STATUS, f"{point}: {instance.output()}"
            instance.seconds_until_gone()
    for point in WORKER_POINTS:
        with Instance(directory, "--batch", "400", "--forever", point=f"{point}:4") as instance:
            before = instance.lost_tasks()
            instance.wait_for(lambda i=instance, b=before: i.lost_tasks() > b, f"a death at {point}")  # type: ignore[misc]
            instance.wait_for_batches(1)
            instance.kill(java=True)
            instance.seconds_until_gone()
    with Instance(directory) as instance:
        assert instance.wait() == 0, instance.output()
    check(directory, SOME)


def test_two_instances_lost_workers_and_hosts_and_a_signal_to_stop(tmp_path: Path) -> None:
    directory = filled(tmp_path / "data")
    with Instance(directory) as one, Instance(directory) as other:
        wait_for_one_to_be_refused(one, other)
        running, refused = (one, other) if one.process.poll() is None else (other, one)
        assert refused.process.returncode != 0
        assert "AlreadyRunningError" in refused.output()
        running.wait_for_batches(2)
        dice = random.Random(SEED)
        for words in (["pyspark.daemon", "pyspark.worker"], ["millstream.runtime.host"]):
            for _ in range(2):
                running.wait_for(lambda: running.in_batch, "a batch")
                # The first process is the one that the others were forked from.
                os.kill(dice.choice(sorted(running.processes(*words))[-2:]), signal.SIGKILL)
                running.wait_for_batches(2)
        stop(running, signal.SIGTERM)
    with Instance(directory, "--forever") as instance:
        instance.wait_for(lambda: instance.done > 0, "its first batch")
        stop(instance, signal.SIGINT)
    with Instance(directory) as instance:
        assert instance.wait() == 0, instance.output()
    check(directory)


def wait_for_one_to_be_refused(*instances: Instance) -> None:
    deadline = time.monotonic() + 60.0
    while all(instance.process.poll() is None for instance in instances):
        assert time.monotonic() < deadline, "both run"
        time.sleep(0.01)


def stop(instance: Instance, number: signal.Signals) -> None:
    """Stops an instance by a signal: well, with no more than one batch to be run again, and with all its processes.

    It should take less than 10 seconds; how long it does take on a busy machine is told, not tested.
    """
    started = time.monotonic()
    os.kill(instance.process.pid, number)
    assert instance.wait() == 0, instance.output()
    print(f"{number.name}: stopped after {time.monotonic() - started:.1f} s")
    assert instance.last("offsets") - instance.last("commits") <= 1
    instance.seconds_until_gone()


def test_at_most_once_does_not_read_a_batch_again(tmp_path: Path) -> None:
    directory = filled(tmp_path / "data", SOME)
    options = ("--batch", "800", "--set", "processing.guarantee=at_most_once")
    with Instance(directory, *options, point="driver.batch.received:3") as instance:
        assert instance.wait() == EXIT_STATUS, instance.output()
        interrupted = instance.last("offsets")
        assert instance.last("commits") == interrupted - 1
        skipped = ranges_of(instance, interrupted, "left")
        assert any(end > start for start, end in skipped)
    with Instance(directory, *options) as instance:
        assert instance.wait() == 0, instance.output()
    expected: dict[str, list[int]] = {}
    offsets = [0] * smoke.PARTITIONS
    for record in smoke.inputs(SEED, SOME)["left"]:
        partition = partition_for(record.key.encode(), smoke.PARTITIONS)
        start, end = skipped[partition]
        if not start <= offsets[partition] < end and record.value is not None:
            expected.setdefault(record.key, []).append(record.value if record.value % 2 else -record.value)
        offsets[partition] += 1
    with open_log(directory) as log:
        assert model.sequences(log, "merged") == expected
        counts = model.sequences(log, "counts-out")
    assert counts == {key: list(range(1, len(values) + 1)) for key, values in expected.items()}
