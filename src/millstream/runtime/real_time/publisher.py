"""Publishes the results of a worker in a thread of its own, while the worker goes on with the next records."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeAlias

Step: TypeAlias = Callable[[], None]


class Publisher:
    """Runs one publication after the other. At most one is in progress.

    Args:
        name: The name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._step: Step | None = None
        self._is_closed = False
        self._error: BaseException | None = None
        self.seconds = 0.0
        """The duration of the last publication."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether a publication is in progress."""
        return self._step is not None

    def submit(self, step: Step) -> None:
        """Begins a publication, after the one in progress.

        Raises:
            MillstreamError: An earlier publication has failed.
        """
        self.wait()
        with self._changed:
            self._step = step
            self._changed.notify_all()

    def wait(self) -> None:
        """Waits for the publication in progress.

        Raises:
            MillstreamError: It has failed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._step is None)
        self.check()

    def check(self) -> None:
        """Raises the error of a publication that has failed."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Ends the thread, after the publication in progress."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._step is not None or self._is_closed)
                step = self._step
            if step is None:
                return
            started = time.perf_counter()
            try:
                step()
            except BaseException as error:  # noqa: BLE001  (the worker's thread raises it)
                self._error = error
            self.seconds = time.perf_counter() - started
            with self._changed:
                self._step = None
                self._changed.notify_all()
