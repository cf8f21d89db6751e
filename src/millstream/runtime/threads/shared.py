"""Threads that many applications share: another application adds steps, and no thread."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from millstream.log.api import Log
from millstream.runtime.threads.api import RunningWorker, SerialSteps, Step, SupervisorSteps, WatchedCall, WorkerSteps
from millstream.text.escaping import trace_text

_LOOK_EVERY = 0.1
"""Seconds between two steps of a supervisor, at least."""

_WATCH_EVERY = 0.5
"""Seconds between two checks of time limits."""

_KAFKA_WAIT = 0.02
"""Seconds for which a worker waits if the log does not tell of commits."""

_EMBEDDED_WAIT = 0.5
"""Seconds for which a worker waits if each commit ends the wait."""

_FOR_EVER = 3600.0

_END_SECONDS = 5.0
"""Seconds to wait for the end of a thread: a step may be in progress."""


class SharedThreads:
    """Runs all parts of many applications in a few threads. Implements `Threads`.

    Supervisors take turns in one thread, and cleaners in another one. Each worker has one of the worker threads, and
    takes turns there with others. A user function that exceeds its time limit keeps its thread: the other workers of
    this thread go on in a new one.

    Args:
        log: The log of all applications. The caller closes it, after `close`.
        workers: The number of worker threads.
    """

    waits = False

    def __init__(self, log: Log, workers: int = 2) -> None:
        self.log: Log | None = log
        self._log = log
        self.longest_wait = _KAFKA_WAIT if log.changes is None else _EMBEDDED_WAIT
        self._supervisors = _Turns("millstream-supervisors")
        self._background = _Turns("millstream-cleaners")
        self._publishers = _Pool("millstream-publisher", 3 if log.changes is not None else 8)
        self._storers = _Pool("millstream-local-stores", 1)
        self._lock = threading.Lock()
        self._threads = [_WorkerThread(log, number) for number in range(workers)]
        self._numbers = len(self._threads)
        self._calls: dict[int, WatchedCall] = {}
        self._closed = threading.Event()
        self._supervisors.add(self._watch(), self._closed)

    def close(self) -> None:
        """Ends all threads. The applications must have ended."""
        self._closed.set()
        for turns in (self._supervisors, self._background):
            turns.close()
        for thread in self._threads:
            thread.close()
        self._publishers.close()
        self._storers.close()

    def supervise(self, name: str, steps: SupervisorSteps, stopping: threading.Event) -> Callable[[], None]:
        """Runs a supervisor in turn with others."""
        self._supervisors.add(steps, stopping)
        return lambda: None

    def repeat(self, name: str, steps: SupervisorSteps, stopping: threading.Event) -> Callable[[], None]:
        """Runs work in turn with other work."""
        self._background.add(steps, stopping)
        return lambda: None

    def work(self, name: str, steps: WorkerSteps, ended: Callable[[], None]) -> RunningWorker:
        """Runs a worker in the thread that has the fewest."""
        with self._lock:
            thread = min(self._threads, key=lambda each: each.size)
            return thread.add(SharedWorker(steps, ended))

    def serial(self, name: str, waiting: int = 0) -> SerialSteps:
        """Returns steps that run in shared threads. Steps that may wait are those of local stores."""
        return PooledSteps(self._storers if waiting else self._publishers, waiting)

    def watch(self, call: WatchedCall, seconds: float) -> Callable[[], None]:
        """Checks a time limit at intervals."""
        self._calls[id(call)] = call

        def close() -> None:
            self._calls.pop(id(call), None)

        return close

    def _watch(self) -> SupervisorSteps:
        while not self._closed.is_set():
            yield _WATCH_EVERY
            for key, call in list(self._calls.items()):
                thread = call.thread
                if thread is not None and call.check():
                    self._calls.pop(key, None)
                    self._replace(thread)

    def _replace(self, identifier: int) -> None:
        """Moves the workers of a thread that does not return from a call to a new one."""
        with self._lock:
            for index, thread in enumerate(self._threads):
                if thread.identifier == identifier:
                    self._threads[index] = _WorkerThread(self._log, self._numbers)
                    self._numbers += 1
                    for worker in thread.abandon():
                        self._threads[index].add(worker)


class SharedWorker:
    """A worker that takes turns with others. Implements `RunningWorker`.

    Args:
        steps: The steps of the worker.
        ended: Called when the worker has failed.
    """

    def __init__(self, steps: WorkerSteps, ended: Callable[[], None]) -> None:
        self.error: BaseException | None = None
        self.is_woken = True
        self.not_before = 0.0
        self.due = 0.0
        self.thread: _WorkerThread | None = None
        self._steps = steps
        self._ended = ended
        self._has_begun = False
        self._over = threading.Event()

    def wake(self) -> None:
        """Has the next step run soon."""
        self.is_woken = True
        if self.thread is not None:
            self.thread.notify()

    def join(self, seconds: float) -> bool:
        """Waits for the end of the worker."""
        if self._over.is_set():
            return True
        self.wake()
        return self._over.wait(seconds)

    @property
    def is_over(self) -> bool:
        """Whether the worker has ended."""
        return self._over.is_set()

    @property
    def is_due(self) -> bool:
        """Whether the next step may run, and there is a reason for it."""
        now = time.monotonic()
        return self.not_before <= now and (self.is_woken or self.due <= now)

    def step(self) -> None:
        """Runs a step, and notes when the next one is due."""
        self.is_woken = False
        try:
            idle = self._steps.send(0.0) if self._has_begun else next(self._steps)
        except StopIteration:
            self._over.set()
            return
        except BaseException as error:  # noqa: BLE001  (the supervisor raises it)
            self.error = error
            self._over.set()
            self._ended()
            return
        self._has_begun = True
        self.not_before = time.monotonic() + idle.pause
        self.due = self.not_before + idle.wait


class _WorkerThread:
    """Runs the steps of workers that are due, one after the other."""

    def __init__(self, log: Log, number: int) -> None:
        self._changes = log.changes
        self._lock = threading.Lock()
        self._workers: list[SharedWorker] = []
        self._notified = threading.Event()
        self._is_closed = False
        self._current: SharedWorker | None = None
        self._thread = threading.Thread(target=self._run, name=f"millstream-worker-{number}", daemon=True)
        self._thread.start()

    @property
    def size(self) -> int:
        """The number of its workers."""
        return len(self._workers)

    @property
    def identifier(self) -> int | None:
        """The identifier of the thread."""
        return self._thread.ident

    def add(self, worker: SharedWorker) -> SharedWorker:
        """Adds a worker."""
        with self._lock:
            worker.thread = self
            self._workers.append(worker)
        self.notify()
        return worker

    def abandon(self) -> list[SharedWorker]:
        """Ends the thread after the present step; returns the workers that are not in it."""
        with self._lock:
            self._is_closed = True
            others = [worker for worker in self._workers if worker is not self._current]
            self._workers = []
            return others

    def notify(self) -> None:
        """Ends the wait for a worker that is due."""
        self._notified.set()
        if self._changes is not None:
            self._changes.notify()

    def close(self) -> None:
        """Ends the thread after the present step."""
        self._is_closed = True
        self.notify()
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        seen: object = None
        while True:
            self._notified.clear()  # before everything that `notify` announces is looked at
            if self._is_closed:
                return
            version = None if self._changes is None else self._changes.version()
            has_changed, seen = version != seen, version
            following = time.monotonic() + _FOR_EVER
            for worker in list(self._workers):
                worker.is_woken |= has_changed
                if worker.is_due:
                    self._step(worker)
                    if self._is_closed:
                        return
                if not worker.is_over:
                    following = min(following, worker.not_before if worker.is_woken else worker.due)
            self._wait(version, following - time.monotonic())

    def _step(self, worker: SharedWorker) -> None:
        with self._lock:
            self._current = worker
        worker.step()
        with self._lock:
            self._current = None
            if worker.is_over and worker in self._workers:
                self._workers.remove(worker)

    def _wait(self, version: object, seconds: float) -> None:
        if seconds <= 0 or self._notified.is_set():
            return
        if self._changes is None:
            self._notified.wait(seconds)
        else:
            self._changes.wait(version, seconds, self._notified.is_set)


@dataclass(slots=True)
class _Turn:
    steps: SupervisorSteps
    stopping: threading.Event
    due: float = 0.0
    has_stopped: bool = False


class _Turns:
    """Runs the steps of supervisors, one after the other, in a thread."""

    def __init__(self, name: str) -> None:
        self._turns: deque[_Turn] = deque()
        self._changed = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def add(self, steps: SupervisorSteps, stopping: threading.Event) -> None:
        """Adds a supervisor."""
        self._turns.append(_Turn(steps, stopping))
        self._changed.set()

    def close(self) -> None:
        """Ends the thread after the present step."""
        self._is_closed = True
        self._changed.set()
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        while not self._is_closed:
            self._changed.wait(_LOOK_EVERY)
            self._changed.clear()
            now = time.monotonic()
            for turn in list(self._turns):
                stops = turn.stopping.is_set() and not turn.has_stopped
                if turn.due <= now or stops:
                    turn.has_stopped |= stops
                    self._step(turn)

    def _step(self, turn: _Turn) -> None:
        try:
            seconds = next(turn.steps, None)
        except BaseException as error:  # noqa: BLE001  (the others go on)
            print(f"millstream: unexpected error: {trace_text(error)}")  # noqa: T201
            seconds = None
        if seconds is None:
            self._turns.remove(turn)
        else:
            turn.due = time.monotonic() + max(seconds, _LOOK_EVERY)


class _Pool:
    """Threads that run functions in the order of their submission."""

    def __init__(self, name: str, threads: int) -> None:
        self._queue: queue.SimpleQueue[Step | None] = queue.SimpleQueue()
        self._count = threads
        for number in range(threads):
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True).start()

    def submit(self, function: Step) -> None:
        """Has a function run. It must not raise."""
        self._queue.put(function)

    def close(self) -> None:
        """Ends the threads after everything that was submitted."""
        for _ in range(self._count):
            self._queue.put(None)

    def _run(self) -> None:
        while (function := self._queue.get()) is not None:
            function()


class PooledSteps:
    """Runs steps one after the other in a pool. Implements `SerialSteps`."""

    def __init__(self, pool: _Pool, waiting: int) -> None:
        self._pool = pool
        self._changed = threading.Condition()
        self._steps: deque[Step] = deque()
        self._most = 1 + waiting
        self._error: BaseException | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a step is in progress."""
        return bool(self._steps)

    def submit(self, step: Step) -> None:
        """Adds a step. If too many steps wait, the caller waits, too."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._steps) < self._most)
            self.check()
            self._steps.append(step)
            is_first = len(self._steps) == 1
        if is_first:
            self._pool.submit(self._run)

    def wait(self) -> None:
        """Waits until all steps have ended."""
        with self._changed:
            self._changed.wait_for(lambda: not self._steps)
        self.check()

    def check(self) -> None:
        """Raises the error of a step that has failed."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Waits for the step in progress."""
        with self._changed:
            self._changed.wait_for(lambda: not self._steps)

    def _run(self) -> None:
        """Runs one step. The next one comes after the steps of others."""
        try:
            self._steps[0]()
        except BaseException as error:  # noqa: BLE001  (`check` raises it in the thread of the worker)
            self._error = error
        with self._changed:
            if self._error is None:
                self._steps.popleft()
            else:
                self._steps.clear()
            has_more = bool(self._steps)
            self._changed.notify_all()
        if has_more:
            self._pool.submit(self._run)
