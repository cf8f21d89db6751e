"""The Processor API: runs processors of users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from millstream.core.asynchronous import ASYNC_HINT, async_method, is_async
from millstream.core.durations import END_OF_TIME, Duration, show_ms, to_ms
from millstream.core.records import Headers, Record, check_headers
from millstream.engine.compile import Build, Process, operator
from millstream.engine.context import TaskContext
from millstream.engine.errors import FAILURES, Fatal
from millstream.engine.punctuation import NEVER, Punctuator
from millstream.errors import ProcessingError, StateError, suggestion
from millstream.plan import process as plan
from millstream.plan.functions import describe_callable
from millstream.state.stores import user_store
from millstream.text.escaping import error_text


class RecordMetadata(NamedTuple):
    """The topic, partition and offset of the current record."""

    topic: str
    partition: int
    offset: int


@operator(plan.Process)
def process(node: plan.Process, build: Build) -> Process:
    """Calls the user's processor for each record."""
    context = ProcessorContext(node, build)
    supplier = f"operator {node.name!r}: {describe_callable(node.supplier)}"
    try:
        processor = build.context.traced(node, node.supplier)()
    except FAILURES as error:
        raise Fatal(ProcessingError(f"{supplier} cannot create a processor: {error_text(error)}")) from error
    if getattr(processor, "context", None) is not None:
        raise Fatal(
            ProcessingError(
                f"{supplier} returned a processor that is already in use",
                hint="every task needs its own processor: create a new one in each call",
            )
        )
    if not callable(getattr(processor, "process", None)):
        raise Fatal(
            ProcessingError(
                f"{supplier} returned {processor!r}, which has no process()",
                hint="derive from Processor or FixedKeyProcessor",
            )
        )
    method = async_method(processor, ("process", "init", "close"))
    if method is not None:
        raise Fatal(
            ProcessingError(
                f"operator {node.name!r}: {describe_callable(getattr(processor, method))} is asynchronous",
                hint=ASYNC_HINT,
            )
        )
    processor.context = context
    build.context.processors.insert(0, (node, processor))  # operators are compiled from the last to the first
    handle = build.context.traced(node, processor.process)
    fail = build.context.failure(node, describe_callable(handle))

    if node.keeps_key:

        def with_fixed_key(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            context.key = key
            try:
                handle(Record(key, value, timestamp, headers))
            except FAILURES as error:
                fail(error, key, value, timestamp, headers)

        return with_fixed_key

    def process_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            handle(Record(key, value, timestamp, headers))
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)

    return process_record


_ANY_KEY = object()


class ProcessorContext:
    """The context of a processor. See `millstream.dsl.processors.ProcessorContext`."""

    def __init__(self, node: plan.Process, build: Build) -> None:
        self._node = node
        self._task: TaskContext = build.context
        self._forward = build.forward(node)
        self._named = build.named(node)
        self._schedules = 0
        self.key: Any = _ANY_KEY

    @property
    def application_id(self) -> str:
        """The application's id."""
        return self._task.topology.application_id

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self._task.task_id

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """The topic, partition and offset of the current record; None in a punctuator."""
        source = self._task.source
        return None if source is None else RecordMetadata(source.topic, source.partition, self._task.current()[4])

    @property
    def current_stream_time(self) -> int:
        """The greatest timestamp that the task has taken; -1 before the first record."""
        return self._task.stream_time

    @property
    def current_system_time(self) -> int:
        """The wall clock, as the host has set it."""
        return self._task.now

    def store(self, name: str) -> Any:
        """Returns a store; the processor must be connected with it."""
        store = self._task.store_named(name, self._node.uses, self._node.name)
        return user_store(store, timestamped=store.spec.timestamped)

    def schedule(
        self, interval: Duration, clock: str, callback: Callable[[int], object], *, start: int | None = None
    ) -> Punctuator:
        """Calls a function at intervals of stream time or of the wall clock."""
        every = to_ms(interval, "interval")
        if every <= 0:
            raise StateError(f"schedule: the interval must be more than zero, got {show_ms(every)}")
        if clock not in {"stream", "wall"}:
            raise StateError(f"schedule: there is no clock {clock!r}", hint="use 'stream' or 'wall'")
        if start is not None and start < 0:
            raise StateError(f"schedule: the start must not be negative, got {start}")
        if start is None:
            first = 0 if clock == "stream" else self._task.now + every
        else:
            now = self._task.stream_time if clock == "stream" else self._task.now
            first = start if start >= now else start + ((now - start) // every + 1) * every
        if is_async(callback):
            raise ProcessingError(f"schedule: {describe_callable(callback)} is asynchronous", hint=ASYNC_HINT)
        fail = self._task.failure(self._node, describe_callable(callback))
        punctuate = self._task.traced(self._node, callback)

        def call(now: int) -> None:
            self.key = _ANY_KEY
            try:
                punctuate(now)
            except FAILURES as error:
                fail(error, None, None, now, ())

        self._schedules += 1
        name = f"{self._node.name}.{self._schedules}"
        return self._task.punctuators.schedule(clock, min(first, NEVER), every, call, name)

    def forward(self, record: Record[Any, Any], to: str | None = None) -> None:
        """Forwards a record to all operators below, or to the one of that name."""
        if not isinstance(record, Record):
            raise ProcessingError(
                f"forward: expected a Record, got {record!r} ({type(record).__name__})",
                hint="forward(record.with_value(…)), or forward(Record(key, value, timestamp))",
            )
        if type(record.timestamp) is not int or not 0 <= record.timestamp <= END_OF_TIME:
            raise ProcessingError(
                f"forward: {record.timestamp!r} ({type(record.timestamp).__name__}) is not a timestamp",
                hint="a timestamp is an int from 0 to 2**63 - 1, in milliseconds since the epoch",
            )
        if record.headers:
            try:
                check_headers(record.headers)
            except (TypeError, ValueError) as error:
                hint = 'headers are pairs of str and bytes or None, such as (("trace", b"1"),)'
                raise ProcessingError(f"forward: {error}", hint=hint) from None
        if self._node.keeps_key and self.key is not _ANY_KEY and record.key != self.key:
            raise ProcessingError(
                f"forward: the key was changed from {self.key!r} to {record.key!r}",
                hint="use Stream.process instead of process_values to change keys",
            )
        if to is None:
            self._forward(record.key, record.value, record.timestamp, record.headers)
            return
        below = self._named.get(to)
        if below is None:
            hint = suggestion(to, self._named) or f"the operators below it: {', '.join(self._named) or 'none'}"
            raise ProcessingError(f"forward: there is no operator {to!r} below {self._node.name!r}", hint=hint)
        below(record.key, record.value, record.timestamp, record.headers)

    def drop(self, record: Record[Any, Any], reason: str) -> None:
        """Counts a record as dropped by the processor."""
        self._task.drop(self._node, reason)(record.key, record.value, record.timestamp, record.headers)
