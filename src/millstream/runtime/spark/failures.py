"""Extracts the cause from the error messages of Spark, for tasks and queries that failed."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

_TRACE = "Traceback (most recent call last):"
_NOISE = ("An error occurred while", "An exception was raised by the Python Proxy", "Exception thrown in await", "===")
_JAVA = re.compile(r"^(?:: |Caused by: )?(?:[a-z_]\w*\.)+([A-Z]\w*(?:Exception|Error))\b:? *")
_LOST = re.compile(r"most recent failure: Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \(.*?\): *")
_QUERY = re.compile(
    r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: *|(?: *SQLSTATE: \w+| \(no cause message\))+$"
)
_PYTHON = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w*)(: .*)?$")
_ENDED = re.compile(r"^(?:EOFException|SocketException|Connection reset(?: by peer)?|Broken pipe)$")
"""Messages of Java for a Python process of Spark that does not answer."""

_MOST_TASKS = 1000


def cause_of(text: str) -> str | None:
    """The cause in an error message of Spark: the last error of a Python traceback in it, or the message of Java.

    >>> cause_of("java.io.IOException: No space left on device")
    'No space left on device'
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    python = _last_python_error(lines)
    if python is not None:
        return python
    causes = [_words(line) for line in lines if line.startswith("Caused by: ")]
    first = [_words(line) for line in lines[:2]]
    words = next((words for words in (*reversed(causes), *first) if words), None)
    return None if words is None else _explained(words)


def cause_of_java(error: Any) -> str:
    """The cause of a Java error without a message: its class."""
    while error.getCause() is not None:
        error = error.getCause()
    return _explained(_words(str(error.toString())) or str(error.getClass().getSimpleName()))


def _explained(words: str) -> str:
    return f"a Python process of Spark's has ended ({words})" if _ENDED.match(words) else words


def _words(line: str) -> str:
    """The message of a line, without the class of the error and without the text common to all failures."""
    lost = _LOST.search(line)
    words = _QUERY.sub("", line[lost.end() :] if lost is not None else line)
    while (named := _JAVA.match(words)) is not None:
        words = words[named.end() :]
    return "" if words.startswith(_NOISE) else words


def _last_python_error(lines: list[str]) -> str | None:
    """The line that ends the last Python traceback."""
    inside, error = False, None
    for line in lines:
        if line.strip().endswith(_TRACE):
            inside = True
        elif inside and not line.startswith(" ") and (match := _PYTHON.match(line)) is not None:
            inside, error = False, f"{match.group(1)}{match.group(2) or ''}"
    return error


class FailedTasks:
    """Reports the tasks of a query that failed and that Spark runs again."""

    def __init__(self, context: SparkContext, run: str) -> None:
        self._context = context
        self._run = run
        self._known: set[int] = set()

    def new(self) -> list[str]:
        """Returns one line for each task that has failed since the last call."""
        with contextlib.suppress(Exception):  # Spark may be about to end; the query reports that
            return self._lines()
        return []

    def _lines(self) -> list[str]:
        tracker = self._context.statusTracker()
        java: Any = self._context._jsc
        store = java.sc().statusStore()
        lines = []
        for number in tracker.getActiveJobsIds():
            job = store.job(number)
            if not job.numFailedTasks() or job.jobGroup().get() != self._run:
                continue
            info = tracker.getJobInfo(number)
            for stage in info.stageIds if info is not None else ():
                lines += self._of_stage(store, stage)
        return lines

    def _of_stage(self, store: Any, stage: int) -> list[str]:
        tasks = store.taskList(stage, store.lastStageAttempt(stage).attemptId(), _MOST_TASKS)
        lines = []
        for task in map(tasks.apply, range(tasks.size())):
            if task.errorMessage().isDefined() and task.taskId() not in self._known:
                self._known.add(task.taskId())
                why = cause_of(task.errorMessage().get()) or "no reason is known"
                lines.append(f"Spark lost a task and runs it again: {why}")
        return lines
