"""Which tasks the next batch must run, whatever it reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from millstream.runtime.messages import TaskResult, earliest


class TaskSchedule:
    """Follows what tasks ask for: to run again, or to see the wall clock.

    Nothing is known of a task until it has run once since the application was started. Until then, every batch runs all
    tasks, and one is due at once.

    Args:
        tasks: The number of tasks; 0 if the application has none.
    """

    def __init__(self, tasks: int) -> None:
        self._unseen = set(range(tasks))

    def orders(self, results: Iterable[TaskResult]) -> dict[str, Any]:
        """What the planner is to be told after a batch. A task that did not run in it asked for nothing before."""
        tasks = [written for written in results if written.origin[0] == 1]
        self._unseen -= {written.origin[2] for written in tasks}
        return {
            "due": 0 if self._unseen else earliest(written.due for written in tasks),
            "asleep": earliest(written.asleep for written in tasks),
            "awake": None if self._unseen else [written.origin[2] for written in tasks if written.awake],
            "waiting": sum(written.waiting for written in tasks),
        }
