"""Rounds: through which round a task has caught up, and which of its waiting records are released.

A record that waits for records of other sub-topologies does not wait for ever. Its worker requests a round. All workers
note the ends of their input topics when they learn of the round. Once the sub-topologies upstream have processed
everything before these ends, and the task has read what came of it, the record waits for nothing that was in the log
with it: it is released.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from millstream.runtime.order.positions import LEAST
from millstream.runtime.real_time.messages import Limit, Orders
from millstream.runtime.real_time.task import RealTimeTask
from millstream.runtime.real_time.task_inputs import InputKey

_MOST_ROUNDS = 64
"""The number of rounds above which a task forgets some through which it has not caught up."""


@dataclass(slots=True)
class _Round:
    """A round that a task takes part in.

    Attributes:
        number: Its number.
        direct: The ends of the task's input topics.
        ends: By level, the ends of the task's inputs that are known. Those of internal topics are known once the tasks
            that write their records have caught up through the round: the sub-topologies upstream, then level by level
            those of the task's own cycle.
        level: The first level with which the task has not caught up.
    """

    number: int
    direct: Mapping[InputKey, int]
    ends: list[Mapping[InputKey, int]]
    level: int = 0


class TaskRounds:
    """The rounds and the limit of one task.

    Args:
        task: The task.
        exact: The task waits for records of other sub-topologies.
    """

    def __init__(self, task: RealTimeTask, *, exact: bool) -> None:
        self._task = task
        self._waits = exact and task.waits_upstream
        self._last_level = task.last_level if exact else 0
        self._inside = [
            [key for key in task.internal if task.level(key) == level] for level in range(1, self._last_level + 1)
        ]
        self._rounds: deque[_Round] = deque()
        self._read = 0
        self._upstream = 0
        self.is_quiet = not self._waits
        """Nothing is on its way to the task, as far as the coordinator knows."""
        self.through = [0] * (self._last_level + 1)
        """By level, the last round through which the task has caught up: see `TaskReport`."""
        self._awaited = [key for key in task.internal if not task.level(key)]
        if not self._waits:
            task.allow(None, 0)
        if not exact:
            for level in range(1, task.last_level + 1):
                task.allow_inside(level, None, 0)

    @property
    def needs_round(self) -> bool:
        """Whether records wait that a round would release."""
        return (self._waits or bool(self._inside)) and self._task.waiting > 0

    def begin(self, number: int, ends: Mapping[str, list[int]]) -> None:
        """Begins a round.

        Args:
            number: The number of the round.
            ends: The ends of input topics, requested after the worker has learned of the round.
        """
        direct = {key: ends[key[0]][key[1]] for key in self._task.direct}
        self._rounds.append(_Round(number, direct, [] if self._waits else [direct]))
        if len(self._rounds) > _MOST_ROUNDS:  # of many, every second one: the task is far behind
            self._rounds = deque(list(self._rounds)[::2])

    def apply(self, orders: Orders, grants: deque[tuple[int, int]]) -> None:
        """Applies orders, as far as the task has read the records that they presume.

        Args:
            orders: The orders.
            grants: (request, round) of the requests of the worker.
        """
        task = self._task
        for entry in self._rounds:
            if entry.number > self._read and all(task.next_offset(key) >= end for key, end in entry.direct.items()):
                self._read = entry.number
        task.pace = next((position for index, position in orders.paces if index == task.id.subtopology), None)
        limit = _limit_of(orders, task.id.subtopology)
        if self._waits and _has_read(task, self._awaited, orders):
            self._upstream = max(self._upstream, limit.through)
            self.is_quiet = limit.limit is None
            self._note_ends(0, self._upstream, self._awaited)
            caught_up = min(self._upstream, self._read)
            task.allow(limit.limit, _last_granted(grants, caught_up))
        if self._inside and _has_read(task, chain.from_iterable(self._inside), orders):
            inside = zip(limit.inside, limit.inside_through, strict=True)
            for level, (position, through) in enumerate(inside, 1):
                self._note_ends(level, through, self._inside[level - 1])
                task.allow_inside(level, position, _last_granted(grants, through))

    def _note_ends(self, level: int, through: int, keys: Iterable[InputKey]) -> None:
        """Notes the ends of internal topics in rounds through which their writers have caught up."""
        for entry in self._rounds:
            if entry.number <= through and len(entry.ends) == level:
                ends = {key: self._task.next_offset(key) for key in keys}
                entry.ends.append(ends if level else {**entry.direct, **ends})

    def settle(self) -> None:
        """Finds out through which round the task has caught up, after it has taken records."""
        for entry in self._rounds:
            while entry.level < len(entry.ends):
                if not all(self._task.taken(key) >= end for key, end in entry.ends[entry.level].items()):
                    break
                self.through[entry.level] = max(self.through[entry.level], entry.number)
                entry.level += 1
            if not entry.level:
                break  # the ends of later rounds are behind these
        while self._rounds and self._rounds[0].level > self._last_level:
            self._rounds.popleft()


def _has_read(task: RealTimeTask, keys: Iterable[InputKey], orders: Orders) -> bool:
    """Whether a task has read internal topics up to the ends for which the orders hold."""
    ends = {(topic, partition): end for topic, partition, end in orders.ends}
    return all(task.next_offset(key) >= ends.get(key, 0) for key in keys)


def _last_granted(grants: Iterable[tuple[int, int]], through: int) -> int:
    """The last request for a round up to *through*."""
    return max((request for request, number in grants if number <= through), default=0)


def _limit_of(orders: Orders, subtopology: int) -> Limit:
    """The limit of a sub-topology. Before its first limit, it takes nothing."""
    first = Limit(subtopology, LEAST, 0)
    return next((limit for limit in orders.limits if limit.subtopology == subtopology), first)
