"""What all of our code in Spark's Python workers does."""

from __future__ import annotations

import gc
import os

_SETTLED = (2, 5)
_tasks = 0
_daemon: int | None = None


def begin_task() -> None:
    """To be called at the begin of a task.

    PySpark collects garbage after every task, and looks at everything that was ever loaded. In a short batch that
    would be most of what a worker does; so what a worker has after its first tasks is kept out of it.
    """
    global _tasks  # noqa: PLW0603  (one worker is one process)
    _tasks += 1
    if _tasks in _SETTLED:
        gc.collect()
        gc.freeze()


def be_daemon() -> None:
    """To be called in the process that workers are forked from."""
    global _daemon  # noqa: PLW0603  (those that are forked have it, too)
    _daemon = os.getpid()


def executor() -> int:
    """The process that the workers of this executor come from, which may be gone by now: the system would then tell
    another one.
    """
    return _daemon or os.getppid()
