"""The call trace: records which record and which user function a task is about to handle.

A function that ends its process (``os._exit``, a segmentation fault) cannot be caught. The host then runs the batch
again in a separate process with a call trace; the last position in the trace names the function. Recording a position
costs time for each record, so a process has a call trace only in that case.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from millstream.core.frozen import Frozen, fields
from millstream.errors import ProcessingError
from millstream.expr import Expr
from millstream.plan.functions import Function, describe_callable
from millstream.plan.node import Node

if TYPE_CHECKING:
    from millstream.engine.context import TaskContext
    from millstream.engine.queues import InputRecord, Queue


@dataclass(frozen=True, slots=True)
class CallPosition:
    """The position of a task in its work.

    Attributes:
        step: The current step: ``starting``, ``reading``, ``processing``.
        topic: The topic of the current record; None between records. ``partition``, ``offset`` and ``key`` likewise.
        operator: The operator whose function is called; None outside of user functions.
        function: File, line and name of that function.
        call: Number of the call among the calls of this function for the record, from 1.
    """

    step: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    key: bytes | None = None
    operator: str | None = None
    function: str | None = None
    call: int = 0

    def __str__(self) -> str:
        parts = [self.step]
        if self.operator is not None:
            parts.append(f"operator {self.operator!r}, function {self.function}")
        if self.topic is not None:
            parts.append(f"topic {self.topic}, partition {self.partition}, offset {self.offset}")
        return ", ".join(parts)


class CallTrace:
    """Records the positions of all tasks of a process.

    Args:
        write: Stores a position where it survives the process.
        refused: Positions at which the process has ended before, with the reason. The function is not called there
            again; the call raises ProcessingError.
    """

    def __init__(self, write: Callable[[CallPosition], None], refused: Mapping[CallPosition, str]) -> None:
        self._write = write
        self._refused = refused
        self._position = CallPosition("starting")
        self._calls: Counter[tuple[str, str]] = Counter()
        write(self._position)

    def enter_step(self, step: str) -> None:
        """Records that the task starts a step that belongs to no single record."""
        self._start(CallPosition(step))

    def trace_reading(self, queue: Queue, records: Iterable[InputRecord]) -> Iterator[InputRecord]:
        """Yields the records, and records each one before it is deserialized."""
        for record in records:
            self._start(CallPosition("reading", queue.topic, queue.partition, record.offset, record.key))
            yield record
        self.enter_step("processing")

    def trace_processing(self, queue: Queue, context: TaskContext, process: Callable[..., None]) -> Callable[..., None]:
        """Wraps the process of a queue, so that each record is recorded before it is processed."""

        def traced(*record: Any) -> None:
            source = context.source or queue
            raw = context.source_record()
            position = CallPosition("processing", source.topic, source.partition)
            self._start(position if raw is None else replace(position, offset=raw.offset, key=raw.key))
            process(*record)
            self.enter_step("processing")

        return traced

    def traced(self, operator: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a user function, so that each call is recorded before it runs."""
        location = describe_callable(function)

        @functools.wraps(function)
        def traced(*arguments: Any, **named: Any) -> Any:
            self._calls[operator, location] += 1
            number = self._calls[operator, location]
            position = replace(self._position, operator=operator, function=location, call=number)
            if position in self._refused:
                raise ProcessingError(self._refused[position])
            with self._at(position):
                result = function(*arguments, **named)
            return self._trace_generator(position, result) if isinstance(result, GeneratorType) else result

        return traced

    def trace_functions(self, nodes: Iterable[Node]) -> None:
        """Replaces the functions of a plan by traced ones. Other processes or tasks must not use the plan."""
        traced: set[int] = set()  # the plans of several tasks share functions
        for node in nodes:
            for function in _functions(node):
                if id(function) not in traced and not isinstance(function.target, Expr):
                    traced.add(id(function))
                    function.target = self.traced(node.name, function.target)

    def _trace_generator(self, position: CallPosition, results: Iterable[Any]) -> Iterator[Any]:
        """Yields the items of a generator: its code runs when an item is requested, not when it is called."""
        items = iter(results)
        while True:
            with self._at(position):
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item

    def _start(self, position: CallPosition) -> None:
        self._calls.clear()
        self._move(position)

    @contextmanager
    def _at(self, position: CallPosition) -> Iterator[None]:
        """Records a position for the duration of a block."""
        before = self._position
        self._move(position)
        try:
            yield
        finally:
            self._move(before)

    def _move(self, position: CallPosition) -> None:
        self._position = position
        self._write(position)


def _functions(value: Any) -> Iterator[Function]:
    """Yields the functions in the fields of a node."""
    for name in fields(value):
        field = getattr(value, name)
        for item in field if isinstance(field, tuple) else (field,):
            if isinstance(item, Function):
                yield item
            elif isinstance(item, Frozen) and not isinstance(item, Node):
                yield from _functions(item)


_installed: list[CallTrace] = []


def install(trace: CallTrace) -> None:
    """Installs the call trace of this process. All tasks that are created afterwards use it."""
    _installed[:] = [trace]


def installed_trace() -> CallTrace | None:
    """Returns the call trace of this process; None, as usual, if none is installed."""
    return _installed[0] if _installed else None
