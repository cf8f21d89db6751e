"""Workers of real-time execution as jobs of Spark. The workers here only report, or misbehave."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.fault.killing import MARK, processes, wait_until_gone
from tests.processes import below
from tests.spark.cluster import JAVA, Cluster, standalone_cluster
from tests.unit.runtime.real_time.workers import coordinator_of, wait_for

from millstream import App
from millstream.errors import ConfigError, MillstreamError, ProcessingError, RunError, SetupError
from millstream.log import open_log
from millstream.runtime.program.program import Program
from millstream.runtime.real_time import pool
from millstream.runtime.real_time.link import Link
from millstream.runtime.real_time.messages import Assignment, Report
from millstream.runtime.spark.session import import_pyspark
from millstream.runtime.start.prepared_application import PreparedApplication
from millstream.stages.task_id import TaskId

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

import_pyspark()
from millstream.runtime.spark import workers  # noqa: E402  (it imports PySpark)

Work = Callable[[Program, Assignment, Link, Path | None], None]
Start = Callable[..., "Running"]


def worker(misbehave: Callable[[Assignment, Path], None] = lambda _assignment, _directory: None) -> Work:
    """A worker that reports its process, and then waits for the order to stop. Spark sends it by value."""

    def work(_program: Program, assignment: Assignment, link: Link, directory: Path | None) -> None:
        import os
        import time

        from millstream.runtime.real_time.messages import Report

        link.begin({})
        print("hello from", assignment.name)
        assert directory is not None
        misbehave(assignment, directory)
        link.send(Report(assignment.worker, assignment.start, progress=f"pid {os.getpid()}"))
        while not link.orders().is_stopping:
            time.sleep(0.005)

    return work


class Running:
    """Workers on Spark."""

    def __init__(self, directory: Path, work: Work, count: int, settings: dict[str, int | str]) -> None:
        with open_log(directory) as log:
            log.create_topic("in", 2)
        app = App("workers", config={"state.dir": str(directory), "restart.backoff.ms": 1, **settings})
        app.stream("in", value=str).to("out")
        self.application = PreparedApplication(app.topology(), app.config)
        self.messages: list[str] = []
        self.reports: list[Report] = []
        self.workers = workers.SparkWorkers(
            self.application.program, self.application.directory, self.messages.append, work
        )
        self.slots = self.workers.open()
        self.coordinator = coordinator_of(count, self.workers.orders_changed)
        self._assignments = [Assignment(number, 1, [(TaskId(0, number), number)], ["in"]) for number in range(count)]

    def start(self) -> None:
        self.workers.start(self._assignments, self.coordinator, self.reports.append)

    def pid(self, number: int, start: int = 1) -> int | None:
        """The process of a start of a worker, once it has reported."""
        said = [r.progress for r in self.reports if (r.worker, r.start) == (number, start) and r.progress]
        return int(said[0].removeprefix("pid ")) if said else None

    def poll_until(self, condition: Callable[[], object]) -> None:
        while not condition():
            self.workers.poll(0.05)

    def failure(self) -> MillstreamError:
        with pytest.raises(MillstreamError) as raised:
            self.poll_until(lambda: False)
        return raised.value

    def close(self) -> None:
        self.workers.close()
        self.application.close()
        pids = [report.progress.removeprefix("pid ") for report in self.reports if report.progress]
        wait_for(lambda: not any(Path("/proc", pid).exists() for pid in pids), "for the end of the processes")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[Running] = []

    def make(work: Work | None = None, count: int = 2, *, begin: bool = True, **settings: int | str) -> Running:
        running.append(Running(tmp_path / str(len(running)), work or worker(), count, settings))
        if begin:
            running[-1].start()
        return running[-1]

    yield make
    for one in reversed(running):
        one.close()


def test_workers_run_at_the_same_time_and_a_killed_one_starts_again_alone(start: Start) -> None:
    running = start()
    running.poll_until(lambda: running.pid(0) and running.pid(1))
    for number in range(1, 6):  # more often than Spark tries a task
        os.kill(running.pid(0, number) or 0, signal.SIGKILL)
        running.poll_until(partial(running.pid, 0, number + 1))
    assert running.pid(1, start=2) is None
    assert len(running.messages) == 5
    running.poll_until(lambda: len([line for report in running.reports for line in report.printed]) >= 2)
    running.coordinator.stop()
    running.workers.stop(10)
    assert [report.phase for report in running.reports].count("ended") == 2


def test_slots_that_other_applications_hold_are_reported_at_the_start(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start()
    first.poll_until(lambda: first.pid(0) and first.pid(1))
    monkeypatch.setattr(workers, "_LOCAL_SLOT_SECONDS", 0.1)
    second = start(count=first.slots, begin=False)
    with pytest.raises(SetupError, match=f"the session has {first.slots}, and other jobs hold 2"):
        second.start()


@pytest.mark.parametrize("reaches", [True, False])
def test_a_stopped_process_is_ended_and_its_worker_starts_again(
    start: Start, monkeypatch: pytest.MonkeyPatch, *, reaches: bool
) -> None:
    """The driver ends a process on its own machine. On other machines, Spark's executor does."""
    if not reaches:
        monkeypatch.setattr(pool, "_kill", lambda _connection: False)
    running = start(count=1, session_timeout_ms=4000)
    running.poll_until(lambda: running.pid(0))
    os.kill(running.pid(0) or 0, signal.SIGSTOP)
    running.poll_until(lambda: running.pid(0, start=2))
    assert "sent no heartbeat" in running.messages[0]


def wrong(_assignment: Assignment, directory: Path) -> None:
    with (directory / "attempts").open("a") as attempts:
        attempts.write("x")
    raise ProcessingError("the function is wrong", hint="correct it")


def unexpected(_assignment: Assignment, directory: Path) -> None:
    with (directory / "attempts").open("a") as attempts:
        attempts.write("x")
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("misbehave", "error"),
    [
        (wrong, ProcessingError("the function is wrong", hint="correct it")),
        (unexpected, RunError("worker 0 failed: ZeroDivisionError: division by zero")),
    ],
)
def test_an_error_of_the_application_is_reported_and_not_tried_again(
    start: Start, misbehave: Callable[[Assignment, Path], None], error: MillstreamError
) -> None:
    running = start(worker(misbehave), count=1)
    failure = running.failure()
    assert (type(failure), failure.message, failure.hint) == (type(error), error.message, error.hint)
    assert (running.application.directory / "workers" / "attempts").read_text() == "x"


def crash(_assignment: Assignment, _directory: Path) -> None:
    os._exit(3)


def test_a_worker_that_always_crashes_ends_the_application_with_the_cause(start: Start) -> None:
    running = start(worker(crash), count=1, restart_max_attempts=2)
    failure = running.failure()
    assert type(failure) is RunError
    assert failure.message.startswith("worker 0 was lost 3 times in a row, the last time because ")


def test_more_workers_than_slots_are_refused(start: Start) -> None:
    running = start(count=1, begin=False)
    running = start(count=running.slots + 1, begin=False)
    with pytest.raises(SetupError, match=f"{running.slots + 1} workers need a slot of Spark each"):
        running.start()


def test_spark_connect_is_refused(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    running = start(count=1, begin=False)
    monkeypatch.setattr(workers, "is_remote", lambda: True)
    with pytest.raises(SetupError, match="Spark Connect"):
        running.workers.open()


SCRIPT = """
import sys, time
from pathlib import Path
from tests.spark.test_workers import Running, worker

count = int(sys.argv[2])
running = Running(Path(sys.argv[1]), worker(), count, dict(argument.split("=", 1) for argument in sys.argv[3:]))
running.start()
running.poll_until(lambda: all(running.pid(number) for number in range(count)))
print(*(running.pid(number) for number in range(count)), flush=True)
try:
    running.poll_until(lambda: running.pid(0, 2))
    print(running.pid(0, 2), flush=True)
    running.poll_until(lambda: False)
except Exception as error:
    print(error.message, flush=True)
"""


@contextlib.contextmanager
def separate_driver(directory: Path, mark: str, count: int, *settings: str) -> Iterator[subprocess.Popen[str]]:
    """A driver in a process of its own. It prints the processes of its workers, of a second start, and its error."""
    environment = {**os.environ, MARK: mark, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", SCRIPT, str(directory), str(count), *settings]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("victim", ["driver", "java"])
def test_no_process_is_left_after_the_kill_of(tmp_path: Path, victim: str) -> None:
    mark = uuid.uuid4().hex
    with separate_driver(tmp_path, mark, 2, "spark.master=local[2]") as process:
        pids = [int(pid) for pid in line(process).split()]
        assert set(pids) <= set(processes(mark))
        os.kill(pids[0], signal.SIGSTOP)
        if victim == "driver":
            process.kill()
        else:
            for pid in processes(mark, "java", "SparkSubmit"):
                os.kill(pid, signal.SIGKILL)
            assert line(process) == "the application stopped: Spark's Java process has ended"
        process.wait(60)
    wait_until_gone(mark)


def test_a_worker_whose_executor_is_lost_comes_up_on_another_one(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    with standalone_cluster(tmp_path, workers=2, cores=1) as cluster:
        settings = [f"spark.master={cluster.url}", "spark.executor.cores=1", "spark.executor.memory=600m"]
        settings.append(f"spark.executor.extraJavaOptions={JAVA}")
        with separate_driver(tmp_path / "data", mark, 1, *settings) as process:
            first = executor_of(int(line(process)), cluster)
            os.kill(first, signal.SIGKILL)
            assert executor_of(int(line(process)), cluster) != first
    wait_until_gone(mark)
    wait_until_gone(cluster.mark)


def executor_of(pid: int, cluster: Cluster) -> int:
    """The executor in which a process runs."""
    (executor,) = [executor for executor in cluster.executors() if pid in {child.pid for child in below(executor)}]
    return executor


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"spark.dynamicAllocation.enabled": "true"}, "spark.dynamicAllocation.minExecutors"),
        (
            {
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.minExecutors": "1",
                "spark.executor.cores": "3",
            },
            "spark.dynamicAllocation.minExecutors",
        ),
        (
            {"spark.python.worker.killOnIdleTimeout": "true", "spark.python.worker.idleTimeoutSeconds": "60s"},
            "spark.python.worker.killOnIdleTimeout",
        ),
    ],
)
def test_settings_under_which_workers_cannot_last_are_refused(settings: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        workers.check_settings(settings, 4)
    assert key in (raised.value.hint or "")


def test_dynamic_allocation_with_enough_slots_is_accepted() -> None:
    settings = {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.minExecutors": "2"}
    workers.check_settings({**settings, "spark.executor.cores": "2"}, 4)
