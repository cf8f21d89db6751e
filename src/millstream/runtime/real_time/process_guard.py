"""Ends the process of a worker whose parent has ended, or which has stopped to run."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import sys
import threading

_INTERVAL = 1.0
_GRACE_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1
_END_CODE = 1
_STDERR = 2


class ProcessGuard:
    """Ends the process if its parent or the driver is gone, or if it stands still.

    Args:
        gone: Set when the driver is gone. The worker then has some seconds to end.
        session_seconds: The driver ends a worker that stands still for longer. The guard waits twice as long: it is for
            the case that the driver cannot reach the process.
        grace_seconds: Time in which a worker must end after the driver is gone.
    """

    def __init__(self, gone: threading.Event, session_seconds: float, *, grace_seconds: float = _GRACE_SECONDS) -> None:
        self._gone = gone
        self._session_seconds = session_seconds
        self._grace_seconds = grace_seconds
        self._parent = os.getppid()
        self._closed = threading.Event()
        self._arm()
        threading.Thread(target=self._watch, name="millstream-guard", daemon=True).start()

    def close(self) -> None:
        """Ends the watch."""
        self._closed.set()

    def _watch(self) -> None:
        gone_for = 0.0
        while not self._closed.wait(_INTERVAL):
            self._arm()
            gone_for = gone_for + _INTERVAL if self._gone.is_set() else 0.0
            if os.getppid() != self._parent or gone_for > self._grace_seconds:
                os._exit(_END_CODE)
        faulthandler.cancel_dump_traceback_later()

    def _arm(self) -> None:
        """Starts a timer that needs no interpreter lock: it ends a process in which a function in C holds the lock."""
        faulthandler.dump_traceback_later(2 * self._session_seconds, exit=True, file=_STDERR)


def end_with_parent() -> None:
    """Has Linux end this process when its parent ends, also if this process is stopped."""
    parent = os.getppid()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # the guard watches the parent, too
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(_END_CODE)
