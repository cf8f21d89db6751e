"""Many records at once, for operators that have nothing to do for a single one that they could not do for all.

A record goes depth first through the operators, and so do the records of a chunk, as far as anybody can tell: a chunk
passes operators one after the other only where they form a line, from an input to a topic, in which at most one calls a
function of the user's and nothing else reads what another one of them keeps. Errors are dealt with one by one.
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
    """Where the records of a chunk come from.

    Attributes:
        places: The place of each among all that were taken.
        look: Makes the record of a place the one that is being processed, for whoever asks.
        failed: What is to be done about records that failed, by place, in the turn of the others.
    """

    places: Sequence[int]
    look: Callable[[int], None]
    failed: deque[tuple[int, Callable[[], None]]]


class Names(NamedTuple):
    """The keys of records as bytes, and the serde that writes them so."""

    serde: Serde[Any]
    data: Sequence[bytes | None]


class Chunk:
    """Records by column, in the order in which they are taken.

    Attributes:
        values: Their values.
        timestamps: Their times.
        headers: Their headers; None if no record has any.
        names: Their keys as bytes; None if those are not at hand.
        origin: Where they come from.
    """

    __slots__ = ("_keys", "headers", "names", "origin", "timestamps", "values")

    def __init__(
        self,
        keys: Sequence[Any] | Callable[[], Sequence[Any]],
        values: Sequence[Any],
        timestamps: Sequence[int],
        headers: Sequence[Headers] | None,
        names: Names | None,
        origin: Origin,
    ) -> None:
        self._keys = keys
        self.values = values
        self.timestamps = timestamps
        self.headers = headers
        self.names = names
        self.origin = origin

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def keys(self) -> Sequence[Any]:
        """Their keys, which are made when somebody asks for them."""
        if callable(self._keys):
            self._keys = self._keys()
        return self._keys

    def names_for(self, serde: Serde[Any]) -> Sequence[bytes | None]:
        """The bytes of the keys."""
        if self.names is not None and serde == self.names.serde:
            return self.names.data
        return serde.serialize_all(self.keys)

    def record(self, number: int) -> tuple[Any, Any, int, Headers]:
        """One of the records."""
        headers = () if self.headers is None else self.headers[number]
        return self.keys[number], self.values[number], self.timestamps[number], headers

    def fail(self, number: int, handle: Callable[..., None], error: BaseException) -> None:
        """Notes that an operator failed for a record."""
        self.origin.failed.append((self.origin.places[number], partial(handle, error, *self.record(number))))

    def settle(self, before: int | None = None) -> None:
        """Deals with the records that failed: all, or those before a place."""
        failed = self.origin.failed
        while failed and (before is None or failed[0][0] < before):
            place, handle = failed.popleft()
            self.origin.look(place)
            handle()

    def one_by_one(self, process: Callable[..., None]) -> None:
        """Gives each record to an operator that takes them singly."""
        headers = self.headers or repeat((), len(self))
        records = zip(self.keys, self.values, self.timestamps, headers, strict=True)
        look, failed = self.origin.look, self.origin.failed
        for place, record in zip(self.origin.places, records, strict=True):
            if failed:
                self.settle(place)
            look(place)
            process(*record)

    def with_values(self, values: Sequence[Any]) -> Chunk:
        """The same records with other values."""
        return Chunk(self._keys, values, self.timestamps, self.headers, self.names, self.origin)

    def counted(self, counts: Sequence[int], timestamps: Sequence[int]) -> Chunk:
        """The same records as counts of their keys."""
        return Chunk(self._keys, counts, timestamps, self.headers, self.names, self.origin)

    def with_keys(self, keys: Callable[[], Sequence[Any]], names: Names) -> Chunk:
        """The same records with other keys."""
        return Chunk(keys, self.values, self.timestamps, self.headers, names, self.origin)

    def where(self, chosen: Sequence[Any]) -> Chunk:
        """Those of the records that are chosen; what is behind the last choice is not."""

        def those(column: Sequence[Any]) -> list[Any]:
            return list(compress(column, chosen))

        return Chunk(
            those(self.keys),
            those(self.values),
            those(self.timestamps),
            None if self.headers is None else those(self.headers),
            None if self.names is None else Names(self.names.serde, those(self.names.data)),
            self.origin._replace(places=those(self.origin.places)),
        )


def read_chunk(
    inputs: Sequence[tuple[Queue, Columns]], order: Sequence[int] | None, look: Callable[[Queue, int, int], None]
) -> Chunk | None:
    """Reads the records of several inputs of one source, in an order that says for each which input it is of.

    Returns:
        None if not all of them can be read, and have a valid time.
    """
    used = [(queue, columns) for queue, columns in inputs if columns.offsets]
    read = []
    for queue, columns in used:
        found = queue.read_all(columns)
        if found is None:
            return None
        read.append(found)
    keys, values = _joined([keys for keys, _ in read]), _joined([values for _, values in read])
    timestamps = _joined([columns.timestamps for _queue, columns in used])
    names = _joined([columns.keys for _queue, columns in used])
    headers = None
    if any(isinstance(columns.headers, list) for _queue, columns in used):
        headers = _joined([list(islice(columns.headers, len(columns.keys))) for _queue, columns in used])
    starts = [0, *accumulate(len(columns.offsets) for _queue, columns in inputs)]
    taken: Sequence[int] = range(starts[-1])
    if order is not None and len(used) > 1:
        following = [iter(range(start, end)) for start, end in pairwise(starts)]
        taken = [next(following[number]) for number in order]
        keys, values, timestamps, names = (
            [column[one] for one in taken] for column in (keys, values, timestamps, names)
        )
        headers = None if headers is None else [headers[one] for one in taken]

    def look_at(place: int) -> None:
        number = bisect_right(starts, taken[place]) - 1
        queue, columns = inputs[number]
        within = taken[place] - starts[number]
        look(queue, columns.timestamps[within], columns.offsets[within])

    serde = used[0][0].node.key
    known = Names(serde, names) if serde.exact else None
    return Chunk(keys, values, timestamps, headers, known, Origin(range(len(taken)), look_at, deque()))


def _joined(columns: Sequence[Sequence[Any]]) -> Sequence[Any]:
    return columns[0] if len(columns) == 1 else list(chain.from_iterable(columns))


class Bulk(NamedTuple):
    """What an operator, and those below it, do with a chunk.

    Attributes:
        take: Takes a chunk.
        calls: One of them calls a function of the user's.
        copies: Nothing that is done to a value later, by whoever gave it, changes what becomes of it.
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
    """Calls a function of the user's for each record, once and in their order; until it fails, unless it goes on.

    Returns:
        The records for which it did not fail, and what it gave.
    """
    found: list[Any] = []
    wrong: list[int] = []
    append = found.append
    for given in zip(*columns, strict=True):
        try:
            append(function(*given))
        except FAILURES as error:
            wrong.append(len(found))
            chunk.fail(len(found), fail, error)
            append(None)
            if not goes_on:
                break
    if not wrong:
        return chunk, found
    chosen = [True] * len(found)
    for number in wrong:
        chosen[number] = False
    return chunk.where(chosen), list(compress(found, chosen))
