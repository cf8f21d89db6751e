"""Applications on a cluster that are killed, or whose broker is: no record is lost, duplicated or reordered.

The output is read by a consumer that does not use Millstream (`tests.kafka.independent`).
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.fault import model, smoke
from tests.fault.killing import LAST, Instance
from tests.fault.points import KAFKA
from tests.fault.test_kill import stop
from tests.kafka import independent
from tests.kafka.conftest import running

from millstream.core.failpoints import EXIT_STATUS
from millstream.dev.broker import Broker
from millstream.log.kafka import KafkaLog

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

PER_KEY = 24
RECORDS = 150
SEED = 7
KILLS = 4

BROKER_DEATHS = int(os.environ.get("BROKER_DEATHS", "2"))
PER_KEY_ON_SPARK = int(os.environ.get("PER_KEY_ON_SPARK", "100"))
PROPERTIES = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
"""Settings of a broker that aborts expired transactions soon, instead of every 10 s."""

OPTIONS = ("--batch", "300", "--set", "producer.transaction.timeout.ms=2000", "--set", "request.timeout.ms=4000")

ON_THE_WAY = ["start.acquired", "start.topics-created", "driver.batch.received", "driver.batch.published"]
ON_THE_WAY += ["in-process.after-offsets", "in-process.after-state", "in-process.after-publish"]


@pytest.fixture
def directory(broker: Broker, log: KafkaLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory of an application on the cluster, which has its input."""
    monkeypatch.setenv("MILLSTREAM_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    smoke.fill(tmp_path / "data", SEED, PER_KEY)
    return tmp_path / "data"


def start(directory: Path, point: str | None = None) -> subprocess.Popen[bytes]:
    """Starts the application in a separate process, which crashes at the failpoint if there is one."""
    command = [sys.executable, "-m", "tests.kafka.local_smoke", str(directory), str(RECORDS)]
    return subprocess.Popen(command, env={**os.environ, "MILLSTREAM_FAILPOINT": point} if point else None)


def run(directory: Path, point: str | None = None) -> int:
    """Runs the application until it ends or crashes."""
    return start(directory, point).wait(120)


def check(broker: Broker, directory: Path) -> None:
    findings = model.verify(directory, SEED, PER_KEY, read=independent.reader(broker.bootstrap_servers))
    assert not findings, str(findings)


def test_a_run_without_a_crash_gives_the_expected_results(broker: Broker, directory: Path) -> None:
    assert run(directory) == 0
    check(broker, directory)


def test_a_run_that_crashes_at_every_failpoint_of_the_commit_gives_the_expected_results(
    broker: Broker, directory: Path
) -> None:
    dice = random.Random(SEED)
    deaths = [f"{point}:{dice.randint(1, 4)}" for point in (*KAFKA, *ON_THE_WAY)]
    dice.shuffle(deaths)
    for point in deaths:
        assert run(directory, point) in {EXIT_STATUS, 0}, point
    assert run(directory) == 0
    check(broker, directory)


def test_a_run_that_is_killed_at_random_times_gives_the_expected_results(broker: Broker, directory: Path) -> None:
    dice, commits = random.Random(SEED), directory / "applications" / smoke.APPLICATION / "checkpoint" / "commits"
    for _kill in range(KILLS):
        process = start(directory)
        wanted = len(list(commits.glob("*"))) + dice.randint(1, 4)
        while len(list(commits.glob("*"))) < wanted and process.poll() is None:
            time.sleep(0.005)
        time.sleep(dice.random() * 0.3)
        process.kill()
        assert process.wait() in {-signal.SIGKILL, 0}
    assert run(directory) == 0
    check(broker, directory)


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_kills_of_the_application_and_of_its_broker_change_no_result_on_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, dice = tmp_path / "data", random.Random(SEED)
    with running(Broker(tmp_path / "broker", properties=PROPERTIES)) as broker:
        monkeypatch.setenv("MILLSTREAM_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
        smoke.fill(directory, SEED, PER_KEY_ON_SPARK)
        with Instance(directory, *OPTIONS) as instance:
            instance.wait_for(lambda: instance.done > 0, "its first batch")
            for _death in range(BROKER_DEATHS):
                instance.wait_for(lambda: instance.in_batch, "a batch")
                time.sleep(dice.random() * 0.5)
                broker.kill()
                time.sleep(dice.random())
                broker.start()
                instance.wait_for_batches(1)
            assert broker.pid is not None
            for stopped in ([broker.pid], instance.processes()):  # the coordinator, then the application
                instance.wait_for(lambda: instance.in_batch, "a batch")
                send(stopped, signal.SIGSTOP)
                time.sleep(5.0)  # longer than the timeouts of requests and transactions
                send(stopped, signal.SIGCONT)
                instance.wait_for_batches(1)
            instance.kill(java=True)
        with Instance(directory, *OPTIONS) as instance:
            instance.wait_for_batches(2)
            instance.wait_for(lambda: instance.in_batch, "a batch")
            stop(instance, signal.SIGINT)
        with Instance(directory, *OPTIONS, *LAST) as instance:
            assert instance.wait() == 0, instance.output()
            instance.seconds_until_gone()
        reader = independent.reader(broker.bootstrap_servers)
        findings = model.verify(directory, SEED, PER_KEY_ON_SPARK, read=reader)
        assert not findings, str(findings)


def send(processes: Iterable[int], number: signal.Signals) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
