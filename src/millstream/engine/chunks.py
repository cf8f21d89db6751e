"""Chunks: many records go through a linear chain of operators at once, with results identical to one by one.

The engine processes records depth first. Whole chunks pass through the operators one after the other only where the
order cannot be observed: the operators form a line from an input to a topic, at most one of them calls a user function,
and no other operator reads their stores. Errors are handled one by one, in the order of the records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, chain, compress, islice, pairwise, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from millstream.core.records import Headers
from millstream.engine.errors import FAILURES
from millstream.serde import Serde

if TYPE_CHECKING:
    from millstream.engine.queues import Columns, Queue


class Origin(NamedTuple):
    """The input records that the records of a chunk come from.

    Attributes:
        indexes: The index of each record's input record in the batch.
        set_current: Makes the input record at an index the task's current record.
        failures: The input records that failed, by index in ascending order, each with the call of its error handler.
    """

    indexes: Sequence[int]
    set_current: Callable[[int], None]
    failures: deque[tuple[int, Callable[[], None]]]


class KeyBytes(NamedTuple):
    """The serialized keys of records, and their serde."""

    serde: Serde[Any]
    data: Sequence[bytes | None]


class Chunk:
    """Records by column, in the order of processing.

    Attributes:
        values: The values.
        timestamps: The timestamps.
        headers: The headers; None if no record has any.
        key_bytes: The serialized keys; None if they are not available.
        origin: The input records.
    """

    __slots__ = ("_keys", "headers", "key_bytes", "origin", "timestamps", "values")

    def __init__(
        self,
        keys: Sequence[Any] | Callable[[], Sequence[Any]],
        values: Sequence[Any],
        timestamps: Sequence[int],
        headers: Sequence[Headers] | None,
        key_bytes: KeyBytes | None,
        origin: Origin,
    ) -> None:
        self._keys = keys
        self.values = values
        self.timestamps = timestamps
        self.headers = headers
        self.key_bytes = key_bytes
        self.origin = origin

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def keys(self) -> Sequence[Any]:
        """The keys, created on first use."""
        if callable(self._keys):
            self._keys = self._keys()
        return self._keys

    def serialized_keys(self, serde: Serde[Any]) -> Sequence[bytes | None]:
        """Returns the keys as bytes."""
        if self.key_bytes is not None and serde == self.key_bytes.serde:
            return self.key_bytes.data
        return serde.serialize_all(self.keys)

    def record(self, row: int) -> tuple[Any, Any, int, Headers]:
        """Returns a record of the chunk."""
        headers = () if self.headers is None else self.headers[row]
        return self.keys[row], self.values[row], self.timestamps[row], headers

    def fail(self, row: int, handle: Callable[..., None], error: BaseException) -> None:
        """Records that an operator failed for a record; `handle_failures` calls the handler in the record's turn."""
        failures = self.origin.failures
        failure = (self.origin.indexes[row], partial(handle, error, *self.record(row)))
        if failures and failures[-1][0] > failure[0]:  # an operator above has failed for a later record
            failures.insert(bisect_right(failures, failure[0], key=_index), failure)
        else:
            failures.append(failure)

    def handle_failures(self, before: int | None = None) -> None:
        """Calls the error handlers of the records that failed: of all, or of those before an index."""
        failures = self.origin.failures
        while failures and (before is None or failures[0][0] < before):
            index, handle = failures.popleft()
            self.origin.set_current(index)
            handle()

    def one_by_one(self, process: Callable[..., None]) -> None:
        """Processes each record by itself."""
        headers = self.headers or repeat((), len(self))
        records = zip(self.keys, self.values, self.timestamps, headers, strict=True)
        set_current, failures = self.origin.set_current, self.origin.failures
        for index, record in zip(self.origin.indexes, records, strict=True):
            if failures:
                self.handle_failures(index)
            set_current(index)
            process(*record)

    def with_values(self, values: Sequence[Any]) -> Chunk:
        """Returns the records with other values."""
        return Chunk(self._keys, values, self.timestamps, self.headers, self.key_bytes, self.origin)

    def with_timestamps(self, timestamps: Sequence[int]) -> Chunk:
        """Returns the records with other timestamps."""
        return Chunk(self._keys, self.values, timestamps, self.headers, self.key_bytes, self.origin)

    def with_aggregates(self, aggregates: Sequence[Any], timestamps: Sequence[int]) -> Chunk:
        """Returns the records with the aggregates of their keys as values, and other timestamps."""
        return Chunk(self._keys, aggregates, timestamps, self.headers, self.key_bytes, self.origin)

    def with_keys(self, keys: Callable[[], Sequence[Any]], key_bytes: KeyBytes) -> Chunk:
        """Returns the records with other keys."""
        return Chunk(keys, self.values, self.timestamps, self.headers, key_bytes, self.origin)

    def rekeyed(self, keys: Sequence[Any]) -> Chunk:
        """Returns the records with new keys."""
        return Chunk(keys, self.values, self.timestamps, self.headers, None, self.origin)

    def where(self, selected: Sequence[Any]) -> Chunk:
        """Returns the selected records. Records after the end of ``selected`` are not selected."""

        def select(column: Sequence[Any]) -> list[Any]:
            return list(compress(column, selected))

        return Chunk(
            select(self.keys),
            select(self.values),
            select(self.timestamps),
            None if self.headers is None else select(self.headers),
            None if self.key_bytes is None else KeyBytes(self.key_bytes.serde, select(self.key_bytes.data)),
            self.origin._replace(indexes=select(self.origin.indexes)),
        )

    def at(self, rows: Sequence[int]) -> Chunk:
        """Returns the records at these rows, in this order; a row may occur several times."""

        def take(column: Sequence[Any]) -> list[Any]:
            return [column[row] for row in rows]

        return Chunk(
            take(self.keys),
            take(self.values),
            take(self.timestamps),
            None if self.headers is None else take(self.headers),
            None if self.key_bytes is None else KeyBytes(self.key_bytes.serde, take(self.key_bytes.data)),
            self.origin._replace(indexes=take(self.origin.indexes)),
        )


def _index(failure: tuple[int, Callable[[], None]]) -> int:
    return failure[0]


def read_chunk(
    inputs: Sequence[tuple[Queue, Columns]],
    order: Sequence[int] | None,
    set_current: Callable[[Queue, int, int], None],
) -> Chunk | None:
    """Deserializes the records of several inputs of one source.

    Args:
        inputs: The records of each input.
        order: For each record, the index of its input. None: one input after the other.
        set_current: Makes a record the task's current one: queue, timestamp, offset.

    Returns:
        The chunk; None if a record cannot be read, or has no valid time.
    """
    used = [(queue, columns) for queue, columns in inputs if columns.offsets]
    read = []
    for queue, columns in used:
        keys_and_values = queue.read_all(columns)
        if keys_and_values is None:
            return None
        read.append(keys_and_values)
    keys, values = _joined([keys for keys, _ in read]), _joined([values for _, values in read])
    timestamps = _joined([columns.timestamps for _queue, columns in used])
    key_bytes = _joined([columns.keys for _queue, columns in used])
    headers = None
    if any(isinstance(columns.headers, list) for _queue, columns in used):
        headers = _joined([list(islice(columns.headers, len(columns.keys))) for _queue, columns in used])
    starts = [0, *accumulate(len(columns.offsets) for _queue, columns in inputs)]
    rows: Sequence[int] = range(starts[-1])  # the row of each record in the joined columns
    if order is not None and len(used) > 1:
        following = [iter(range(start, end)) for start, end in pairwise(starts)]
        rows = [next(following[number]) for number in order]
        keys, values, timestamps, key_bytes = (
            [column[row] for row in rows] for column in (keys, values, timestamps, key_bytes)
        )
        headers = None if headers is None else [headers[row] for row in rows]

    def set_current_index(index: int) -> None:
        number = bisect_right(starts, rows[index]) - 1
        queue, columns = inputs[number]
        row = rows[index] - starts[number]
        set_current(queue, columns.timestamps[row], columns.offsets[row])

    serde = used[0][0].node.key
    reusable = KeyBytes(serde, key_bytes) if serde.exact else None
    return Chunk(keys, values, timestamps, headers, reusable, Origin(range(len(rows)), set_current_index, deque()))


def _joined(columns: Sequence[Sequence[Any]]) -> Sequence[Any]:
    return columns[0] if len(columns) == 1 else list(chain.from_iterable(columns))


class Bulk(NamedTuple):
    """Processes chunks with an operator and all operators below it.

    Attributes:
        take: Processes a chunk.
        calls: One of the operators calls a user function.
        copies: The operators serialize or copy values at once, so later changes in place do not affect the result.
    """

    take: Callable[[Chunk], None]
    calls: bool = False
    copies: bool = True


def results(
    function: Callable[..., Any],
    columns: Sequence[Sequence[Any]],
    chunk: Chunk,
    fail: Callable[..., None],
    *,
    goes_on: bool,
) -> tuple[Chunk, list[Any]]:
    """Calls a user function once for each record, in order. Stops at the first error unless ``goes_on`` is set.

    Returns:
        The records for which the function did not fail, and its results.
    """
    values: list[Any] = []
    failed: list[int] = []
    calls = map(function, *columns)  # a loop of the interpreter would take twice as long
    while len(values) < len(chunk):
        try:
            values.extend(calls)
            if len(values) < len(chunk):  # the function has raised it, and so ended the iterator
                raise StopIteration
        except FAILURES as error:
            failed.append(len(values))
            chunk.fail(len(values), fail, error)
            values.append(None)
            if not goes_on:
                break
    if not failed:
        return chunk, values
    selected = [True] * len(values)
    for row in failed:
        selected[row] = False
    return chunk.where(selected), list(compress(values, selected))
