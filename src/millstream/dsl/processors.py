"""The Processor API: custom operators with stores and punctuators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, Protocol, TypeVar

from millstream.core.durations import Duration
from millstream.core.records import Headers, Record

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")

Clock = Literal["stream", "wall"]


class RecordMetadata(Protocol):
    """Topic, partition and offset of the current record."""

    @property
    def topic(self) -> str:
        """The topic."""
        ...

    @property
    def partition(self) -> int:
        """The partition."""
        ...

    @property
    def offset(self) -> int:
        """The offset in the partition."""
        ...


class Cancellable(Protocol):
    """A scheduled punctuator."""

    def cancel(self) -> None:
        """Cancels all further calls."""
        ...


class FixedKeyContext(Protocol[KIn, VOut]):
    """The context of a processor that cannot change the key."""

    @property
    def application_id(self) -> str:
        """Id of the application."""
        ...

    @property
    def task_id(self) -> str:
        """Id of the task: sub-topology and partition, as ``0_3``."""
        ...

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the current record; None in a punctuator."""
        ...

    @property
    def current_stream_time(self) -> int:
        """The greatest timestamp that the task has processed, -1 before the first record."""
        ...

    @property
    def current_system_time(self) -> int:
        """The wall clock in milliseconds, as recorded for the batch. A replay of the batch returns the same time."""
        ...

    def store(self, name: str) -> Any:
        """Returns a store that the processor is connected to."""
        ...

    def schedule(
        self, interval: Duration, clock: Clock, callback: Callable[[int], object], *, start: int | None = None
    ) -> Cancellable:
        """Schedules a punctuator: a function that is called at intervals.

        Args:
            interval: Time between two calls.
            clock: ``stream``: stream time; the first call is at the first record. ``wall``: the wall clock; the first
                call is after one interval.
            callback: The function, called with the time in milliseconds.
            start: Time of the first call.
        """
        ...

    def forward(self, record: Record[KIn, VOut], to: str | None = None) -> None:
        """Forwards a record to all downstream operators, or to the one named ``to``."""
        ...

    def drop(self, record: Record[Any, Any], reason: str) -> None:
        """Counts a record as dropped, under the given reason."""
        ...


class ProcessorContext(FixedKeyContext[KIn, VOut], Protocol[KIn, VOut]):
    """The context of a processor that can change the key."""


class Processor(Generic[KIn, VIn, KOut, VOut]):
    """Base class of the processors for `Stream.process`. Each task has its own instance.

    >>> from millstream import App, Processor, Record, TestDriver
    >>> class Shout(Processor[str, str, str, str]):
    ...     def process(self, record: Record[str, str]) -> None:
    ...         self.context.forward(record.with_value(record.value.upper()))
    >>> app = App("shouting")
    >>> app.stream("in", value=str).process(Shout, key=str, value=str).to("out")
    >>> with TestDriver(app) as driver:
    ...     driver.input("in").pipe("k", "hello")
    ...     driver.output("out").read_values()
    ['HELLO']
    """

    context: ProcessorContext[KOut, VOut]

    def init(self) -> None:
        """Called once, before the first record. ``self.context`` is set."""

    def process(self, record: Record[KIn, VIn]) -> None:
        """Called for each record."""
        raise NotImplementedError(f"{type(self).__name__} does not override process()")

    def close(self) -> None:
        """Called once, when the task is closed."""


class FixedKeyProcessor(Generic[KIn, VIn, VOut]):
    """Base class of the processors for `Stream.process_values`. Forwarded records have the key of the input record."""

    context: FixedKeyContext[KIn, VOut]

    def init(self) -> None:
        """Called once, before the first record. ``self.context`` is set."""

    def process(self, record: Record[KIn, VIn]) -> None:
        """Called for each record."""
        raise NotImplementedError(f"{type(self).__name__} does not override process()")

    def close(self) -> None:
        """Called once, when the task is closed."""


__all__ = [
    "Cancellable",
    "Clock",
    "FixedKeyContext",
    "FixedKeyProcessor",
    "Headers",
    "Processor",
    "ProcessorContext",
    "RecordMetadata",
]
