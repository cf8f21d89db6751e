"""The connector protocol: a source appends records of another system to topics, a sink writes topics to another system.

A connector keeps its position with the data. The runtime records the position of a source in the transaction that
appends its records. A sink records the offsets that it has applied in the transaction of the target. A process can end
at any moment: the next one continues at the recorded position, and no record is lost or written twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from millstream.core.records import Headers
from millstream.errors import ConfigError, MillstreamError

if TYPE_CHECKING:
    from millstream.connect.schema import ConnectSchema
    from millstream.connect.settings import Setting

Promise: TypeAlias = Literal["exactly once", "at least once"]
"""What a connector promises if processes end at any moment."""


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A record that a source appends to a topic.

    Attributes:
        topic: The topic.
        key: The key, for the key converter of the connector; None: the record has no key.
        value: The value, for the value converter; None deletes the key from a compacted topic.
        timestamp: Milliseconds since the epoch; None for the time at which it is appended.
        headers: Names and values, in order.
        partition: None to choose it by the bytes of the key.
        key_schema: The schema of the key, for converters that write schemas.
        value_schema: The schema of the value.
    """

    topic: str
    key: Any
    value: Any
    timestamp: int | None = None
    headers: Headers = ()
    partition: int | None = None
    key_schema: ConnectSchema | None = None
    value_schema: ConnectSchema | None = None

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with other attributes."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """A record that a sink writes to another system.

    Attributes:
        topic: The topic from which it was read. A transform may change it, to choose another table.
        partition: The partition from which it was read; `offset` likewise.
        key: The key, as the key serde of the connector returns it.
        value: The value, as the value serde returns it; None deletes the row of the key.
        timestamp: Milliseconds since the epoch.
        headers: Names and values, in order.
        origin: The topic from which it was read, also if a transform has changed `topic`.
    """

    topic: str
    partition: int
    offset: int
    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()
    origin: str = ""

    def __post_init__(self) -> None:
        if not self.origin:
            object.__setattr__(self, "origin", self.topic)

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with other attributes."""
        return replace(self, **changes)


Transform: TypeAlias = Callable[[Any], Any]
"""Takes a `SourceRecord` or a `SinkRecord` and returns it, a changed copy, several in a list, or None to drop it."""


class SourceBatch(NamedTuple):
    """Records of a source, and its position after them.

    Attributes:
        records: The records, in order. They may be empty: then only the position is recorded.
        position: JSON values from which `Source.read` continues after these records.
    """

    records: Sequence[SourceRecord]
    position: Any


class Context(Protocol):
    """What the runtime offers to a connector.

    Attributes:
        application: The application id.
        connector: The name of the connector.
    """

    application: str
    connector: str

    @property
    def stopping(self) -> bool:
        """Whether the connector is to end: it stops, or it is paused."""
        ...

    def wait(self, seconds: float) -> bool:
        """Waits. It returns at once if the connector is to end. Returns `stopping`."""
        ...

    def gauge(self, name: str, value: float) -> None:
        """Sets a metric of the connector, such as the bytes that a replication slot holds back."""
        ...

    def report(self, message: str) -> None:
        """Shows the progress of a long step; an empty message: it is over.

        A source that yields None meanwhile has not caught up.
        """
        ...

    def warn(self, message: str) -> None:
        """Shows a message to the user, such as a command that cannot be carried out."""
        ...


class SourceContext(Context, Protocol):
    """What the runtime offers to a source."""

    @property
    def committed(self) -> Any:
        """The last position that is recorded together with its records; None: none is recorded yet."""
        ...

    @property
    def commands(self) -> Collection[Mapping[str, Any]]:
        """The commands for this source, such as ad-hoc snapshots, from the oldest on; each has an ``id``.

        The position tells which ones are done. The runtime keeps the last hundred.
        """
        ...


class SinkContext(Context, Protocol):
    """What the runtime offers to a sink.

    Attributes:
        task: The number of the task, from 0. Each task of a sink writes other partitions.
        application_epoch: The epoch of the application's instance. It is greater at each start.
        epoch: The epoch of this instance of the task, which is greater than those of all earlier instances of the
            task. A target refuses the writes of an older pair of epochs.
    """

    task: int
    application_epoch: int
    epoch: int


P = TypeVar("P", bound="Source | Sink")


def _configured(plugin: type[P], config: Mapping[str, Any]) -> P:
    make: Callable[..., P] = plugin
    if plugin.settings:
        return make(config)
    return make(**{key.replace(".", "_").replace("-", "_"): value for key, value in config.items()})


class Source(ABC):
    """Reads another system. Subclass it for your own.

    >>> from collections.abc import Iterator
    >>> class Numbers(Source):
    ...     def read(self, split: str, position: int | None, context: SourceContext) -> Iterator[SourceBatch | None]:
    ...         for number in range(position or 0, 3):
    ...             yield SourceBatch([SourceRecord("numbers", None, number)], number + 1)
    >>> [batch.position for batch in Numbers().read("", 1, None)]
    [2, 3]

    Attributes:
        promise: What the connector promises. ``"exactly once"`` holds if `read`, called with a position, continues
            with exactly the records after it.
        reason: Why it promises no more; empty for ``"exactly once"``.
    """

    promise: ClassVar[Promise] = "exactly once"
    reason: ClassVar[str] = ""
    commands: ClassVar[Sequence[str]] = ()
    settings: ClassVar[Mapping[str, Setting]] = {}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Returns the source of a configuration: of the table of a file, or of a request.

        A class with `settings` takes the configuration as its argument. Others take keyword arguments, with
        underscores for dots and hyphens.
        """
        return _configured(cls, config)

    def splits(self) -> Sequence[str]:
        """Returns the parts that are read at the same time, such as tables. Each has a position of its own.

        A split must have the same name at each start. Records of different splits have no order.
        """
        return ("0",)

    @abstractmethod
    def read(self, split: str, position: Any, context: SourceContext) -> Iterator[SourceBatch | None]:
        """Yields the records of a split after a position.

        The runtime may combine several batches into one transaction. It yields None when there is nothing to read at
        the moment: what was read is committed then. It must yield something at least every 100 ms or so
        (`SourceContext.wait`). The runtime closes the generator to end the source. A generator that returns has
        reached the end of its split.

        Args:
            split: One of `splits`.
            position: The position of the last batch that was committed; None at the first start.
            context: What the runtime offers.

        Raises:
            ConnectorError: The system cannot be read. With ``may_pass``, the runtime tries again after a pause.
        """

    def install(self) -> None:
        """Creates what the source needs in its system, such as triggers. `millstream connect install` calls it.

        The default refuses: most sources need nothing.

        Raises:
            ConfigError: The source needs nothing.
        """
        raise ConfigError(f"{type(self).__name__} needs nothing in its system")

    def remove(self) -> None:
        """Removes what `install` has created.

        Raises:
            ConfigError: The source needs nothing.
        """
        raise ConfigError(f"{type(self).__name__} needs nothing in its system")

    def topics(self) -> Mapping[str, Mapping[str, str]]:
        """Returns the configuration of topics to create, by name. Topics without an entry get the defaults."""
        return {}


class RefusedRecords(MillstreamError):  # noqa: N818  (it carries the places of records)
    """The target refuses some records of a batch. Nothing of the batch was written.

    The runtime handles these records as the connector's ``on_error`` says, and writes the others again.

    Attributes:
        reasons: The reason of each refused record, by its place in the batch.
    """

    code = "refused-records"

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__("; ".join(sorted(set(reasons.values()))))
        self.reasons = dict(reasons)


class SinkWriter(ABC):
    """Writes the records of some partitions to another system. `Sink.open` returns it; one thread uses it."""

    @abstractmethod
    def positions(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int] | None:
        """Returns the offsets to continue at, which the target has recorded; None: the target records no offsets.

        A partition that is not in the result begins as the connector's ``offset_reset`` says. With None, the runtime
        commits the offsets to a consumer group after each write, and the sink is at least once.
        """

    @abstractmethod
    def write(self, records: Sequence[SinkRecord], offsets: Mapping[tuple[str, int], int]) -> None:
        """Writes records, and the offsets to continue at after them, in one transaction.

        Args:
            records: The records, in the order of each partition.
            offsets: The offset to continue at, of each partition that has moved.

        Raises:
            RefusedRecords: Some records cannot be written.
            FencedError: Another instance of this task has taken over.
            ConnectorError: The system cannot be written. With ``may_pass``, the runtime opens a new writer after a
                pause.
        """

    def close(self) -> None:  # noqa: B027  (not every writer has something to close)
        """Closes connections. It is called once, also after an error."""


class Sink(ABC):
    """Writes to another system. Subclass it for your own.

    Attributes:
        promise: What the connector promises. ``"exactly once"`` holds if the target records the offsets in the
            transaction of the records.
        reason: Why it promises no more; empty for ``"exactly once"``.
        settings: The settings of its configuration, by name, for a class that takes a configuration.
    """

    promise: ClassVar[Promise] = "exactly once"
    reason: ClassVar[str] = ""
    settings: ClassVar[Mapping[str, Setting]] = {}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Returns the sink of a configuration: of the table of a file, or of a request.

        A class with `settings` takes the configuration as its argument. Others take keyword arguments, with
        underscores for dots and hyphens.
        """
        return _configured(cls, config)

    @abstractmethod
    def open(self, context: SinkContext) -> SinkWriter:
        """Connects to the system.

        Raises:
            ConnectorError: The system cannot be reached (``may_pass``), or does not accept this sink.
        """
