"""The time limit of user functions in a worker: a function that does not return is reported by its name."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from millstream.errors import RunError
from millstream.runtime.threads.api import Threads
from millstream.runtime.threads.own import OWN_THREADS
from millstream.runtime.user_code.timeouts import stuck_error

_CHECKS = 20
_MOST_SECONDS = 1.0


class CallLimit:
    """Watches the calls of one thread, and reports one that exceeds ``task.timeout.ms``.

    A thread that is stuck cannot be ended. The receiver of the error must end the process, or abandon the thread.

    Args:
        timeout_ms: The time limit of a call.
        report: Called with the error, from another thread, at most once.
        threads: Runs the checks.
    """

    def __init__(self, timeout_ms: int, report: Callable[[RunError], None], threads: Threads = OWN_THREADS) -> None:
        self._timeout = timeout_ms
        self._report = report
        self._call: tuple[str, int, float] | None = None
        self._close = threads.watch(self, min(_MOST_SECONDS, timeout_ms / 1000 / _CHECKS))

    @property
    def thread(self) -> int | None:
        """The identifier of the thread that is in a call; None: there is no call."""
        call = self._call
        return None if call is None else call[1]

    @contextlib.contextmanager
    def calling(self, where: str) -> Iterator[None]:
        """Limits the time of the block.

        Args:
            where: The work that it does, such as ``task 1_3``, for the error.
        """
        self._call = (where, threading.get_ident(), time.monotonic())
        try:
            yield
        finally:
            self._call = None

    def close(self) -> None:
        """Ends the watch."""
        self._close()

    def check(self) -> bool:
        """Reports a call that exceeds the limit; returns whether there was one."""
        call = self._call
        if call is None or time.monotonic() - call[2] <= self._timeout / 1000:
            return False
        self._report(stuck_error(call[1], call[0], self._timeout))
        return True
