"""A task's state with its changelog in a list, compared with the same store in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from millstream.runtime.real_time.task_state import TaskState
from millstream.state.memory import open_store
from millstream.state.spec import ChangelogRecord, StoreSpec


def plain(result: Any) -> Any:
    return list(result) if isinstance(result, Iterator) else result


class Changelog:
    """The records of a changelog by offset."""

    def __init__(self) -> None:
        self.records: dict[int, ChangelogRecord] = {}
        self.end = 0

    def append(self, records: list[ChangelogRecord]) -> None:
        for record in records:
            self.records[self.end] = record
            self.end += 1

    def compact(self, *, deletions_from: int) -> None:
        """Keeps the last record of each key, and deletions only from an offset on."""
        last = {record.key: offset for offset, record in self.records.items()}
        self.records = {
            offset: record
            for offset, record in self.records.items()
            if last[record.key] == offset and (record.value is not None or offset >= deletions_from)
        }

    def delete_before(self, offset: int) -> None:
        self.records = {own: record for own, record in self.records.items() if own >= offset}

    def since(self, offset: int) -> list[ChangelogRecord]:
        return [record for own, record in self.records.items() if own >= offset]


class Twins:
    """A store of a task's state and one in memory. Each call on both must return the same result."""

    def __init__(self, spec: StoreSpec, path: Path | None, **options: Any) -> None:
        self.spec = spec
        self.path = path
        self.memory: Any = open_store(spec)
        self.log = Changelog()
        self._options = {"memory_limit": 10**9, **options}
        self._now = 0.0
        self._cells: dict[str, Any] = {}
        self._released: int | None = None
        self._waiting: list[Any] = []
        self._since: list[tuple[str, tuple[Any, ...]]] = []
        self.state = self.new_state(path)
        self.topic = self.state.changelog_of(spec)
        self.paged: Any = self.state.open(spec)

    def new_state(self, path: Path | None) -> TaskState:
        return TaskState("app", "0_0", [self.spec], path, **self._options)

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a method that may change the stores."""
        self._since.append((name, arguments))
        return self.read(name, *arguments)

    def read(self, name: str, *arguments: Any) -> Any:
        result = plain(getattr(self.paged, name)(*arguments))
        assert result == plain(getattr(self.memory, name)(*arguments)), (name, arguments)
        return result

    def publish(self, seconds: float = 3, *, force: bool = False) -> None:
        """Publishes the changes. The local store is written one publication later, as by another thread."""
        self._now += seconds
        blocks = self.state.changes(latest=7)
        for block in blocks:
            self.log.append(list(map(ChangelogRecord._make, zip(*block[2:], strict=True))))
        self._cells = {**self.state.cells(), f"store.{self.spec.name}": self.memory.time}
        for name, arguments in self._since:
            if name == "release":
                self._released = max(arguments[0], arguments[0] if self._released is None else self._released)
        self._since = []
        live = self.state.committed({self.topic: self.log.end})
        self.write()
        snapshot = self.state.snapshot(self._now, force=force)
        if snapshot is not None:
            self._waiting.append((snapshot, self.log.end))
        if force:
            self.write()
        self.log.delete_before(live.get(self.topic, 0))

    def write(self) -> None:
        for snapshot, end in self._waiting:
            self.state.write(snapshot, {self.topic: end})
        self._waiting = []

    def restored(self, path: Path | None) -> TaskState:
        """Returns the state as a restarted task has it, without the changes since the last publication."""
        state = self.new_state(path)
        state.check({self.topic: self.log.end})
        state.resume(self._cells)
        state.restore(self.topic, self.log.since(state.tags.get(self.topic, 0)))
        if self._released is not None:
            state.open(self.spec).release(self._released)  # as its operator does
        return state

    def crash(self, *, lost: bool = False) -> None:
        """Restarts the task and repeats what was not published.

        Args:
            lost: The local store is lost: another machine runs the task.
        """
        self.state.close()
        self._waiting = []
        if lost and self.path is not None:
            self.path.unlink(missing_ok=True)
            for suffix in ("-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        self.state = self.restored(self.path)
        self.paged = self.state.open(self.spec)
        for name, arguments in self._since:
            plain(getattr(self.paged, name)(*arguments))

    def compact(self) -> None:
        """Compacts the changelog. Deletions stay for a while: as long as a local store may need them."""
        tags = self.new_state(None).tags if self.path is None else self.state.tags
        self.log.compact(deletions_from=tags.get(self.topic, 0))
