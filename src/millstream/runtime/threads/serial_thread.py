"""A thread that runs steps one after the other, while the worker goes on with the next records."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

Step: TypeAlias = Callable[[], None]


class SerialThread:
    """Runs steps in their order. After a step that fails, no other one runs.

    Args:
        name: The name of the thread.
        waiting: The number of steps that may wait for the one in progress.
    """

    def __init__(self, name: str, waiting: int = 0) -> None:
        self._changed = threading.Condition()
        self._steps: deque[Step] = deque()
        self._most = 1 + waiting
        self._is_closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether a step is in progress."""
        return bool(self._steps)

    def submit(self, step: Step) -> None:
        """Adds a step. If too many steps wait, the caller waits, too.

        Raises:
            MillstreamError: An earlier step has failed.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._steps) < self._most)
            self.check()
            self._steps.append(step)
            self._changed.notify_all()

    def wait(self) -> None:
        """Waits until all steps have ended.

        Raises:
            MillstreamError: A step has failed.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._steps)
        self.check()

    def check(self) -> None:
        """Raises the error of a step that has failed."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Ends the thread, after all steps."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._steps or self._is_closed)
                if not self._steps:
                    return
                step = self._steps[0]
            try:
                step()
            except BaseException as error:  # noqa: BLE001  (`check` raises it in the thread of the worker)
                self._error = error
            with self._changed:
                if self._error is None:
                    self._steps.popleft()
                else:
                    self._steps.clear()
                self._changed.notify_all()
