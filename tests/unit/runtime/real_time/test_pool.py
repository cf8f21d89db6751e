from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest
from tests.unit.runtime.real_time.workers import ProcessJobs, coordinator_of

from millstream.config import Config
from millstream.errors import MillstreamError, ProcessingError, RunError
from millstream.runtime.real_time.messages import Assignment, Report
from millstream.runtime.real_time.pool import WorkerPool
from millstream.stages.task_id import TaskId

FAST = {"restart.max.attempts": 3, "restart.backoff.ms": 1}
Start = Callable[..., "Running"]


class Running:
    """A pool of workers in processes of their own."""

    def __init__(self, count: int, behaviour: Callable[[int], str], settings: dict[str, int]) -> None:
        self.jobs = ProcessJobs(behaviour)
        self.messages: list[str] = []
        self.pool = WorkerPool(Config({**FAST, **settings}), self.jobs, self.messages.append, "look there")
        self.jobs.pool = self.pool
        self.reports: list[Report] = []
        self.coordinator = coordinator_of(count, self.pool.orders_changed)
        assignments = [Assignment(number, 4, [(TaskId(0, number), number)], ["in"]) for number in range(count)]
        self.jobs.address = self.pool.open(assignments, self.coordinator, self.reports.append)

    def pid(self, worker: int, start: int = 1) -> int | None:
        """The process of a start of a worker, once it has reported."""
        said = [r.progress for r in self.reports if (r.worker, r.start) == (worker, start) and r.progress]
        return int(said[0].removeprefix("pid ")) if said else None

    def poll_until(self, condition: Callable[[], object]) -> None:
        while not condition():
            self.pool.poll(0.05)

    def failure(self) -> MillstreamError:
        with pytest.raises(MillstreamError) as raised:
            self.poll_until(lambda: False)
        return raised.value

    def started(self, worker: int) -> int:
        """How many times a process was started for a worker."""
        return [number for number, _process in self.jobs.processes].count(worker)


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[Running] = []

    def make(count: int = 1, behaviour: Callable[[int], str] = lambda _worker: "run", **settings: int) -> Running:
        running.append(Running(count, behaviour, settings))
        return running[-1]

    yield make
    for pool in running:
        pool.pool.close(60)
        for _number, process in pool.jobs.processes:
            process.join(60)
            assert process.exitcode is not None


def test_a_killed_worker_starts_again_with_the_next_start_number_and_the_others_go_on(start: Start) -> None:
    running = start(2)
    running.poll_until(lambda: running.pid(0) and running.pid(1))
    os.kill(running.pid(0) or 0, signal.SIGKILL)
    running.poll_until(lambda: running.pid(0, start=2))
    assert (running.started(0), running.started(1)) == (2, 1)
    (message,) = running.messages
    assert message.startswith("worker 0 was lost and starts again: ")
    running.coordinator.stop()
    running.pool.stop(60)
    assert [process.exitcode for _number, process in running.jobs.processes].count(0) == 2


@pytest.mark.parametrize("behaviour", ["run", "hold the lock"])
def test_a_worker_that_stands_still_is_ended_and_starts_again(start: Start, behaviour: str) -> None:
    running = start(1, lambda _worker: behaviour, session_timeout_ms=3000)
    running.poll_until(lambda: running.pid(0))
    if behaviour == "run":
        os.kill(running.pid(0) or 0, signal.SIGSTOP)
    else:
        running.coordinator.pause()
    running.poll_until(lambda: running.pid(0, start=2))
    assert running.jobs.processes[0][1].exitcode == -signal.SIGKILL
    assert running.messages[0].endswith("it sent no heartbeat for 3 s (session.timeout.ms), and was ended")


def test_a_failure_of_the_application_ends_it_and_is_not_tried_again(start: Start) -> None:
    running = start(1, lambda _worker: "fail")
    failure = running.failure()
    assert isinstance(failure, ProcessingError)
    assert failure.message == "the function is wrong"
    assert running.started(0) == 1


def test_a_failure_that_may_pass_starts_the_worker_again(start: Start) -> None:
    running = start(1, lambda _worker: "fail once")
    running.poll_until(lambda: running.pid(0, start=2))
    assert running.messages == ["worker 0 was lost and starts again: the broker is away"]


def test_a_worker_that_is_lost_too_often_ends_the_application_with_the_cause(start: Start) -> None:
    running = start(1, lambda _worker: "crash", restart_max_attempts=2)
    failure = running.failure()
    assert type(failure) is RunError
    assert failure.message == "worker 0 was lost 3 times in a row, the last time because exit code 3"
    assert failure.hint == "restart.max.attempts is 2; look there"
    assert running.started(0) == 3


def test_a_worker_that_commits_between_its_losses_starts_again_each_time(start: Start) -> None:
    running = start(1, lambda _worker: "progress and end", restart_max_attempts=1)
    running.poll_until(lambda: running.pid(0, start=4))
    assert len(running.messages) >= 3


def test_a_second_process_of_a_worker_replaces_the_first(start: Start) -> None:
    running = start(1)
    running.poll_until(lambda: running.pid(0))
    running.jobs.submit(0)  # as Spark does if it cannot reach the executor of the first
    running.poll_until(lambda: running.pid(0, start=2))
    first, second = (process for _number, process in running.jobs.processes)
    first.join(60)
    assert first.exitcode == -signal.SIGKILL
    assert second.exitcode is None
    assert running.coordinator.report(Report(0, start=1)) is False


def test_close_ends_workers_that_do_not_stop(start: Start) -> None:
    running = start(2, lambda worker: "hold the lock" if worker else "run")
    running.poll_until(lambda: running.pid(0) and running.pid(1))
    running.coordinator.stop()
    running.pool.stop(0.1)
    running.pool.close(60)
    assert running.jobs.processes[1][1].exitcode == -signal.SIGKILL
