"""Handling of records that cannot be read, processed or written: the error handlers, and the dead-letter topic."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from millstream.config import Config
from millstream.core.records import ERROR_HEADER, Headers
from millstream.errors import MillstreamError, ProcessingError, ProductionError, RecordReadError, RunError, SchemaError
from millstream.text.escaping import TRACE, error_text, plain_text, shorten

_TRACE = "stacktrace"
STACK_TRACE = ERROR_HEADER + _TRACE

Phase: TypeAlias = Literal["deserialization", "processing", "production"]

_ERRORS: dict[str, type[RunError]] = {
    "deserialization": RecordReadError,
    "processing": ProcessingError,
    "production": ProductionError,
}


FAILURES = (Exception, SystemExit, KeyboardInterrupt)
"""Exceptions of user functions that the error handlers decide about.

`sys.exit` in a function must not end the process that runs the tasks. For Ctrl-C see `check_interrupt`.
"""


def check_interrupt(error: BaseException) -> None:
    """Raises a KeyboardInterrupt again if it comes from the terminal: Python raises those in the main thread only."""
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error


class Fatal(Exception):  # noqa: N818  (it carries an error through the operators, and is not one itself)
    """Carries an error that stops the task past the error handlers of the operators above."""

    def __init__(self, error: RunError) -> None:
        super().__init__(error)
        self.error = error


@dataclass(frozen=True, slots=True)
class ErrorContext:
    """Describes a record that failed, for an error handler.

    Attributes:
        phase: ``deserialization``, ``processing`` or ``production``.
        topic: The topic of the source record; None in a punctuator. ``partition`` and ``offset`` likewise.
        operator: Name of the operator that failed.
        function: File, line and name of the user function that failed, if any.
        task_id: The id of the task.
        timestamp: The timestamp of the source record; without one, of the record that failed.
        key: The key of the source record, as bytes. ``value`` and ``headers`` likewise.
    """

    phase: Phase
    topic: str | None
    partition: int | None
    offset: int | None
    operator: str
    function: str | None
    task_id: str
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


Answer: TypeAlias = Literal["fail", "continue"]
Handler: TypeAlias = Callable[[ErrorContext, BaseException], Answer]


class ErrorHandlers:
    """Applies the configured error handlers to records that fail."""

    def __init__(self, config: Config, dead_letter: Callable[[str, Any, Any, int, Headers], None]) -> None:
        self._handlers = {phase: config[f"{phase}.exception.handler"] for phase in _ERRORS}
        self._topic: str | None = config["errors.dead.letter.queue.topic.name"]
        self._send = dead_letter

    def handle(self, context: ErrorContext, error: BaseException) -> None:
        """Returns if the application continues without the record; else raises.

        With a dead-letter topic, the source record is written there in either case.
        """
        check_interrupt(error)
        if isinstance(error, SchemaError):  # a registry that is away, or refuses the schema: no record is at fault
            raise Fatal(failure(context, error)) from error
        answer = self._answer(context, error)
        if self._topic is not None and context.topic is not None:
            headers = (*context.headers, *dead_letter_headers(context, error))
            self._send(self._topic, context.key, context.value, context.timestamp, headers)
        if answer == "fail":
            raise Fatal(failure(context, error)) from error

    def _answer(self, context: ErrorContext, error: BaseException) -> Answer:
        handler = self._handlers[context.phase]
        if not callable(handler):
            answer: Answer = handler
            return answer
        try:
            answer = handler(context, error)
        except FAILURES as raised:
            cause = failure(context, error)
            raise Fatal(
                RunError(
                    f"the {context.phase} exception handler raised {error_text(raised)}; "
                    f"it was called because {cause.message}"
                )
            ) from raised
        if answer in ("fail", "continue"):
            return answer
        cause = failure(context, error)
        raise Fatal(
            RunError(
                f"the {context.phase} exception handler returned {answer!r}; it was called because {cause.message}",
                hint="a handler returns 'fail' or 'continue'",
            )
        ) from error


def failure(context: ErrorContext, error: BaseException) -> RunError:
    """Returns the error that stops the application: the operator, the record, the cause, and a remedy."""
    if context.topic is None:
        record = f"task {context.task_id}"
    else:
        record = f"topic {context.topic}, partition {context.partition}, offset {context.offset}"
    operator = f"{context.phase} failed in operator {context.operator!r}"
    function = f", function {context.function}" if context.function else ""
    cause = error.message if isinstance(error, MillstreamError) else error_text(error)
    hint = error.hint if isinstance(error, MillstreamError) else None
    if hint is None:
        hint = f"to continue without such records, set {context.phase}.exception.handler to 'continue'"
    return _ERRORS[context.phase](f"{operator} ({record}{function}): {cause}", hint=hint)


def dead_letter_headers(context: ErrorContext, error: BaseException, *, with_trace: bool = True) -> Headers:
    """Returns the headers of a dead letter: the source record and the error."""
    details = {
        "exception": f"{type(error).__module__}.{type(error).__qualname__}",
        "message": shorten(plain_text(error)),
        **({_TRACE: shorten("".join(traceback.format_exception(error)), TRACE)} if with_trace else {}),
        "topic": context.topic,
        "partition": context.partition,
        "offset": context.offset,
    }
    texts = {f"{ERROR_HEADER}{name}": str(value) for name, value in details.items() if value is not None}
    return tuple((name, text.encode(errors="backslashreplace")) for name, text in texts.items())
