"""The time limit of user functions in a worker: a function that does not return is reported by its name."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from millstream.errors import RunError
from millstream.runtime.user_code.timeouts import stuck_error

_CHECKS = 20
_MOST_SECONDS = 1.0


class CallLimit:
    """Watches the calls of one thread, and reports one that exceeds ``task.timeout.ms``.

    A thread that is stuck cannot be ended. The receiver of the error must end the process, or abandon the thread.

    Args:
        timeout_ms: The time limit of a call.
        report: Called with the error, from another thread, at most once.
    """

    def __init__(self, timeout_ms: int, report: Callable[[RunError], None]) -> None:
        self._timeout = timeout_ms
        self._report = report
        self._call: tuple[str, int, float] | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="millstream-call-limit", daemon=True).start()

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
        self._closed.set()

    def _watch(self) -> None:
        seconds = self._timeout / 1000
        while not self._closed.wait(min(_MOST_SECONDS, seconds / _CHECKS)):
            call = self._call
            if call is not None and time.monotonic() - call[2] > seconds:
                self._report(stuck_error(call[1], call[0], self._timeout))
                return
