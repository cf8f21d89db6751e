"""Threads of one application alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from millstream.log.api import Log
from millstream.runtime.threads.api import (
    RunningWorker,
    SerialSteps,
    SupervisorSteps,
    Threads,
    WatchedCall,
    WorkerSteps,
)
from millstream.runtime.threads.serial_thread import SerialThread


class OwnWorker:
    """A worker in a thread of its own. Implements `RunningWorker`.

    Args:
        name: The name of the thread.
        steps: The steps of the worker.
        ended: Called when the worker has failed.
    """

    def __init__(self, name: str, steps: WorkerSteps, ended: Callable[[], None]) -> None:
        self.error: BaseException | None = None
        self._steps = steps
        self._ended = ended
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Does nothing: the worker looks at its orders by itself."""

    def join(self, seconds: float) -> bool:
        """Waits for the end of the thread."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            run_steps(self._steps)
        except BaseException as error:  # noqa: BLE001  (the thread of the supervisor raises it)
            self.error = error
            self._ended()


def run_steps(steps: WorkerSteps, sleep: Callable[[float], None] = time.sleep) -> None:
    """Runs a worker in this thread until it ends."""
    idle = next(steps, None)
    while idle is not None:
        if idle.pause > 0:
            sleep(idle.pause)
        try:
            idle = steps.send(idle.wait)
        except StopIteration:
            return


class OwnThreads:
    """Starts a thread for each part of an application. Implements `Threads`."""

    log: Log | None = None
    longest_wait = 0.02
    """Orders may arrive meanwhile."""

    waits = True

    def supervise(self, name: str, steps: SupervisorSteps, stopping: threading.Event) -> Callable[[], None]:
        """Runs a supervisor in a thread."""

        def run() -> None:
            for seconds in steps:
                if seconds:
                    stopping.wait(seconds)

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()

        def join() -> None:
            if threading.current_thread() is not thread:  # a listener is called in the thread itself
                thread.join()

        return join

    def repeat(self, name: str, steps: SupervisorSteps, stopping: threading.Event) -> Callable[[], None]:
        """Runs work in a thread."""
        return self.supervise(name, steps, stopping)

    def work(self, name: str, steps: WorkerSteps, ended: Callable[[], None]) -> RunningWorker:
        """Runs a worker in a thread."""
        return OwnWorker(name, steps, ended)

    def serial(self, name: str, waiting: int = 0) -> SerialSteps:
        """Returns a thread for steps."""
        return SerialThread(name, waiting)

    def watch(self, call: WatchedCall, seconds: float) -> Callable[[], None]:
        """Checks a time limit in a thread."""
        closed = threading.Event()

        def run() -> None:
            while not closed.wait(seconds):
                if call.check():
                    return

        threading.Thread(target=run, name="millstream-call-limit", daemon=True).start()
        return closed.set


OWN_THREADS: Threads = OwnThreads()
