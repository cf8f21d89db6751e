"""Reads the inputs of the tasks of a worker: up to their ends, and not far ahead of the tasks.

Tasks may share a partition, and one of them may wait for another one. So each of them is paused by itself: the
partition is read on for the others, and once more for a task that was paused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat

from millstream.engine.queues import Columns
from millstream.errors import OffsetOutOfRangeError
from millstream.log.api import Fetched, Log
from millstream.runtime.real_time.buffers import sliced
from millstream.runtime.real_time.input_partitioning import PartitioningCheck
from millstream.runtime.real_time.task import NO_RECORDS, RealTimeTask
from millstream.runtime.real_time.task_inputs import InputKey
from millstream.stages.task_id import TaskId

_MOST_BUFFERED = 50_000
"""The number of buffered records of an input topic above which a task gets no more of them."""


class Reading:
    """Reads the partitions of tasks.

    Args:
        log: The log.
        until: End offsets of input topics up to which they are read; None: no end.
        checked: Topics whose partitioning is checked: see `checks_of`.
        skips_lost: Records that were deleted before they were read are counted, and reading continues.
    """

    def __init__(
        self,
        log: Log,
        until: Mapping[str, list[int]] | None,
        checked: Mapping[str, tuple[int, int]],
        *,
        skips_lost: bool = False,
    ) -> None:
        self._log = log
        self._skips_lost = skips_lost
        self._ends = until
        self._checked = checked
        self._checks: dict[InputKey, PartitioningCheck] = {}
        self._readers: dict[InputKey, list[RealTimeTask]] = {}
        self._paused: set[tuple[InputKey, TaskId]] = set()
        self._followed: set[InputKey] = set()
        self._follower = log.follow()

    def begin(self, task: RealTimeTask) -> None:
        """Reads the inputs of a task from now on. One that another task reads is read again, as far as necessary."""
        for key in task.inputs:
            self._readers.setdefault(key, []).append(task)
            if key[0] in self._checked:
                self._checks[key] = PartitioningCheck(*key, *self._checked[key[0]])
        self._move(task.inputs)

    def _move(self, keys: Iterable[InputKey]) -> None:
        """Reads partitions on where the first of their tasks needs it that is not paused."""
        positions: dict[InputKey, int] = {}
        for key in keys:
            offset = min((task.next_offset(key) for task in self._active(key)), default=None)
            if offset is None:
                self._follower.pause(self._followed & {key})
            elif key in self._followed and self._follower.position(*key) == offset:
                self._follower.resume([key])
            else:
                positions[key] = offset
        if positions:
            self._followed.update(positions)
            self._follower.follow(positions)

    def poll(self, timeout: float, request: int) -> int:
        """Gives the tasks their next records; returns the number of records that were read.

        Args:
            timeout: Seconds to wait for records.
            request: The first request for a round that covers them.

        Raises:
            SetupError: A record is not in the partition of its key.
            OffsetOutOfRangeError: Records were deleted before they were read.
        """
        try:
            everything = self._follower.poll(timeout)
        except OffsetOutOfRangeError:
            if not self._skips_lost or not self._skip_lost(request):
                raise
            return 0
        for fetched in everything:
            self._receive(fetched, request)
        return sum(len(fetched.offsets) for fetched in everything)

    def _skip_lost(self, request: int) -> bool:
        """Moves to the first remaining records of input topics; returns whether some were lost."""
        direct = {key for key, tasks in self._readers.items() if any(key in task.direct for task in tasks)}
        starts = self._log.starts(sorted({topic for topic, _partition in direct}))
        lost = {key: starts[key[0]][key[1]] for key in direct & self._followed}
        lost = {key: first for key, first in lost.items() if first > self._follower.position(*key)}
        for key, first in lost.items():
            for task in self._readers[key]:
                if first > task.next_offset(key):
                    task.lose(key, first, request)
        self._move(lost)
        return bool(lost)

    def _receive(self, fetched: Fetched, request: int) -> None:
        key = (fetched.topic, fetched.partition)
        headers = fetched.headers if fetched.headers is not None else repeat(())
        columns = Columns(fetched.offsets, fetched.timestamps, fetched.keys, fetched.values, headers)
        following = fetched.next
        if key in self._checks:
            self._checks[key].check(fetched.offsets, fetched.keys)
        until = self._until(key)
        if until is not None and following > until:
            columns = sliced(columns, 0, sum(offset < until for offset in columns.offsets))
            following = until
            self._follower.unfollow([key])
            self._followed.discard(key)
        for task in self._active(key):
            begin = task.next_offset(key)
            own = columns
            if columns.offsets and columns.offsets[0] < begin:  # another task is at an earlier offset
                own = sliced(columns, sum(offset < begin for offset in columns.offsets), len(columns.offsets))
            task.receive(key, own, max(following, begin), request)

    def _active(self, key: InputKey) -> list[RealTimeTask]:
        """The tasks that read a partition and are not paused."""
        return [task for task in self._readers[key] if (key, task.id) not in self._paused]

    def _until(self, key: InputKey) -> int | None:
        """The end of an input topic up to which it is read; None: no end."""
        until = self._ends
        if until is None or key[0] not in until:
            return None
        return until[key[0]][key[1]] if key[1] < len(until[key[0]]) else 0

    def note_ends(self, request: int) -> None:
        """Moves inputs past the control records at the ends of partitions.

        Args:
            request: As in `poll`.
        """
        for key in self._followed:
            at, until = self._follower.position(*key), self._until(key)
            at = at if until is None else min(at, until)
            for task in self._active(key):
                if at > task.next_offset(key):
                    task.receive(key, NO_RECORDS, at, request)

    def has_more(self, key: InputKey, task: RealTimeTask) -> bool:
        """Whether the log may have more records of an input than the task has read."""
        until = self._until(key)
        if until is not None and task.next_offset(key) >= until:
            return False
        if key not in self._followed:  # the input of a paused task is not followed: the log may have more of it
            return True
        return task.next_offset(key) < self._follower.position(*key) or self._follower.has_more(*key)

    def is_done(self, task: RealTimeTask) -> bool:
        """Whether a task has taken all records up to the ends, and nothing waits."""
        return not task.waiting and all(task.taken(key) >= (self._until(key) or 0) for key in task.direct)

    def limit_buffers(self) -> None:
        """Pauses tasks with many buffered records of an input topic, and continues with those that have few."""
        moved = []
        for key, readers in self._readers.items():
            for task in readers:
                place = (key, task.id)
                if place in self._paused:
                    if task.buffered(key) < _MOST_BUFFERED // 2:
                        self._paused.discard(place)
                        moved.append(key)
                elif key in task.direct and task.buffered(key) > _MOST_BUFFERED:
                    self._paused.add(place)
                    moved.append(key)
        self._move(dict.fromkeys(moved))

    def close(self) -> None:
        """Closes the connection."""
        self._follower.close()
