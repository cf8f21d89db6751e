"""Task groups that stay in memory between batches.

The truth is the stored state. A token, stored with it, identifies the attempt that wrote it: a group in memory counts
only if its own token equals the stored one. Otherwise the group is loaded again.
"""

from __future__ import annotations

import gc
import secrets
from dataclasses import dataclass

from millstream.runtime.program.program import Program
from millstream.runtime.tasks.group import FetchValues, GroupCommit, TaskGroup
from millstream.state.paged import MANIFEST_KEY

TOKEN_KEY = b"t"
"""The key of the token in the stored state."""


@dataclass(slots=True)
class _Warm:
    """A group in memory, the token of the state that it corresponds to, and the time of its last batch."""

    group: TaskGroup
    token: bytes
    now: int


class WarmTasks:
    """The task groups that a process keeps in memory, within `host.memory.max.bytes`."""

    def __init__(self) -> None:
        self._groups: dict[int, _Warm] = {}
        self._loaded: set[int] = set()
        self._now = 0

    def acquire(
        self, program: Program, number: int, token: bytes, fetch: FetchValues, now: int, *, all_tasks: bool
    ) -> TaskGroup:
        """The group of a partition number: from memory if its token is the stored one, else loaded from the state.

        Args:
            program: The application.
            number: The partition number.
            token: The token of the stored state; empty for a new group.
            fetch: Reads values of the stored state.
            now: The time of the batch.
            all_tasks: The batch runs all tasks: groups that no batch has run since the last such batch have moved.
        """
        warm = self._groups.get(number)
        if warm is not None and warm.token != token:
            del self._groups[number]
            warm = None
        if warm is not None:
            warm.now = now  # before the eviction below: its state is current, wherever it ran meanwhile
        if all_tasks:
            self._evict_moved(now)
        limit = self._share_memory(program, number)
        if warm is not None:
            warm.group.fetch = fetch
            return warm.group
        if number in self._loaded:
            gc.collect()  # frees the discarded group, which has reference cycles
        self._loaded.add(number)
        manifest = fetch([MANIFEST_KEY])[0] if token else None
        group = TaskGroup(program, number, fetch, manifest, now, limit)
        self._groups[number] = _Warm(group, token, now)
        return group

    def settle(self, number: int, group: TaskGroup, commit: GroupCommit, now: int) -> GroupCommit:
        """Keeps a group after a batch, under a new token if the state changes; discards it if the batch failed.

        Returns:
            The commit, with the token among its entries.
        """
        if commit.failed:
            self.discard(number)
            return commit
        if not commit.puts and not commit.deletes:
            return commit
        token = secrets.token_bytes(16)
        self._groups[number] = _Warm(group, token, now)
        return commit._replace(puts=[*commit.puts, (TOKEN_KEY, token)])

    def discard(self, number: int) -> None:
        """Discards a group whose memory may differ from the stored state."""
        self._groups.pop(number, None)

    def clear(self) -> None:
        """Discards all groups."""
        self._groups.clear()

    def _evict_moved(self, now: int) -> None:
        """Evicts groups that run in another process now: their state is stale, and takes memory from the others.

        It is called for each group of a batch that runs all tasks. A group that has not run since the last such batch
        has moved.
        """
        if now > self._now:
            moved = [number for number, warm in self._groups.items() if warm.now < self._now]
            for number in moved:
                del self._groups[number]
            if moved:
                gc.collect()  # groups have reference cycles
            self._now = now

    def _share_memory(self, program: Program, number: int) -> int:
        """Gives each group an equal share of the memory limit, a group to be loaded included; returns the share."""
        limit: int = program.config["host.memory.max.bytes"] // len(self._groups.keys() | {number})
        for warm in self._groups.values():
            warm.group.state.memory_limit = limit
        return limit
