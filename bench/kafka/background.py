"""Background threads that run during a block."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self


class Background:
    """Runs `run` until the end of the block, which sets `ended`."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        """The work of the thread; it ends when `ended` is set."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        self._thread.join()
