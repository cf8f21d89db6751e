"""Watches over functions of the user's: one that does not return stops the application, and is named."""

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

_OWN = str(Path(__file__).parents[2])


def stuck(thread: int, where: str, timeout_ms: int) -> RunError:
    """The error that names the function in which a thread is.

    Args:
        thread: The thread.
        where: What it was to do.
        timeout_ms: How long it may take.
    """
    stack = traceback.extract_stack(sys._current_frames().get(thread))
    outside = [line for line in stack if not line.filename.startswith((_OWN, sys.base_prefix, sys.prefix))]
    at = outside[-1] if outside else stack[-1]
    return RunError(
        f"{where}: {at.name} ({at.filename}, line {at.lineno}) has not returned for {timeout_ms} ms",
        hint="a function that waits for something outside stops the whole application; if it is just slow, raise "
        "task.timeout.ms",
    )


class Watched:
    """Takes steps, one at a time, in a thread of its own: who waits for them can go on when one does not return.

    It is always the same thread, because functions may keep things that belong to one, such as connections.

    Args:
        timeout_ms: How long a step may take.

    Attributes:
        is_stuck: A step has not returned. No other can be taken, and what runs it cannot be ended but with the process.
    """

    def __init__(self, timeout_ms: int) -> None:
        self._timeout = timeout_ms
        self._steps: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.is_stuck = False

    def run(self, where: str, step: Callable[[], T]) -> T:
        """Takes a step, and returns what it does.

        Args:
            where: What it is about, for the error.
            step: The step.

        Raises:
            RunError: It has not returned in time.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=_take, args=(self._steps,), name="millstream-watched", daemon=True)
            self._thread.start()
            weakref.finalize(self, self._steps.put, None).atexit = False
        future: Future[T] = Future()
        self._steps.put((future, step))
        if not wait([future], min(self._timeout / 1000, threading.TIMEOUT_MAX)).done:
            self.is_stuck = True
            assert self._thread.ident is not None
            raise stuck(self._thread.ident, where, self._timeout)
        return future.result()


def _take(steps: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]) -> None:
    while (given := steps.get()) is not None:
        future, step = given
        try:
            future.set_result(step())
        except BaseException as error:  # noqa: BLE001  (it is raised where it is waited for)
            future.set_exception(error)
        del given, future, step  # else they would be kept until the next one comes
