"""The time of a record, from one of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.core.records import Record, Windowed
from millstream.dsl.processors import FixedKeyProcessor
from millstream.errors import TopologyError
from millstream.sql.catalog.sources import DataSource
from millstream.sql.closures import log_error
from millstream.sql.functions import TypedArgument, resolve_scalar
from millstream.sql.types import STRING

INVALID = -1
"""The timestamp of a record that is dropped."""

_EXTRACTOR = "default.timestamp.extractor"
_PACKAGE = "org.apache.kafka.streams.processor."
EXTRACTORS: dict[str, dict[str, Any]] = {
    f"{_PACKAGE}FailOnInvalidTimestamp": {"on_invalid_timestamp": "fail"},
    f"{_PACKAGE}LogAndSkipOnInvalidTimestamp": {"on_invalid_timestamp": "skip"},
    f"{_PACKAGE}UsePartitionTimeOnInvalidTimestamp": {"on_invalid_timestamp": "partition_time"},
    f"{_PACKAGE}WallclockTimestampExtractor": {"timestamp": "wall_clock"},
}
"""Kafka Streams' timestamp extractors, as options of a source."""

_FATAL = "Fatal user code error in TimestampExtractor callback for record"


class InvalidTimestampError(ValueError):
    """A record has no valid time, and the query must not go on without it."""


def record_times(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of a source without a TIMESTAMP column: by default, records with a negative time are skipped.

    Raises:
        TopologyError: The properties name an extractor that is not one of Kafka Streams.
    """
    name = properties.get(f"ksql.streams.{_EXTRACTOR}") or properties.get(_EXTRACTOR)
    if name is None:
        fails = str(properties.get("ksql.timestamp.throw.on.invalid", "false")).lower() == "true"
        return {"on_invalid_timestamp": "fail" if fails else "skip"}
    if name not in EXTRACTORS:
        raise TopologyError(f"{_EXTRACTOR}: unknown class {name}", hint=f"use one of: {', '.join(EXTRACTORS)}")
    return dict(EXTRACTORS[name])


class TimestampReader:
    """Reads the time of a record from the column that TIMESTAMP names; a null, negative or invalid time is -1.

    Attributes:
        fails: An invalid time raises.
        invalid: What stands for an invalid time.
    """

    def __init__(self, source: DataSource, *, fails: bool = False, invalid: int = INVALID) -> None:
        assert source.timestamp is not None
        self.column = source.timestamp.column
        self.pattern = source.timestamp.pattern
        self.keys = tuple(column.name for column in source.key)
        self.fails = fails
        self.invalid = invalid
        self._parse: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parse": None}

    def __call__(self, key: Any, value: dict[str, Any] | None) -> int:
        """Returns the time of a record in milliseconds."""
        try:
            time = self._millis(self._column(key, value))
        except Exception as error:
            if self.fails:
                raise InvalidTimestampError(f"{_FATAL}: {error}") from error
            log_error("TIMESTAMP", error)
            return self.invalid
        if time < 0 and self.fails:
            raise InvalidTimestampError(f"{_FATAL}: the timestamp {time} of column {self.column} is invalid")
        return time if time >= 0 else self.invalid

    def _column(self, key: Any, value: dict[str, Any] | None) -> Any:
        if self.column in self.keys:
            plain = key.key if isinstance(key, Windowed) else key
            return plain if len(self.keys) == 1 else plain[self.keys.index(self.column)]
        return None if value is None else value[self.column]

    def _millis(self, time: Any) -> int:
        if time is None:
            raise ValueError(f"the timestamp column {self.column} is null")
        if self.pattern is None:
            return int(time)
        if self._parse is None:
            arguments = [TypedArgument(STRING), TypedArgument(STRING, self.pattern)]
            self._parse = resolve_scalar("STRINGTOTIMESTAMP", arguments).call
        return int(self._parse(time, self.pattern))


class CheckedTimestamps(FixedKeyProcessor[Any, Any, Any]):
    """Fails at a record without a valid time, which stops the query.

    A timestamp function cannot do that: the handler of deserialization errors skips records for which it fails.
    """

    def __init__(self, reader: TimestampReader) -> None:
        self.reader = reader

    def process(self, record: Record[Any, Any]) -> None:
        """Forwards a record with a valid time."""
        try:
            self.reader(record.key, record.value)
        except Exception as error:
            raise ValueError(
                f"Fatal user code error in TimestampExtractor callback for record {record.key!r}: {error}"
            ) from error
        self.context.forward(record)


class SinkTimestamps(FixedKeyProcessor[Any, Any, Any]):
    """Gives records the time of one of their columns; a record without a valid time is dropped."""

    def __init__(self, reader: TimestampReader) -> None:
        self.reader = reader

    def process(self, record: Record[Any, Any]) -> None:
        """Forwards a record with its new time."""
        if record.value is None:
            self.context.forward(record)
            return
        time = self.reader(record.key, record.value)
        if time == INVALID:
            self.context.drop(record, "invalid timestamp")
        else:
            self.context.forward(record.with_timestamp(time))
