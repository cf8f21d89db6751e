"""Look-ups of rows in another system: in batches, with a cache, retries and a bound on concurrency."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from millstream.errors import ConnectorError, MillstreamError

OnLookupError: TypeAlias = Literal["fail", "null"]

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class LookupTable(ABC):
    """Rows of another system, by key: the argument of `Stream.lookup`. Subclass it for your own system.

    It is pickled for the workers, so it opens its connections in `fetch`, and drops them in ``__getstate__``. Several
    threads may call `fetch` at the same time.

    >>> class Countries(LookupTable):
    ...     name = "countries"
    ...
    ...     def fetch(self, keys):
    ...         return {key: {"country": "Norway"} for key in keys if key == "NO"}

    Attributes:
        name: Its name, for messages.
        batch_size: The greatest number of keys of one call of `fetch`.
        concurrency: The number of calls at the same time.
    """

    name: str = "lookup"
    batch_size: int = 1_000
    concurrency: int = 4

    @abstractmethod
    def fetch(self, keys: Sequence[Any]) -> Mapping[Any, Any]:
        """Returns the rows of keys, by key. Keys without a row are left out.

        Raises:
            ConnectorError: The system cannot be asked. With ``may_pass``, the look-up is tried again.
        """


class RecordFunction(Protocol):
    """A user's function, as a plan holds it."""

    def full(self) -> Callable[..., Any]:
        """Returns a callable that takes all parts of a record, the key first."""
        ...


class LookupOptions(NamedTuple):
    """How a look-up join treats rows, misses and errors.

    Attributes:
        is_inner: Whether records without a row are dropped.
        cache: Seconds for which a row is cached.
        negative_cache: Seconds for which it is cached that there is no row.
        cache_size: The greatest number of cached keys of a process.
        retry_for: Seconds for which a look-up is tried again while its error may pass.
        on_error: ``fail``: the records fail. ``null``: they have no row.
    """

    is_inner: bool
    cache: float
    negative_cache: float
    cache_size: int
    retry_for: float
    on_error: OnLookupError


class LookupFunction:
    """The function of a look-up join: it takes key and value of a record, and returns a list of at most one result.

    `for_all` looks up the keys of many records at once.

    Args:
        table: The table.
        on: The function that returns the key to look up, given key and value of a record.
        joiner: The function that returns the result, given key and value of a record, and the row.
        options: How it treats rows, misses and errors.
    """

    pure = True

    def __init__(
        self,
        table: LookupTable,
        on: RecordFunction,
        joiner: RecordFunction,
        options: LookupOptions,
    ) -> None:
        self._table = table
        self._on = on
        self._joiner = joiner
        self._options = options
        self._start()

    def _start(self) -> None:
        self._cache: OrderedDict[Any, tuple[float, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self._failed: tuple[float, MillstreamError] | None = None
        self._key_of = self._on.full()
        self._join = self._joiner.full()

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("_table", "_on", "_joiner", "_options")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()

    def __call__(self, key: Any, value: Any) -> list[Any]:
        """Looks up the row of one record."""
        return self.for_all([key], [value])[0]

    def for_all(self, keys: Sequence[Any], values: Sequence[Any]) -> list[list[Any]]:
        """Looks up the rows of many records."""
        wanted = [self._key_of(key, value) for key, value in zip(keys, values, strict=True)]
        found = self._rows(dict.fromkeys(one for one in wanted if one is not None))
        is_inner, join = self._options.is_inner, self._join
        results = []
        for key, value, one in zip(keys, values, wanted, strict=True):
            row = None if one is None else found.get(one)
            results.append([] if row is None and is_inner else [join(key, value, row)])
        return results

    def _rows(self, wanted: Mapping[Any, None]) -> dict[Any, Any]:
        """The rows of keys: cached ones, and those that the table has."""
        now = time.monotonic()
        rows: dict[Any, Any] = {}
        missing = []
        with self._lock:
            for key in wanted:
                cached = self._cache.get(key)
                if cached is None or cached[0] < now:
                    missing.append(key)
                else:
                    rows[key] = cached[1]
                    self._cache.move_to_end(key)
        if missing:
            try:
                rows.update(self._fetched(missing))
            except ConnectorError:
                if self._options.on_error == "fail":
                    raise
        return rows

    def _fetched(self, keys: list[Any]) -> dict[Any, Any]:
        size = max(1, self._table.batch_size)
        batches = [keys[start : start + size] for start in range(0, len(keys), size)]
        if len(batches) == 1:
            parts = [self._with_retries(batches[0])]
        else:
            with ThreadPoolExecutor(max(1, self._table.concurrency)) as pool:
                parts = list(pool.map(self._with_retries, batches))
        rows = {key: row for part in parts for key, row in part.items()}
        now, options = time.monotonic(), self._options
        with self._lock:
            for key in keys:
                row = rows.get(key)
                seconds = options.negative_cache if row is None else options.cache
                if seconds > 0:
                    self._cache[key] = (now + seconds, row)
            while len(self._cache) > options.cache_size:
                self._cache.popitem(last=False)
        return rows

    def _with_retries(self, keys: Sequence[Any]) -> Mapping[Any, Any]:
        """Fetches rows; tries again while an error may pass.

        An error that has lasted so long is raised at once for other records of the next moment, too. Otherwise each
        of them would wait as long.
        """
        failed = self._failed
        if failed is not None and time.monotonic() < failed[0]:
            raise failed[1]
        end, pause = time.monotonic() + self._options.retry_for, _FIRST_PAUSE
        while True:
            try:
                rows = self._table.fetch(keys)
                self._failed = None
                return rows
            except ConnectorError as error:
                if not error.may_pass:
                    raise
                if time.monotonic() + pause > end:
                    self._failed = (time.monotonic() + _LONGEST_PAUSE, error)
                    raise
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def extended(_key: Any, value: Any, row: Any) -> Any:
    """Returns a value with the columns of its row; fields of the value take precedence. The default joiner."""
    return value if row is None else {**row, **value}
