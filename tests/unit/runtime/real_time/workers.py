"""Workers in processes of their own, without Spark: each behaves as its test wants."""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.connection
import os
import threading
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess

from millstream.errors import BrokerError, MillstreamError, ProcessingError
from millstream.runtime.messages import TaskResult, failure_of
from millstream.runtime.real_time.channel import ChannelAddress, ChannelLink, join
from millstream.runtime.real_time.coordinator import Coordinator
from millstream.runtime.real_time.messages import Report
from millstream.runtime.real_time.pool import WorkerPool
from millstream.stages.exchange_graph import ExchangeGraph
from millstream.stages.task_id import TaskId

PATIENCE = 60.0

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


def coordinator_of(workers: int, changed: Callable[[], None] = lambda: None) -> Coordinator:
    """A coordinator of tasks without internal topics, one for each worker."""
    tasks = {number: [TaskId(0, number)] for number in range(workers)}
    return Coordinator(ExchangeGraph({}, {}, {0: 0}, {0: 0}, {}), tasks, {}, exact=True, changed=changed)


def wait_for(condition: Callable[[], bool], what: str = "") -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain {what}"
        time.sleep(0.01)


class ProcessJobs:
    """Runs workers as child processes. Implements `Jobs`.

    Args:
        behaviour: What the worker of a number does.
    """

    def __init__(self, behaviour: Callable[[int], str] = lambda _worker: "run") -> None:
        self._behaviour = behaviour
        self.pool: WorkerPool | None = None
        self.address: ChannelAddress | None = None
        self.processes: list[tuple[int, ForkServerProcess]] = []

    def submit(self, worker: int) -> None:
        process = _processes.Process(target=_main, args=(self.address, worker, self._behaviour(worker)))
        process.start()
        self.processes.append((worker, process))
        threading.Thread(target=self._wait, args=(worker, process), daemon=True).start()

    def _wait(self, worker: int, process: ForkServerProcess) -> None:
        multiprocessing.connection.wait([process.sentinel])
        assert self.pool is not None
        process.join()
        if any(number == worker and other.is_alive() for number, other in self.processes):
            return  # the job has another attempt
        self.pool.job_ended(worker, None, None if process.exitcode == 0 else f"exit code {process.exitcode}")

    def cancel(self, worker: int) -> None:
        for number, process in self.processes:
            if number == worker:
                process.kill()

    def why_waiting(self, worker: int) -> str | None:
        return None


def _run(link: ChannelLink, behaviour: str) -> MillstreamError | None:
    number, start = link.assignment.worker, link.assignment.start
    link.begin({("topic", 0): 7})
    link.send(Report(number, start, progress=f"pid {os.getpid()}"))
    if behaviour == "hold the lock" and start == 1:
        while not (link.orders().is_paused or link.orders().is_stopping):  # a pause: the test has its report
            time.sleep(0.005)
        ctypes.PyDLL(None).sleep(1000)  # a call in C that keeps the interpreter lock
    if behaviour == "progress and end":
        link.send(Report(number, start, result=TaskResult((1, "", number))))
        return None
    if behaviour == "fail":
        return ProcessingError("the function is wrong")
    if behaviour == "fail once" and start == 1:
        return BrokerError("the broker is away")
    while not link.orders().is_stopping:
        time.sleep(0.005)
    return None


def _main(address: ChannelAddress, worker: int, behaviour: str) -> None:
    if behaviour == "crash":
        os._exit(3)
    link = join(address, worker)
    if link is not None:
        error = _run(link, behaviour)
        link.end(None if error is None else failure_of(error))
