"""Setup that all code in the Python workers of Spark shares."""

from __future__ import annotations

import gc
import os

_SETTLED = (2, 5)
_tasks = 0
_daemon: int | None = None


def begin_task() -> None:
    """Must be called at the start of a task.

    PySpark collects garbage after every task, which scans all loaded objects and would take most of a short batch. So
    the objects that exist after the first tasks are excluded from collection.
    """
    global _tasks  # noqa: PLW0603  (one worker is one process)
    _tasks += 1
    if _tasks in _SETTLED:
        gc.collect()
        gc.freeze()


def be_daemon() -> None:
    """Must be called in the process from which workers are forked."""
    global _daemon  # noqa: PLW0603  (forked workers inherit it)
    _daemon = os.getpid()


def executor() -> int:
    """Process id of the daemon of this executor, recorded at fork: `getppid()` changes once the daemon exits."""
    return _daemon or os.getppid()
