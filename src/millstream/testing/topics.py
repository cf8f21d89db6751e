"""Input and output topics of the test driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar, cast, overload

from millstream.core.durations import Duration, to_ms
from millstream.core.records import Headers, Record
from millstream.serde import Serde
from millstream.serde.api import reader

K = TypeVar("K")
V = TypeVar("V")

HeadersLike = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]
_MISSING: Any = object()


def as_headers(headers: HeadersLike) -> Headers:
    """Converts a mapping or pairs, with strings or bytes, to the headers of a record."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in pairs)


class TestInput(Generic[K, V]):
    """Pipes records into a topic. Created by `TestDriver.input`."""

    __test__ = False  # pytest must not collect it as a class of tests

    def __init__(self, send: Callable[[Record[Any, Any], int | None], None], start: int, advance: int) -> None:
        self._send = send
        self._time = start
        self._advance = advance

    @overload
    def pipe(
        self,
        value: V | Record[K, V] | None,
        /,
        *,
        timestamp: int | None = ...,
        headers: HeadersLike = ...,
        partition: int | None = ...,
    ) -> None: ...
    @overload
    def pipe(
        self,
        key: K | None,
        value: V | None,
        /,
        *,
        timestamp: int | None = ...,
        headers: HeadersLike = ...,
        partition: int | None = ...,
    ) -> None: ...
    def pipe(
        self,
        *key_and_value: Any,
        timestamp: int | None = None,
        headers: HeadersLike = (),
        partition: int | None = None,
    ) -> None:
        """Pipes a record: ``pipe(value)``, ``pipe(key, value)``, or ``pipe(Record(…))``.

        Args:
            *key_and_value: The value, or the key and the value.
            timestamp: In milliseconds. Default: the current time of the input, which starts at 0.
            headers: A mapping, or pairs; values as strings or bytes.
            partition: The partition. Default: determined by the key.
        """
        if len(key_and_value) == 1 and isinstance(key_and_value[0], Record):
            self.pipe_records(key_and_value)
            return
        if len(key_and_value) not in {1, 2}:
            raise TypeError(f"pipe() takes a value, or a key and a value, got {len(key_and_value)} arguments")
        key, value = key_and_value if len(key_and_value) == 2 else (None, key_and_value[0])
        time = self._time if timestamp is None else timestamp
        if timestamp is None:
            self._time += self._advance
        self._send(Record(key, value, time, as_headers(headers)), partition)

    def pipe_records(self, records: Iterable[Record[K, V]]) -> None:
        """Pipes several records."""
        for record in records:
            if not isinstance(record, Record):
                raise TypeError(f"pipe_records() takes records, got {record!r}: write Record(key, value, timestamp)")
            self._send(record, None)

    def pipe_values(self, values: Iterable[V]) -> None:
        """Pipes values without keys, at the current time of the input."""
        for value in values:
            self.pipe(value)

    def pipe_pairs(self, pairs: Iterable[tuple[K, V]]) -> None:
        """Pipes (key, value) pairs, at the current time of the input."""
        for key, value in pairs:
            self.pipe(key, value)

    def advance_time(self, by: Duration) -> None:
        """Advances the current time of the input."""
        self._time += to_ms(by)


class TestOutput(Generic[K, V]):
    """Reads the records of a topic, each once. Created by `TestDriver.output`."""

    __test__ = False

    def __init__(self, log: list[Any], key: Serde[Any], value: Serde[Any], before_read: Callable[[], None]) -> None:
        self._log = log
        self._read_key = reader(key)
        self._read_value = reader(value)
        self._position = 0
        self._before_read = before_read

    def __len__(self) -> int:
        self._before_read()
        return len(self._log) - self._position

    @property
    def is_empty(self) -> bool:
        """Whether all records have been read."""
        return len(self) == 0

    def read(self) -> Record[K, V]:
        """Reads the next record.

        Raises:
            LookupError: There is none.
        """
        if self.is_empty:
            raise LookupError("there is no record to read; check is_empty first")
        record = self._log[self._position]
        self._position += 1
        key, value = self._read_key(record.key, record.headers), self._read_value(record.value, record.headers)
        return Record(cast("K", key), cast("V", value), record.timestamp, record.headers)

    def read_all(self) -> list[Record[K, V]]:
        """Reads the remaining records."""
        return [self.read() for _ in range(len(self))]

    def read_values(self) -> list[V]:
        """Reads the values of the remaining records."""
        return [record.value for record in self.read_all()]

    def read_pairs(self) -> list[tuple[K, V]]:
        """Reads the (key, value) pairs of the remaining records."""
        return [(record.key, record.value) for record in self.read_all()]

    def read_table(self) -> dict[K, V]:
        """Reads the remaining records as a table: the last value of each key, without deleted keys."""
        rows = dict(self.read_pairs())
        return {key: value for key, value in rows.items() if value is not None}
