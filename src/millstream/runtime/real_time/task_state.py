"""The state of a task in real-time execution: its stores, their changelogs, and the local page store."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from millstream.errors import DamagedLocalStoreError, ProductionError, SerdeError, StateError
from millstream.runtime.real_time.live_offsets import LiveOffsets
from millstream.runtime.real_time.local_store import Entry, LocalStore
from millstream.stages.subtopology import changelog_topic
from millstream.state.paged import MANIFEST_KEY, CheckpointedState, StoreSize, kind_of
from millstream.state.spec import NO_TIMESTAMP, ChangelogRecord, StoreSpec

INTERVAL = 10.0
"""Seconds between two advances of the checkpoint. The pages of one are written until the next one."""

_PRESSED = 0.5
"""Seconds between two advances if rows exceed the memory limit."""

_MOST_ROWS = 100_000
"""An advance is due if so many rows have changed, so that it does not take long."""

_SPACING = 0.5
"""Seconds between two snapshots: each has costs of its own."""

_REFRESH = 3600.0
"""Seconds after which a local store without changes is written again: its age tells whether it can be used."""

_RESTORED_AT_ONCE = 20_000
_LEAST_PAGES = 8


class ChangelogBlock(NamedTuple):
    """Changes of a store, by column, as they are published to its changelog.

    Attributes:
        store: The name of the store.
        topic: Its changelog.
        keys: The changelog keys.
        values: The values; None deletes a row.
        timestamps: The timestamps.
    """

    store: str
    topic: str
    keys: list[bytes]
    values: list[bytes | None]
    timestamps: list[int]


class Snapshot(NamedTuple):
    """Pages to write to the local store, after the publication has been committed.

    Attributes:
        entries: The entries of the local store.
        sequence: The last advance of the checkpoint.
        complete: The advance up to which the pages contain all changes.
        is_advance: The advance belongs to this publication, so that its end offsets are those of the advance.
    """

    entries: dict[bytes, Entry]
    sequence: int
    complete: int
    is_advance: bool


class TaskState:
    """The stores of one task. The truth is in changelogs; a local page store has them as of an earlier commit.

    Every store has a changelog, whose records are absolute: each contains a row as it is, or deletes one. Keys and
    values have the formats of Kafka Streams, except in versioned stores, whose key contains the version
    (`millstream.state.paged.history`). So a changelog can be compacted, and it does no harm to replay it from an
    offset before the state that the stores have.

    The worker calls, in this order: the constructor; ``check`` with the end offsets of the changelogs; ``resume`` with
    the cells of the task record; ``restore`` for each changelog, with the records from ``tags`` on; then it builds the
    engine's task with ``open``, and processes records. At each publication it calls ``changes``, ``cells``, and
    ``snapshot``. When the publication has been committed, another thread may call ``committed``, and ``write`` with the
    snapshot. Publications are committed in order.

    **What a changelog does not tell.** The time of a store is the greatest time that was ever put, also of a row that
    has been deleted since. The counter of a store with duplicates gives the next sequence number. Both are in the
    task record: the engine's cells contain the times (``store.<name>``), `cells` the counters. Up to which time a held
    store has been released is a cell of its operator, which releases again when it is built.

    **Expired rows** are not deleted from changelogs one by one: a restored store drops them, because its time is
    known. Instead `committed` tells from which offset on a changelog is still needed, so that the worker can delete
    the records before it. A changelog must not lose records by their age. In a versioned store, whose rows do not
    expire as a whole, the versions that leave the history are deleted one by one.

    **Memory** stays within the limit: rows that do not fit are read from the local store when they are needed. A
    snapshot is due at once if rows exceed the limit, because only pages that are written can be evicted.

    **Damage** of the local store that is found when it is opened, or by ``check``, leads to an empty state: ``tags`` is
    then empty, and the changelogs are replayed from their start. Damage of a large file may be found later, when a page
    is read: then a `DamagedLocalStoreError` ends the task, and a new `TaskState` begins with an empty local store.

    Args:
        application_id: The id of the application.
        name: Names the task in messages.
        specs: All stores of the task.
        path: The file of the local page store. None: all rows stay in memory, and come from the changelogs.
        memory_limit: The approximate bytes of the rows in memory.
        identity: Names the state independent of the process that runs the task, as by the ids of its
            changelogs. A local store with another identity is discarded.
        page_bytes: The size of a page at which buckets are added.

    Attributes:
        tags: By changelog, the offset from which on it must be replayed; those that are not in it, from their start.
    """

    def __init__(
        self,
        application_id: str,
        name: str,
        specs: Sequence[StoreSpec],
        path: Path | None,
        *,
        memory_limit: int,
        identity: bytes = b"",
        page_bytes: int = 8192,
    ) -> None:
        self.name = name
        self._application_id = application_id
        self._specs = {spec.name: spec for spec in specs}
        self._stores_of = {self.changelog_of(spec): spec.name for spec in specs}
        self._memory_limit = memory_limit
        self._page_bytes = page_bytes
        self._local = None if path is None else LocalStore(path, identity, name, backlog_limit=memory_limit)
        self._times: dict[str, int] = {}
        self._counters: dict[str, int] = {}
        self._live = LiveOffsets([self.changelog_of(spec) for spec in specs if has_expiry(spec)])
        try:
            self._load()
        except StateError:
            if self._local is None:
                raise
            self.discard()

    # ----- start -----------------------------------------------------------------------------------------------------

    def changelog_of(self, spec: StoreSpec) -> str:
        """Returns the changelog of a store. Every store has one."""
        return changelog_topic(self._application_id, spec)

    def discard(self) -> None:
        """Discards the local store: all stores are empty."""
        assert self._local is not None
        self._local.discard()
        self._load()

    def _load(self) -> None:
        local = self._local
        fetch: Callable[[list[bytes]], list[bytes | None]] = _nothing if local is None else local.fetch_pages
        self._state = CheckpointedState(
            fetch, memory_limit=self._memory_limit, page_bytes=self._page_bytes, written=local is not None
        )
        self.tags: dict[str, int] = {}
        if local is not None and local.tags is not None:
            self._state.load(local.fetch_pages([MANIFEST_KEY])[0])
            known = self._state.stored_kinds
            self.tags = {
                topic: local.tags[topic]
                for topic, name in self._stores_of.items()
                if topic in local.tags and known.get(name) == kind_of(self._specs[name])
            }
        for spec in self._specs.values():
            self._state.open(spec)
        # By the number of an advance: the end offsets of the changelogs. None: the stores are still incomplete.
        self._ends: dict[int, dict[str, int] | None] = {self._state.sequence: self.tags or None}
        self._advance_time: float | None = None
        self._snapshot_time = self._called = 0.0
        self._unwritten = 0.0
        """Seconds since the last snapshot in which there were pages to write."""
        self._due = 0.0
        for name in self._specs:
            self._set_time(name)

    def check(self, ends: Mapping[str, int]) -> None:
        """Discards the local store if it is ahead of a changelog, which has then lost a commit or was made anew.

        Args:
            ends: The end offset of each changelog.
        """
        if any(tag > ends.get(topic, 0) for topic, tag in self.tags.items()):
            self.discard()

    def resume(self, cells: Mapping[str, Any]) -> None:
        """Sets the times and the counters of the stores, from the cells of the task record."""
        for name in self._specs:
            time, counter = cells.get(f"store.{name}"), cells.get(_counter_cell(name))
            if time is not None:
                self._times[name] = time
            if counter is not None:
                self._counters[name] = counter
            self._set_time(name)

    def _set_time(self, name: str) -> None:
        self._state.resume(name, self._times.get(name), self._counters.get(name))

    def restore(self, topic: str, records: Iterable[ChangelogRecord]) -> None:
        """Applies records of a changelog, in their order. Call it before the engine's task is built.

        Rows that do not fit into memory are written to the local store meanwhile.
        """
        name = self._stores_of[topic]
        store: Any = self.open(self._specs[name])
        iterator = iter(records)
        while batch := list(islice(iterator, _RESTORED_AT_ONCE)):
            store.restore(batch)
            if self._local is not None and self._state.is_over_limit:
                self._state.advance()
                checkpoint = self._state.checkpoint()
                # After a crash, a restore replays the changelogs from the same offsets again.
                self._ends = {checkpoint.sequence: self._ends[min(self._ends)]}
                self._local.write(self._local.stage(checkpoint.writes), self._ends[checkpoint.sequence])
        self._set_time(name)  # restored rows have advanced the counter of sequence numbers

    def open(self, spec: StoreSpec) -> Any:
        """Returns a store, for the engine."""
        return self._state.open(spec)

    # ----- publications ----------------------------------------------------------------------------------------------

    def changes(self, latest: int = NO_TIMESTAMP) -> list[ChangelogBlock]:
        """Returns the changes since the last call, one record for each changed row.

        Args:
            latest: The timestamp of records whose row has none, as the stream time of the task.

        Raises:
            ProductionError: A row cannot be serialized.
        """
        blocks = []
        for name, store in self._state.stores.items():
            try:
                keys, values, timestamps = store.changed_columns()
            except SerdeError as error:
                raise ProductionError(
                    f"production failed: a row of store {name!r} cannot be serialized: {error.message}",
                    hint=error.hint,
                ) from error
            if not keys:
                continue
            spec = self._specs[name]
            if not spec.timestamped and spec.kind == "key-value":
                timestamps = [latest] * len(keys)
            elif spec.kind == "key-value" and None in values:  # deleted rows have no timestamp
                timestamps = [latest if time == NO_TIMESTAMP else time for time in timestamps]
            blocks.append(ChangelogBlock(name, self.changelog_of(spec), keys, values, timestamps))
        self._live.publish({self.changelog_of(self._specs[name]): time for name, time in self._times_now().items()})
        return blocks

    def _times_now(self) -> dict[str, tuple[int, int]]:
        """The time and the floor of each store whose rows expire."""
        floors = self._state.floors
        stores = self._state.stores
        return {n: (stores[n].time or 0, floors[n]) for n, spec in self._specs.items() if has_expiry(spec)}

    def cells(self) -> dict[str, Any]:
        """Returns the cells that the stores add to those of the engine's task: the counters of stores."""
        return {_counter_cell(name): counter for name, counter in self._state.counters.items()}

    def committed(self, ends: Mapping[str, int]) -> dict[str, int]:
        """Takes note of a committed publication: call it once for each call of ``changes``, in their order.

        Args:
            ends: The end offset of each changelog after the publication.

        Returns:
            By changelog, the offset from which on it is still needed, where that has changed. Rows of earlier records
            have expired. Nothing is known of changelogs whose rows do not expire.
        """
        return self._live.committed(ends)

    @property
    def has_expiry(self) -> bool:
        """Whether old records of a changelog become unneeded, because the rows of its store expire."""
        return self._live.are_needed

    def snapshot(self, now: float, *, force: bool = False) -> Snapshot | None:
        """Returns pages to write to the local store; None if it is not due. Call it right after ``changes``.

        Args:
            now: The time, in seconds, of any clock that does not go back.
            force: Write everything, as when the task ends.
        """
        if self._local is None:
            return None
        state = self._state
        if self._advance_time is None:
            self._advance_time = self._snapshot_time = self._called = now
        seconds, self._called = now - self._called, now
        self._unwritten = seconds + (self._unwritten if state.dirty_pages else 0.0)
        pause = now - self._advance_time
        advances = force or pause >= INTERVAL
        if not advances and pause >= _PRESSED:
            advances = state.changed_rows >= _MOST_ROWS or state.is_over_limit
        if advances:
            self._advance_time = now
            advances = state.changed_rows > 0
            if advances:
                state.advance()
            self._due = state.dirty_pages / INTERVAL
        if state.dirty_pages:
            is_due = advances or self._unwritten >= _SPACING
        else:
            is_due = now - self._snapshot_time >= _REFRESH
        if not (force or is_due):
            return None
        self._snapshot_time = now
        pages = None if force else max(math.ceil(self._due * min(self._unwritten, INTERVAL)), _LEAST_PAGES)
        self._unwritten = 0.0
        checkpoint = state.checkpoint(pages)
        entries = self._local.stage(checkpoint.writes)
        return Snapshot(entries, checkpoint.sequence, checkpoint.complete, advances)

    def write(self, snapshot: Snapshot, tags: Mapping[str, int]) -> None:
        """Writes a snapshot to the local store, after its publication has been committed. Another thread may process.

        A full disk is no error: see `LocalStore`.

        Args:
            snapshot: The snapshot; every one must be written, in their order.
            tags: The end offset of each changelog after the publication; used if the snapshot is that of an advance.

        Raises:
            DamagedLocalStoreError: The local store is damaged, or another worker has taken it over.
        """
        assert self._local is not None
        if snapshot.is_advance:
            self._ends[snapshot.sequence] = dict(tags)
        complete = self._ends.get(snapshot.complete)
        self._ends = {number: ends for number, ends in self._ends.items() if number >= snapshot.complete}
        self._local.write(snapshot.entries, complete)

    # ----- figures ---------------------------------------------------------------------------------------------------

    @property
    def memory_limit(self) -> int:
        """The approximate bytes of the rows in memory."""
        return self._state.memory_limit

    @memory_limit.setter
    def memory_limit(self, limit: int) -> None:
        self._memory_limit = limit
        self._state.memory_limit = limit

    def sizes(self) -> dict[str, StoreSize]:
        """Returns the size of each store."""
        return self._state.sizes()

    def figures(self, sizes: Mapping[str, StoreSize] | None = None) -> dict[str, int]:
        """Returns figures for metrics.

        Args:
            sizes: The sizes of the stores, if known.
        """
        unwritten = 0 if self._local is None else self._local.unwritten
        return {**self._state.figures(sizes), "unwritten-bytes": unwritten}

    def close(self) -> None:
        """Closes the local store. Rows that were not written are restored from the changelogs."""
        if self._local is not None:
            self._local.close()


def has_expiry(spec: StoreSpec) -> bool:
    """Whether all rows of a store expire at some time, so that old records of its changelog are not needed."""
    return spec.kind in ("window", "session") and spec.retention_ms is not None


def _counter_cell(name: str) -> str:
    return f"store.{name}/counter"  # the name of a store has no slash


def _nothing(keys: list[bytes]) -> list[bytes | None]:
    raise DamagedLocalStoreError(f"there is no local store to read {len(keys)} pages from")
