"""Time limits on user functions: a function that does not return stops the application, and the error names it."""

from __future__ import annotations

import queue
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, TypeVar

from millstream.errors import RunError

T = TypeVar("T")

_PACKAGE = str(Path(__file__).parents[2])


def stuck_error(thread: int, where: str, timeout_ms: int) -> RunError:
    """The error that names the function in which a thread is stuck.

    Args:
        thread: The thread.
        where: The work that it does, such as ``task 3``.
        timeout_ms: The time limit.
    """
    stack = traceback.extract_stack(sys._current_frames().get(thread))
    outside = [line for line in stack if not line.filename.startswith((_PACKAGE, sys.base_prefix, sys.prefix))]
    at = outside[-1] if outside else stack[-1]
    return RunError(
        f"{where}: {at.name} ({at.filename}, line {at.lineno}) has not returned for {timeout_ms} ms",
        hint="a function that waits for an external system stops the whole application; if it is only slow, raise "
        "task.timeout.ms",
    )


class Watchdog:
    """Runs calls in a thread of its own, one at a time, with a time limit.

    All calls use the same thread, because user functions may hold objects that belong to one, such as connections.

    Args:
        timeout_ms: The time limit of a call.

    Attributes:
        is_stuck: A call has not returned. No other call can run; only the end of the process ends its thread.
    """

    def __init__(self, timeout_ms: int) -> None:
        self._timeout = timeout_ms
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.is_stuck = False

    def run(self, where: str, call: Callable[[], T]) -> T:
        """Runs a call and returns its result.

        Args:
            where: The work that the call does, for the error.
            call: The call.

        Raises:
            RunError: The call has not returned in time.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=_work, args=(self._calls,), name="millstream-watchdog", daemon=True)
            self._thread.start()
            weakref.finalize(self, self._calls.put, None).atexit = False
        future: Future[T] = Future()
        self._calls.put((future, call))
        if not wait([future], min(self._timeout / 1000, threading.TIMEOUT_MAX)).done:
            self.is_stuck = True
            assert self._thread.ident is not None
            raise stuck_error(self._thread.ident, where, self._timeout)
        return future.result()


def _work(calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]) -> None:
    while (item := calls.get()) is not None:
        future, call = item
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001  (raised in the thread that waits for the future)
            future.set_exception(error)
        del item, future, call  # releases their objects before the wait for the next call
