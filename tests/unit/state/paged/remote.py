"""A remote map in a dict, and a state of one store on it, beside the same store in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millstream.state.memory import open_store
from millstream.state.paged import MANIFEST_KEY, PagedState, Writes
from millstream.state.spec import StoreSpec


class Remote:
    """A flat map that counts what is read and written."""

    def __init__(self) -> None:
        self.map: dict[bytes, bytes] = {}
        self.fetched: list[bytes] = []
        self.fetches = 0
        self.last = Writes([], [])
        self.wrongly_deleted: list[bytes] = []

    def fetch(self, keys: list[bytes]) -> list[bytes | None]:
        assert keys
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
        """A state from what the map has."""
        state = PagedState(self.fetch, **{"memory_limit": 10**9, **options})
        state.load(self.map.get(MANIFEST_KEY))
        return state


def plain(result: Any) -> Any:
    return list(result) if isinstance(result, Iterator) else result


class Twins:
    """A paged store and the one in memory: whatever is called on both must give the same."""

    def __init__(self, spec: StoreSpec, **options: Any) -> None:
        self.spec = spec
        self.remote = Remote()
        self.memory: Any = open_store(spec)
        self._options = options
        self._since: list[tuple[str, tuple[Any, ...]]] = []
        self._released: int | None = None
        self._batch = 0
        self._load()

    def _load(self) -> None:
        self.state = self.remote.state(**self._options)
        self.paged: Any = self.state.open(self.spec)
        if self._released is not None:
            self.paged.release(self._released)

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a method that may change the stores."""
        self._since.append((name, arguments))
        return self.read(name, *arguments)

    def read(self, name: str, *arguments: Any) -> Any:
        found = plain(getattr(self.paged, name)(*arguments))
        assert found == plain(getattr(self.memory, name)(*arguments)), (name, arguments)
        return found

    def commit(self) -> None:
        """Ends a batch, which both stores must say the same of."""
        for name, arguments in self._since:
            if name == "release":
                self._released = max(arguments[0], -(10**9) if self._released is None else self._released)
        expected = self.memory.changes()
        assert self.state.changes() == ({self.spec.name: expected} if expected else {})
        self._batch += 1
        self.remote.apply(self.state.commit(b"%d" % self._batch))
        self._since = []

    def crash(self) -> None:
        """Loses what is in memory; the batch is run again on what the remote map has."""
        self._load()
        for name, arguments in self._since:
            plain(getattr(self.paged, name)(*arguments))
