"""A remote map in a dict, and paged stores on it, compared with the same stores in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millstream.serde import BYTES, LONG, STRING
from millstream.state.memory import open_store
from millstream.state.paged import MANIFEST_KEY, PagedState, Writes
from millstream.state.spec import ChangelogRecord, StoreSpec


class Remote:
    """A flat map that records reads and writes."""

    def __init__(self) -> None:
        self.map: dict[bytes, bytes] = {}
        self.fetched: list[bytes] = []
        self.fetches = 0
        self.last = Writes([], [])
        self.wrongly_deleted: list[bytes] = []
        self.error: Exception | None = None

    def fetch(self, keys: list[bytes]) -> list[bytes | None]:
        assert keys
        if self.error is not None:
            raise self.error
        self.fetches += 1
        self.fetched += keys
        return [self.map.get(key) for key in keys]

    def apply(self, writes: Writes) -> None:
        self.last = writes
        puts, deletes = dict(writes.puts), set(writes.deletes)
        assert len(puts) == len(writes.puts)
        assert len(deletes) == len(writes.deletes)
        assert not deletes & puts.keys()
        self.wrongly_deleted += [key for key in deletes if key not in self.map]
        for key in deletes:
            self.map.pop(key, None)
        self.map.update(puts)

    def count(self, kind: bytes) -> int:
        return sum(key[:1] == kind for key in self.map)

    def state(self, **options: Any) -> PagedState:
        """Returns a state from the contents of the map."""
        state = PagedState(self.fetch, **{"memory_limit": 10**9, **options})
        state.load(self.map.get(MANIFEST_KEY))
        return state


def plain(result: Any) -> Any:
    return list(result) if isinstance(result, Iterator) else result


class Twins:
    """A paged store and one in memory. Each call on both must return the same result."""

    def __init__(self, spec: StoreSpec, **options: Any) -> None:
        self.spec = spec
        self.remote = Remote()
        self.memory: Any = open_store(spec)
        self._options = options
        self._since: list[tuple[str, tuple[Any, ...]]] = []
        self._released: int | None = None
        self._batch = 0
        self.paged: Any = None
        self._load()

    def _load(self) -> None:
        self.state = self.remote.state(**self._options)
        self.paged = self.state.open(self.spec)
        if self._released is not None:
            self.paged.release(self._released)

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a method that may change the stores."""
        self._since.append((name, arguments))
        return self.read(name, *arguments)

    def read(self, name: str, *arguments: Any) -> Any:
        result = plain(getattr(self.paged, name)(*arguments))
        assert result == plain(getattr(self.memory, name)(*arguments)), (name, arguments)
        return result

    def commit(self) -> list[ChangelogRecord]:
        """Ends a batch, in which both stores must report the same changes; returns them."""
        for name, arguments in self._since:
            if name == "release":
                self._released = max(arguments[0], -(10**9) if self._released is None else self._released)
        expected: list[ChangelogRecord] = self.memory.changes()
        assert self.state.changes() == ({self.spec.name: expected} if expected else {})
        self._batch += 1
        self.remote.apply(self.state.commit(b"%d" % self._batch))
        self._since = []
        return expected

    def crash(self) -> None:
        """Discards the rows in memory and runs the batch again on the contents of the remote map."""
        self._load()
        for name, arguments in self._since:
            plain(getattr(self.paged, name)(*arguments))


ROWS = StoreSpec("rows", "key-value", STRING, LONG)
WINDOWS = StoreSpec("windows", "window", STRING, LONG, retention_ms=40_000)
PAIRS = StoreSpec("pairs", "window", STRING, LONG, retention_ms=40_000, duplicates=True)
SESSIONS = StoreSpec("sessions", "session", STRING, LONG, retention_ms=40_000)
VERSIONS = StoreSpec("versions", "versioned", STRING, LONG, retention_ms=40_000)
BUFFER = StoreSpec("buffer", "buffer", BYTES, LONG)
ALL = [ROWS, WINDOWS, PAIRS, SESSIONS, VERSIONS, BUFFER]
PUTS: dict[str, Any] = {
    "rows": lambda store, n: store.put(f"key{n}", n),
    "windows": lambda store, n: store.put(f"key{n}", n * 10, n),
    "pairs": lambda store, n: store.put(f"key{n}", n * 10, n),
    "sessions": lambda store, n: store.put(f"key{n}", n * 10, n * 10 + 5, n),
    "versions": lambda store, n: store.put(f"key{n}", n, n * 10),
    "buffer": lambda store, n: store.put(n * 10, b"x", n),
}


def rows_of(store: Any) -> Any:
    if store.spec.kind == "versioned":
        return [store.get(f"key{n}") for n in range(600)]
    if store.spec.kind == "session":
        return store.fetch_keys()
    return list(store.range()) if store.spec.kind == "key-value" else store.all()


def filled(remote: Remote, specs: list[StoreSpec], count: int = 500, **options: Any) -> PagedState:
    """Returns stores with this number of rows each, written in five batches."""
    state = remote.state(**options)
    stores = [state.open(spec) for spec in specs]
    for first in range(0, count, count // 5):
        for n in range(first, first + count // 5):
            for store in stores:
                PUTS[store.spec.name](store, n)
        remote.apply(state.commit(b""))
    return state
