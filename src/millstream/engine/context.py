"""The context that the operators of one task share: stores, time, counters, outputs and error handling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from millstream.config import Config
from millstream.core.records import Headers
from millstream.engine.call_trace import installed_trace
from millstream.engine.contract_violations import handle_unreadable
from millstream.engine.errors import STACK_TRACE, ErrorContext, ErrorHandlers, Fatal, Phase, check_interrupt, failure
from millstream.engine.punctuation import Punctuators
from millstream.engine.queues import InputRecord
from millstream.errors import RunError, SchemaError, UnknownStoreError, suggestion
from millstream.plan.contracts import contract_of
from millstream.plan.functions import Function
from millstream.plan.node import Node
from millstream.stages import Topology
from millstream.stages.task_id import TaskId
from millstream.state.memory import open_store
from millstream.state.spec import StoreSpec

Getter: TypeAlias = Callable[[Any], tuple[Any, int] | None]
"""Looks up a row of a table: (value, timestamp)."""
Failure: TypeAlias = Callable[[BaseException, Any, Any, int, Headers], None]
"""Handles an error: error, key, value, timestamp, headers."""
Drop: TypeAlias = Callable[[Any, Any, int, Headers], None]
"""Counts a dropped record: key, value, timestamp, headers."""


class OutputRecord(NamedTuple):
    """A record that a task wrote to a topic.

    ``partition`` is None if the key is hashed. A negative number is the number of bytes at the end of the key that are
    not hashed: those of a window, so that all windows of a key share a partition. ``origin`` is the index of the input
    record in whose processing the task wrote the record, among those given to `Task.take`. It is None for sinks, and
    for records that a wall-clock punctuator wrote.
    """

    topic: str
    key: Any
    value: Any
    timestamp: int
    headers: Headers
    partition: int | None = None
    origin: int | None = None


class OutputBatch(NamedTuple):
    """Records that a task wrote to a topic, by column; ``headers`` is None if no record has any. See `OutputRecord`.

    ``origins`` are those of the records of an internal topic; None for sinks.
    """

    topic: str
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Sequence[Headers] | None
    partition: int | None
    origins: Sequence[int] | None = None


class DroppedRecord(NamedTuple):
    """A record that an operator dropped: the operator, the reason, and the record at that operator."""

    operator: str
    reason: str
    key: Any
    value: Any
    timestamp: int


_HEADER_OVERHEAD = 10


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Returns the size of a record in bytes."""
    size = len(key or b"") + len(value or b"")
    return (
        size if not headers else size + sum(len(name) + len(data or b"") + _HEADER_OVERHEAD for name, data in headers)
    )


class TaskContext:
    """The context that the operators of one task share.

    Attributes:
        cells: Small values that operators keep, by name, each in a list of one item that its operator holds a
            reference to. They are part of the task's state, as the stores are.
        stream_time: The greatest timestamp that the task has taken.
        now: The wall clock; the host sets it.
        source: The queue (topic and partition) of the current record; None in a punctuator.
        current: Returns the current record: (timestamp, key, value, headers, offset, raw).
        index: The index of the current record among those given to `Task.take`; None in a wall-clock punctuator.
        partition_counts: Returns the number of partitions of a topic.
        call_trace: The call trace of the process; None if there is none.
        largest: The size limit of the log for a record, in bytes as `size_of` counts them; None without a limit.
        silent: The operators whose errors and drops are not reported: another task runs them, too, and reports them.
        dropped: The number of dropped records, by operator and reason.
        on_drop: Called with each dropped record, if it is set.
    """

    def __init__(
        self,
        topology: Topology,
        config: Config,
        partition: int,
        *,
        raw: bool = False,
        open_store: Callable[[StoreSpec], Any] = open_store,
    ) -> None:
        self.topology = topology
        self.silent: frozenset[str] = frozenset()
        self.config = config
        self.partition = partition
        self.raw = raw
        self.open_store = open_store
        self.stores: dict[str, Any] = {}
        self.cells: dict[str, list[Any]] = {}
        self.shared: dict[Node, Any] = {}
        self.processors: list[tuple[Node, Any]] = []
        self.outputs: list[Any] = []
        self.dropped: dict[tuple[str, str], int] = {}
        self.on_drop: Callable[[DroppedRecord], None] | None = None
        self.stream_time = -1
        self.now = 0
        self.source: Any = None
        self.current: Callable[[], Any] = lambda: None
        self.index: int | None = None
        self.call_trace = installed_trace()
        self.punctuators = Punctuators(self)
        self.partition_counts: Callable[[str], int] = lambda _topic: 1
        self.largest: int | None = None
        self._handlers = ErrorHandlers(config, self.dead_letter)

    @property
    def task_id(self) -> str:
        """The number of the sub-topology and of the partition; of a whole topology, that of its first one."""
        parts = self.topology.parts
        return str(TaskId(parts[0].index if parts else 0, self.partition))

    def store(self, spec: StoreSpec) -> Any:
        """Returns a store. It is opened on first use."""
        if spec.name not in self.stores:
            self.stores[spec.name] = self.open_store(spec)
        return self.stores[spec.name]

    def store_named(self, name: str, allowed: tuple[str, ...], operator: str) -> Any:
        """Returns a store for a processor; the processor must be connected with it."""
        if name not in allowed:
            hint = suggestion(name, allowed) or f"connect it: process({operator}, {name!r})"
            raise UnknownStoreError(f"operator {operator!r} is not connected with a store {name!r}", hint=hint)
        return self.store(self.topology.plan.store(name)[1])

    def cell(self, node: Node, name: str, initial: Any) -> list[Any]:
        """Returns a cell of an operator: a small value of its state, in a list of one item."""
        return self.cells.setdefault(f"{node.name}.{name}", [initial])

    # ----- dropped records and errors --------------------------------------------------------------------------

    def drop(self, node: Node, reason: str) -> Drop:
        """Returns a function that counts a dropped record."""
        operator = node.name

        def dropped(key: Any, value: Any, timestamp: int, _headers: Headers) -> None:
            self.count(DroppedRecord(operator, reason, key, value, timestamp))

        return dropped

    def count(self, record: DroppedRecord) -> None:
        """Counts a dropped record."""
        if record.operator in self.silent:
            return
        counter = (record.operator, record.reason)
        self.dropped[counter] = self.dropped.get(counter, 0) + 1
        if self.on_drop is not None:
            self.on_drop(record)

    def count_drop(self, operator: str, reason: str, key: Any, value: Any, timestamp: int) -> None:
        """Counts a dropped record."""
        self.count(DroppedRecord(operator, reason, key, value, timestamp))

    def reader_of(self, topic: str) -> Any:
        """Returns the source, repartition or global table that reads a topic; None if the task has none."""
        if self.source is not None and self.source.topic == topic:
            return self.source.node
        tables = (table for table in self.topology.global_tables if table.topic == topic)
        sources = (source for part in self.topology.parts for source in part.sources if topic in source.topics)
        return next(iter((*tables, *sources)), None)

    @staticmethod
    def stops(error: BaseException) -> bool:
        """Whether an error stops the application whatever the handlers and contracts say: no record is at fault."""
        check_interrupt(error)
        return isinstance(error, Fatal | SchemaError)

    def failure(self, node: Node, function: Function | str | None = None, phase: Phase = "processing") -> Failure:
        """Returns the error handler of an operator: it raises, or drops the record."""
        location = function.location if isinstance(function, Function) else function
        drop = self.drop(node, f"{phase} error")

        def failed(error: BaseException, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if isinstance(error, Fatal):
                raise error
            if node.name in self.silent:
                return
            self._handlers.handle(self.error_context(node.name, location, phase, timestamp), error)
            drop(key, value, timestamp, headers)

        return failed

    def start_failure(self, node: Node, function: str, error: BaseException) -> RunError:
        """Returns the error of a processor that cannot start or close. Without a record, handlers do not apply."""
        check_interrupt(error)
        return failure(self.error_context(node.name, function, "processing", 0), error)

    def read_failure(self, node: Node, topic: str, partition: int, record: InputRecord, error: BaseException) -> None:
        """Handles a record that cannot be deserialized: raises, or counts it as dropped."""
        if node.name in self.silent:
            return
        failed = ErrorContext(
            phase="deserialization",
            topic=topic,
            partition=partition,
            offset=record.offset,
            operator=node.name,
            function=None,
            task_id=self.task_id,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
        contract = contract_of(node)
        if contract is not None and contract.on_violation != "fail" and not self.stops(error):
            handle_unreadable(self, node, contract, failed, error)
            return
        self._handlers.handle(failed, error)
        reason = "deserialization error"
        self.count(DroppedRecord(node.name, reason, record.key, record.value, record.timestamp))

    def source_record(self) -> InputRecord | None:
        """Returns the current record, serialized; None if it is not available."""
        source, entry = self.source, self.current()
        if source is None or entry is None:
            return None
        record: InputRecord | None = entry[5]
        return source.find(entry[4]) if record is None and source.find is not None else record

    def traced(self, node: Node, call: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a user function, traced if the process has a call trace."""
        return call if self.call_trace is None else self.call_trace.traced(node.name, call)

    def error_context(self, operator: str, function: str | None, phase: Phase, timestamp: int) -> ErrorContext:
        """Returns the description of the current record, for an error handler."""
        source, entry, raw = self.source, self.current(), self.source_record()
        record = raw if raw is not None else InputRecord(-1, timestamp, None, None)
        return ErrorContext(
            phase=phase,
            topic=None if source is None else source.topic,
            partition=None if source is None else source.partition,
            offset=None if source is None or entry is None else entry[4],
            operator=operator,
            function=function,
            task_id=self.task_id,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )

    def dead_letter(self, topic: str, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Writes a dead letter. The stack trace is empty if the record would be too large."""
        if self.largest is not None and size_of(key, value, headers) > self.largest:
            headers = tuple((name, b"" if name == STACK_TRACE else data) for name, data in headers)
        self.outputs.append(OutputRecord(topic, key, value, timestamp, headers))
