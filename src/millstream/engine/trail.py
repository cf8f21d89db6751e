"""The trail of a task: notes which record and which function is next, before it is too late to ask.

A function that ends its process (``os._exit``, a segmentation fault) cannot be caught. After such an end the batch is
run again in a process that has a trail. What it noted last tells where it ended. Noting costs time for each record, so
a process has a trail only then.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
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
class Place:
    """Where a task is.

    Attributes:
        step: What it does.
        topic: Of the record that it has; None between records. ``partition``, ``offset`` and ``key`` likewise.
        operator: The operator whose function it calls; None if it calls none.
        function: File, line and name of that function.
        call: How often the function has been called for the record.
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


class Trail:
    """Notes the places of all tasks of a process.

    Args:
        note: Keeps a place where it outlives the process.
        refused: Places at which the process has ended before, and why: the function is not called there again.
    """

    def __init__(self, note: Callable[[Place], None], refused: Mapping[Place, str]) -> None:
        self._note = note
        self._refused = refused
        self._place = Place("starting")
        self._calls: Counter[tuple[str, str]] = Counter()
        note(self._place)

    def step(self, what: str) -> None:
        """The task does something that is about no single record."""
        self._go(Place(what))

    def reading(self, queue: Queue, records: Iterable[InputRecord]) -> Iterator[InputRecord]:
        """The task deserializes records."""
        for record in records:
            self._go(Place("reading", queue.topic, queue.partition, record.offset, record.key))
            yield record
        self.step("processing")

    def following(self, queue: Queue, context: TaskContext, process: Callable[..., None]) -> Callable[..., None]:
        """The process of a queue that notes each record."""

        def noted(*record: Any) -> None:
            source = context.source or queue
            raw = context.source_record()
            place = Place("processing", source.topic, source.partition)
            self._go(place if raw is None else replace(place, offset=raw.offset, key=raw.key))
            process(*record)
            self.step("processing")

        return noted

    def watched(self, operator: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, which notes each call."""
        location = describe_callable(call)

        @functools.wraps(call)
        def noted(*arguments: Any, **named: Any) -> Any:
            before = self._place
            self._calls[operator, location] += 1
            place = replace(before, operator=operator, function=location, call=self._calls[operator, location])
            if place in self._refused:
                raise ProcessingError(self._refused[place])
            with _At(self, place):
                result = call(*arguments, **named)
            return self._each(place, result) if isinstance(result, GeneratorType) else result

        return noted

    def watch(self, nodes: Iterable[Node]) -> None:
        """Has the functions of a plan note their calls. The plan must be nobody else's."""
        watched: set[int] = set()  # the plans of several tasks share functions
        for node in nodes:
            for function in _functions(node):
                if id(function) not in watched and not isinstance(function.target, Expr):
                    watched.add(id(function))
                    function.target = self.watched(node.name, function.target)

    def _each(self, place: Place, results: Iterable[Any]) -> Iterator[Any]:
        """What a generator gives: its code runs when it is asked."""
        following = iter(results)
        while True:
            with _At(self, place):
                try:
                    result = next(following)
                except StopIteration:
                    return
            yield result

    def _go(self, place: Place) -> None:
        self._calls.clear()
        self.at(place)

    def at(self, place: Place) -> Place:
        """Notes a place; returns the one before."""
        before, self._place = self._place, place
        self._note(place)
        return before


class _At:
    """Is at a place for as long as a block runs."""

    def __init__(self, trail: Trail, place: Place) -> None:
        self._trail = trail
        self._place = place

    def __enter__(self) -> None:
        self._before = self._trail.at(self._place)

    def __exit__(self, *_error: object) -> None:
        self._trail.at(self._before)


def _functions(value: Any) -> Iterator[Function]:
    """The functions that a node, or something in it, has."""
    for name in fields(value):
        field = getattr(value, name)
        for item in field if isinstance(field, tuple) else (field,):
            if isinstance(item, Function):
                yield item
            elif isinstance(item, Frozen) and not isinstance(item, Node):
                yield from _functions(item)


_installed: list[Trail] = []


def install(trail: Trail) -> None:
    """Gives this process a trail. All tasks that are made from now on use it."""
    _installed[:] = [trail]


def installed() -> Trail | None:
    """The trail of this process; None if it has none, as is usual."""
    return _installed[0] if _installed else None
