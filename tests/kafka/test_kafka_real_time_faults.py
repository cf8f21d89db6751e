"""Real-time execution on a cluster, with workers as threads: crashes and kills, also of the broker, change no result.

The output is read by a consumer that does not use Millstream (`tests.kafka.independent`).
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from tests.clean_children import start, status_of
from tests.fault import model, real_time, smoke
from tests.fault.points import KAFKA, REAL_TIME_ON_KAFKA, WITHOUT_TRANSACTIONS
from tests.kafka import independent
from tests.kafka.conftest import running
from tests.kafka.opening import open_kafka_log
from tests.kafka.real_time_children import run_guarded, run_smoke
from tests.runtime.real_time.guarded import KEYS, guarded

from millstream.core.failpoints import EXIT_STATUS
from millstream.dev.broker import Broker
from millstream.errors import BrokerError
from millstream.log.kafka import KafkaLog
from millstream.runtime.real_time.task_record import topic_of

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

PER_KEY = 60
SEED = 11
BROKER_DEATHS = int(os.environ.get("BROKER_DEATHS", "2"))

AT_THE_START = 10
"""More than the number of transactions before the workers publish: those of the driver and of four workers."""

PROPERTIES = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
"""Settings of a broker that aborts expired transactions soon, instead of every 10 s."""

IMPATIENT = {"producer.transaction.timeout.ms": 2000, "request.timeout.ms": 4000}


@pytest.fixture
def directory(broker: Broker, log: KafkaLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory of an application on the cluster, which has its input."""
    fill(broker, tmp_path / "data", monkeypatch)
    return tmp_path / "data"


def fill(broker: Broker, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    smoke.fill(directory, SEED, PER_KEY)


def run(broker: Broker, directory: Path, point: str | None = None, **config: Any) -> int:
    """Runs the application in a child to its end, or to a crash at a failpoint; returns the child's exit status."""
    return status_of(start(run_smoke, broker.bootstrap_servers, directory, point, config))


@contextlib.contextmanager
def started(broker: Broker, directory: Path, **config: Any) -> Iterator[BaseProcess]:
    """Starts the application in a child; yields the child, and kills it at the end."""
    child = start(run_smoke, broker.bootstrap_servers, directory, None, config)
    try:
        yield child
    finally:
        child.kill()


def check(broker: Broker, directory: Path) -> None:
    findings = model.verify(directory, SEED, PER_KEY, read=independent.reader(broker.bootstrap_servers))
    assert not findings, str(findings)


def committed(log: KafkaLog) -> int:
    """The number of task records, with those of the start and the control records."""
    topic = topic_of(smoke.APPLICATION)
    return sum(log.ends([topic])[topic]) if any(topic == other.name for other in log.topics()) else 0


def wait_for_commits(log: KafkaLog, count: int, is_alive: Callable[[], bool]) -> None:
    """Waits until the workers have committed so many more task records."""
    first: int | None = None

    def has_committed() -> bool:
        nonlocal first
        try:
            now = committed(log)
        except BrokerError:  # the broker has just started
            return False
        first = now if first is None else first
        return now >= first + 2 * count  # each has a control record behind it

    wait_for(has_committed, is_alive)


def wait_for(condition: Callable[[], bool], is_alive: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert is_alive(), "the application has ended"
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)


def test_crashes_at_every_failpoint_with_changing_numbers_of_workers_change_no_result(
    broker: Broker, directory: Path
) -> None:
    dice = random.Random(SEED)
    points = [point for point in REAL_TIME_ON_KAFKA if point != "worker.restoring"]
    dice.shuffle(points)
    points.append("worker.restoring")  # nothing is restored at the first start
    for number, point in enumerate(points):
        passes = 1
        if point in KAFKA:
            passes = AT_THE_START + dice.randrange(6)
        elif point == "worker.restoring":
            for stores in list(directory.rglob("workers")):
                shutil.rmtree(stores)  # so that there is something to restore
        elif not point.startswith("start."):
            passes = dice.randint(1, 4)
        workers = {"num.workers": (4, 2)[number % 2]}
        assert run(broker, directory, f"{point}:{passes}", **workers) == EXIT_STATUS, f"{point} is not reached"
    assert run(broker, directory, None, **{"num.workers": 4}) == 0
    check(broker, directory)


@pytest.mark.parametrize("point", sorted(WITHOUT_TRANSACTIONS))
def test_at_least_once_loses_nothing(point: str, broker: Broker, log: KafkaLog, tmp_path: Path) -> None:
    log.create_topic("in", 1)
    child = start(run_guarded, broker.bootstrap_servers, tmp_path / "data", "at_least_once", f"{point}:5")
    assert status_of(child) == EXIT_STATUS
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    guarded(tmp_path / "data", "at_least_once", **servers).run(until_caught_up=True)
    given = values(broker, "in")
    assert set(values(broker, "out")) == set(given)
    wanted = Counter(number % KEYS for number in given)
    for topic in ("counted", "moved"):
        counts = {message.key(): number(message) for message in independent.messages(broker.bootstrap_servers, topic)}
        assert counts.keys() == {str(key).encode() for key in wanted}
        assert all(counts[str(key).encode()] >= count for key, count in wanted.items())


def values(broker: Broker, topic: str) -> list[int]:
    return [number(message) for message in independent.messages(broker.bootstrap_servers, topic)]


def number(message: Any) -> int:
    return int.from_bytes(message.value(), "big")


def test_a_killed_broker_and_a_transaction_that_times_out_change_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker is killed while the application runs; then the application is stopped inside a transaction."""
    directory, dice = tmp_path / "data", random.Random(SEED)
    with running(Broker(tmp_path / "broker", properties=PROPERTIES)) as broker:
        fill(broker, directory, monkeypatch)
        with (
            open_kafka_log({"bootstrap.servers": broker.bootstrap_servers}, tmp_path / "log") as log,
            started(broker, directory, pause=0.2, **IMPATIENT) as child,
        ):
            for _death in range(BROKER_DEATHS):
                wait_for_commits(log, 2, child.is_alive)
                time.sleep(dice.random() * 0.1)
                broker.kill()
                broker.start()
            wait_for_commits(log, 2, child.is_alive)
            stop_inside_transaction(log, child)
            wait_for(lambda: not is_open(log), child.is_alive)  # the broker aborts it
            send(child, signal.SIGCONT)
            assert status_of(child) == 0
        check(broker, directory)


def send(child: BaseProcess, number: signal.Signals) -> None:
    assert child.pid is not None
    os.kill(child.pid, number)


def is_open(log: KafkaLog) -> bool:
    """Whether a worker has a transaction that is not ended."""
    topics = [topic_of(smoke.APPLICATION)]
    return log.ends(topics) != log.ends(topics, committed=False)


def stop_inside_transaction(log: KafkaLog, child: BaseProcess) -> None:
    """Stops the application when it has written task records and not committed them."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        send(child, signal.SIGSTOP)
        if is_open(log) and is_open(log):  # a commit may still have been on its way
            return
        send(child, signal.SIGCONT)
        time.sleep(0.003)
    raise AssertionError("it is never inside a transaction")


def test_a_second_driver_fences_the_first_one(broker: Broker, log: KafkaLog, directory: Path, tmp_path: Path) -> None:
    """The second one has other workers and another directory, as on another machine."""
    command = [sys.executable, "-m", real_time.__name__, str(directory), "num.workers=4", "pause=0.05"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    other = tmp_path / "other"
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as first:
        try:
            wait_for_commits(log, 3, lambda: first.poll() is None)
            first.send_signal(signal.SIGSTOP)
            assert run(broker, other) == 0
            first.send_signal(signal.SIGCONT)
            assert b"FencedError" in first.communicate()[1]
            assert first.returncode == 1
        finally:
            first.kill()
    check(broker, other)
