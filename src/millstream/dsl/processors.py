"""The Processor API: operators of the user's own, with stores and punctuators."""

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
    """Where the record that is being processed came from."""

    @property
    def topic(self) -> str:
        """Its topic."""
        ...

    @property
    def partition(self) -> int:
        """Its partition."""
        ...

    @property
    def offset(self) -> int:
        """Its offset in the partition."""
        ...


class Cancellable(Protocol):
    """A punctuator that was scheduled."""

    def cancel(self) -> None:
        """Stops it for good."""
        ...


class FixedKeyContext(Protocol[KIn, VOut]):
    """What a processor that keeps the key may use."""

    @property
    def application_id(self) -> str:
        """The application's id."""
        ...

    @property
    def task_id(self) -> str:
        """The task's id: sub-topology and partition, as ``0_3``."""
        ...

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Where the current record came from; None in a punctuator."""
        ...

    @property
    def current_stream_time(self) -> int:
        """The greatest timestamp that the task has taken so far, -1 at first."""
        ...

    @property
    def current_system_time(self) -> int:
        """The wall clock, in milliseconds, as recorded for the batch: a replay sees the same."""
        ...

    def store(self, name: str) -> Any:
        """Returns a store that the processor is connected with."""
        ...

    def schedule(
        self, interval: Duration, clock: Clock, callback: Callable[[int], object], *, start: int | None = None
    ) -> Cancellable:
        """Calls a function at intervals.

        Args:
            interval: How far apart.
            clock: ``stream``: stream time, first with the first record. ``wall``: the wall clock, first after one
                interval.
            callback: Takes the time, in milliseconds.
            start: Time of the first call.
        """
        ...

    def forward(self, record: Record[KIn, VOut], to: str | None = None) -> None:
        """Sends a record to all operators below, or to the one of that name."""
        ...

    def drop(self, record: Record[Any, Any], reason: str) -> None:
        """Counts a record that the processor drops, so that no record disappears unseen."""
        ...


class ProcessorContext(FixedKeyContext[KIn, VOut], Protocol[KIn, VOut]):
    """What a processor may use; it may forward records of any key."""


class Processor(Generic[KIn, VIn, KOut, VOut]):
    """Base of processors for `Stream.process`; each task has its own.

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
        """Called once, before the first record; ``self.context`` is there."""

    def process(self, record: Record[KIn, VIn]) -> None:
        """Called for each record."""
        raise NotImplementedError(f"{type(self).__name__} has no process() of its own")

    def close(self) -> None:
        """Called once, at the end."""


class FixedKeyProcessor(Generic[KIn, VIn, VOut]):
    """Base of processors for `Stream.process_values`: what they forward must have the key of the record they got."""

    context: FixedKeyContext[KIn, VOut]

    def init(self) -> None:
        """Called once, before the first record; ``self.context`` is there."""

    def process(self, record: Record[KIn, VIn]) -> None:
        """Called for each record."""
        raise NotImplementedError(f"{type(self).__name__} has no process() of its own")

    def close(self) -> None:
        """Called once, at the end."""


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
