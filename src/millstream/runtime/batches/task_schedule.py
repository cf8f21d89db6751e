"""The tasks that the next batch must run even without input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from millstream.runtime.messages import TaskResult, earliest


class TaskSchedule:
    """Collects the requests of tasks: to run again, or to see the wall clock.

    The requests of a task are unknown until it has run once since the start. Until then, every batch runs all tasks,
    and a batch is due at once.

    Args:
        tasks: The number of tasks; 0 if the application has none.
    """

    def __init__(self, tasks: int) -> None:
        self._unseen = set(range(tasks))

    def changes(self, results: Iterable[TaskResult]) -> dict[str, Any]:
        """Returns the `PlannerSettings` that a batch changes. A task that did not run in it has no request."""
        tasks = [result for result in results if result.number is not None]
        self._unseen -= {result.number for result in tasks}
        return {
            "due": 0 if self._unseen else earliest(result.due for result in tasks),
            "asleep": earliest(result.asleep for result in tasks),
            "awake": None if self._unseen else [result.number for result in tasks if result.awake],
            "waiting": sum(result.waiting for result in tasks),
        }
