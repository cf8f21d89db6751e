"""The rounds of the tasks of a worker: which one they are in, and the requests for the next one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from millstream.runtime.batches.topic_offsets import at_most
from millstream.runtime.real_time.hosted_task import HostedTask
from millstream.runtime.real_time.messages import Orders, TaskReport
from millstream.runtime.real_time.reading import Reading
from millstream.runtime.real_time.rounds import TaskRounds
from millstream.runtime.real_time.task import RealTimeTask
from millstream.runtime.real_time.worker_context import WorkerContext
from millstream.stages.exchange_graph import exchange_graph

_MOST_GRANTS = 64
"""The number of requests above which some of those that are not fulfilled are forgotten."""

_PATIENCE = 2
"""Commit intervals that records wait before the worker requests a round. Most of them have been taken by then."""


class WorkerRounds:
    """The running tasks of a worker, and the rounds that they take part in.

    Args:
        context: What the parts of the worker share.
        reading: Reads the inputs.

    Attributes:
        requests: The number of requests for a round.
    """

    def __init__(self, context: WorkerContext, reading: Reading) -> None:
        self._context = context
        self._reading = reading
        self._exact = context.program.config["exact.replays"]
        self._rounds: dict[HostedTask, TaskRounds] = {}
        self._grants: deque[tuple[int, int]] = deque([(0, 0)])
        self._round = 0
        self._patience: float = _PATIENCE * context.program.config["commit.interval.ms"] / 1000
        self._waiting_since: float | None = None
        self.requests = 0
        has_exchanges = bool(exchange_graph(context.program.placement).readers)
        self.is_needed = has_exchanges or context.assignment.until is not None
        """Whether the coordinator needs reports of progress: there are internal topics, or an end to reach."""

    def add(self, hosted: HostedTask, running: RealTimeTask) -> None:
        """Adds a task that has begun."""
        self._rounds[hosted] = TaskRounds(running, exact=self._exact)

    @property
    def tasks(self) -> list[HostedTask]:
        """The tasks that have begun."""
        return list(self._rounds)

    def running(self) -> Iterator[RealTimeTask]:
        """Yields the tasks that have begun."""
        return (task.running for task in self._rounds if task.running is not None)

    @property
    def are_awaited(self) -> bool:
        """Whether records wait for orders."""
        return any(rounds.needs_round for rounds in self._rounds.values())

    def begin(self, orders: Orders) -> None:
        """Notes the ends of input topics at a new round."""
        if orders.granted[0] > self._grants[-1][0]:
            self._grants.append(orders.granted)
            if len(self._grants) > _MOST_GRANTS:  # of many, every second one: the oldest may be fulfilled next
                self._grants = deque(list(self._grants)[::2])
        if orders.round > self._round and self._rounds:
            self._round = orders.round
            ends = self._context.log.ends(sorted({key[0] for task in self.running() for key in task.direct}))
            until = self._context.assignment.until
            if until is not None:
                ends = {topic: at_most(row, until.get(topic, [])) for topic, row in ends.items()}
            for rounds in self._rounds.values():
                rounds.begin(self._round, ends)

    def apply(self, orders: Orders) -> None:
        """Applies orders, before the tasks take records."""
        for rounds in self._rounds.values():
            rounds.apply(orders, self._grants)

    def settle(self) -> None:
        """Finds out through which round each task has caught up, after they have taken records."""
        for rounds in self._rounds.values():
            rounds.settle()

    def request(self) -> None:
        """Requests a round if records have waited for other sub-topologies for a while, and no request is open."""
        if self.requests > self._grants[-1][0]:
            return
        now = self._context.clock.monotonic()
        if not self.are_awaited:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = now
        elif now >= self._waiting_since + self._patience:
            self._waiting_since = now
            self.requests += 1
            self._context.send(self.requests)

    def is_quiet(self, hosted: HostedTask, task: RealTimeTask) -> bool:
        """Whether a task has taken all records in the log, as far as the worker knows."""
        if task.waiting or any(self._reading.has_more(key, task) for key in task.inputs):
            return False
        return self._rounds[hosted].is_quiet

    def reports(self) -> list[TaskReport]:
        """The progress of all tasks, if the coordinator needs it."""
        if not self.is_needed:
            return []
        return [self._report(hosted, rounds) for hosted, rounds in self._rounds.items()]

    def _report(self, hosted: HostedTask, rounds: TaskRounds) -> TaskReport:
        task = hosted.running
        assert task is not None
        has_more = {key: self._reading.has_more(key, task) for key in task.direct}
        return TaskReport(
            hosted.id,
            task.pending(has_more) if task.is_ordered else None,
            [(*key, task.next_offset(key)) for key in task.internal],
            list(rounds.through),
            self._reading.is_done(task),
            task.held(has_more) if task.is_ordered else [],
            task.pace_of_writers,
        )
