"""Coordinates the workers of an application: the order across exchanges, pausing, stopping, and catching up.

Workers report their progress after each commit. From the reports, the coordinator computes how far the tasks behind
internal topics may go. It is the counterpart of the planner of micro-batches, and follows the same rule (decision
record 21): a task takes a record once no record with a lower order position can arrive any more, or once all
sub-topologies upstream have processed everything that was in the log when the record was read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from millstream.log.api import Offsets
from millstream.runtime.order.positions import LEAST, Position
from millstream.runtime.real_time.messages import Limit, Orders, Report, Sent, TaskReport
from millstream.stages.exchange_graph import ExchangeGraph
from millstream.stages.task_id import TaskId


@dataclass(slots=True)
class _Worker:
    """The state of a worker, as the coordinator knows it."""

    tasks: tuple[TaskId, ...]
    start: int = 0
    granted: tuple[int, int] = (0, 0)
    tables: Offsets = field(default_factory=dict)


@dataclass(slots=True)
class _InFlight:
    """Records of a partition of an internal topic that its reader has not read yet: (end offset, least position)."""

    entries: list[tuple[int, Position]] = field(default_factory=list)
    end: int = 0
    read: int = -1

    def add(self, end: int, least: Position) -> None:
        """Adds records, unless the reader has read them: it may report that before their writer reports them."""
        self.end = max(self.end, end)
        if end > self.read:
            self.entries.append((end, least))

    def drop(self, read: int) -> None:
        """Removes the records that the reader has read."""
        self.read = read
        self.entries = [entry for entry in self.entries if entry[0] > read]

    def read_again(self, least: Position) -> None:
        """Takes note that the reader has started again. It reads records again that it had not taken."""
        self.read = -1
        self.entries.append((self.end, least))


class Coordinator:
    """Computes the orders of workers from their reports. Its methods may be called from any thread.

    Args:
        graph: The internal topics between the sub-topologies.
        workers: The tasks of each worker.
        ends: The end offsets of all partitions of internal topics at the start.
        exact: Tasks wait for records that may still arrive through internal topics (``exact.replays``).
        tables: The end offsets of the topics of global tables that the workers are to apply, if they are to catch up.
        changed: Called after a change of the orders.
    """

    def __init__(
        self,
        graph: ExchangeGraph,
        workers: Mapping[int, Iterable[TaskId]],
        ends: Offsets,
        *,
        exact: bool,
        tables: Offsets | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._graph = graph
        self._exact = exact
        self._awaited_tables: Offsets = tables or {}
        self._changed = changed
        self._lock = threading.RLock()
        self._workers = {number: _Worker(tuple(tasks)) for number, tasks in workers.items()}
        self._tasks = {task: TaskReport(task) for worker in self._workers.values() for task in worker.tasks}
        self._members: dict[int, list[TaskId]] = {}
        for task in self._tasks:
            self._members.setdefault(graph.components.get(task.subtopology, task.subtopology), []).append(task)
        self._in_flight: dict[tuple[str, int], _InFlight] = {}
        for (topic, partition), end in ends.items():
            self._flow(topic, partition).add(end, LEAST)  # records of an earlier run: their positions are not known
        self._round = 0
        self._version = 0
        self._through: dict[int, int] = {}
        self._limits: list[Limit] = []
        self._paces: list[tuple[int, Position]] = []
        self._ends: list[tuple[str, int, int]] = []
        self._tables: list[tuple[str, int, int]] = []
        self._is_paused = False
        self._is_stopping = False
        self._update()

    # ----- orders ----------------------------------------------------------------------------------------------

    def orders(self, worker: int) -> Orders:
        """Returns the current orders of a worker."""
        with self._lock:
            return Orders(
                self._version,
                self._round,
                self._workers[worker].granted,
                self._limits,
                self._ends,
                self._is_paused,
                self._is_stopping,
                self._tables,
                self._paces,
            )

    def pause(self) -> None:
        """Orders all workers to process nothing."""
        self._set(is_paused=True)

    def resume(self) -> None:
        """Orders all workers to continue."""
        self._set(is_paused=False)

    def stop(self) -> None:
        """Orders all workers to commit and to end."""
        self._set(is_stopping=True)

    def _set(self, *, is_paused: bool | None = None, is_stopping: bool = False) -> None:
        with self._lock:
            if is_paused is not None:
                self._is_paused = is_paused
            self._is_stopping |= is_stopping
            self._version += 1
        self._changed()

    # ----- reports ---------------------------------------------------------------------------------------------

    def begin(self, worker: int, start: int, ends: Offsets) -> None:
        """Registers a start of a worker, which reports from now on.

        An earlier start may have committed records without a report of them, and may have read records without taking
        them. Their positions are not below those that its tasks had pending.

        Args:
            worker: The number of the worker.
            start: The number of the start.
            ends: The end offsets of the internal topics that its tasks write.
        """
        with self._lock:
            state = self._workers[worker]
            state.start, state.granted = start, (0, 0)
            writing = {topic for topic, writer in self._graph.writers.items() if self._writes(state, writer)}
            least = min((self._tasks[task].pending or LEAST for task in state.tasks), default=LEAST)
            for (topic, partition), end in ends.items():
                if topic in writing and end > self._flow(topic, partition).end:
                    self._flow(topic, partition).add(end, least)
            for task in state.tasks:
                for topic in (topic for topic, reader in self._graph.readers.items() if reader == task.subtopology):
                    self._flow(topic, task.partition).read_again(self._tasks[task].pending or LEAST)
            self._update()
        self._changed()

    @staticmethod
    def _writes(worker: _Worker, subtopology: int) -> bool:
        return any(task.subtopology == subtopology for task in worker.tasks)

    def report(self, report: Report) -> bool:
        """Takes a report into account; returns False if it is of an earlier start of the worker."""
        with self._lock:
            worker = self._workers[report.worker]
            if report.start != worker.start:
                return False
            for sent in report.sent:
                self._add(sent)
            for task in report.tasks:
                self._tasks[task.task] = task
                for topic, partition, offset in task.read:
                    self._flow(topic, partition).drop(offset)
            is_new = report.request > worker.granted[0]
            if is_new:
                self._round += 1
                worker.granted = (report.request, self._round)
                self._version += 1
            if report.tables:
                worker.tables = {(topic, partition): offset for topic, partition, offset in report.tables}
            has_changed = self._update_tables() if report.tables else False
            if report.tasks or report.sent:
                has_changed |= self._update()
        if is_new or has_changed:
            self._changed()
        return True

    def _add(self, sent: Sent) -> None:
        self._flow(sent.topic, sent.partition).add(sent.end, sent.least)

    def _flow(self, topic: str, partition: int) -> _InFlight:
        return self._in_flight.setdefault((topic, partition), _InFlight())

    def is_caught_up(self) -> bool:
        """Whether all input up to the end offsets of the assignments was processed, and all records that came of it."""
        with self._lock:
            if any(flow.entries for (topic, _), flow in self._in_flight.items() if topic in self._graph.readers):
                return False
            applied = {(topic, partition): offset for topic, partition, offset in self._tables}
            if any(applied.get(place, 0) < end for place, end in self._awaited_tables.items()):
                return False
            return all(task.is_done for task in self._tasks.values())

    def _update_tables(self) -> bool:
        """Finds out up to which offsets all workers have applied global tables; returns whether they have changed."""
        offsets = [worker.tables for worker in self._workers.values()]
        applied = [(*place, min(row.get(place, 0) for row in offsets)) for place in offsets[0]]
        if applied == self._tables or not all(offsets):
            return False
        self._tables = applied
        self._version += 1
        return True

    # ----- order -----------------------------------------------------------------------------------------------

    def _update(self) -> bool:
        """Computes the limits anew; returns whether they have changed."""
        if not self._graph.readers or not self._exact:
            return False
        pending: dict[int, Position | None] = {}
        limits: list[Limit] = []
        for component in dict.fromkeys(self._graph.components.values()):
            upstream = self._graph.upstream(component)
            limit = _least(pending[other] for other in upstream)
            through = min((self._through.get(other, 0) for other in upstream), default=self._round)
            last = self._graph.last_level(component)
            held = self._held(component, last)
            pending[component] = _least([limit, *held])
            caught_up = self._caught_up(component, last, through)
            self._through[component] = caught_up[last]
            inside = [_least([limit, *held[:level]]) for level in range(1, last + 1)]
            limits += [
                Limit(index, limit, through, inside, caught_up[:last])
                for index, other in self._graph.components.items()
                if other == component and self._waits(index)
            ]
        ends = [(topic, partition, flow.end) for (topic, partition), flow in self._in_flight.items()]
        paces = self._paces_of_writers()
        if (limits, ends, paces) == (self._limits, self._ends, self._paces):
            return False
        self._limits, self._ends, self._paces = limits, ends, paces
        self._version += 1
        return True

    def _held(self, component: int, last: int) -> list[Position | None]:
        """By level, the least position that a component may still process: read and not taken, or on its way."""
        positions: list[list[Position | None]] = [[] for _ in range(last + 1)]
        for (topic, _partition), flow in self._in_flight.items():
            if flow.entries and self._component_of_reader(topic) == component:
                positions[self._graph.level(topic)] += (least for _end, least in flow.entries)
        for task in self._members.get(component, []):
            report = self._tasks[task]
            if report.held:
                for level, position in enumerate(report.held):
                    positions[level].append(position)
            else:
                positions[0].append(report.pending)
        return [_least(each) for each in positions]

    def _caught_up(self, component: int, last: int, default: int) -> list[int]:
        """By level, the last round through which all tasks of a component have caught up.

        Args:
            component: The component.
            last: The greatest level of the topics inside it.
            default: The round of a component without tasks.
        """
        reports = [self._tasks[task] for task in self._members.get(component, [])]
        rounds = [[*report.through, *[0] * (last + 1 - len(report.through))] for report in reports]
        return [min((each[level] for each in rounds), default=default) for level in range(last + 1)]

    def _paces_of_writers(self) -> list[tuple[int, Position]]:
        """Finds out which sub-topologies are far ahead of others, so that many of their records wait behind exchanges.

        A writer stops at a position that the task behind the exchange has in its buffer. So all writers reach it, and
        the task takes the records up to it: none of them waits for ever.
        """
        paces: dict[int, Position] = {}
        for topic, reader in self._graph.readers.items():
            writer = self._graph.writers.get(topic)
            if writer is None or self._graph.is_inside(topic):
                continue
            for task in self._tasks.values():
                if task.task.subtopology == reader and task.pace is not None:
                    paces[writer] = min(task.pace, paces.get(writer, task.pace))
        return sorted(paces.items())

    def _waits(self, subtopology: int) -> bool:
        """Whether a sub-topology reads internal topics."""
        return subtopology in self._graph.readers.values()

    def _component_of_reader(self, topic: str) -> int | None:
        reader = self._graph.readers.get(topic)
        return None if reader is None else self._graph.components[reader]


def _least(positions: Iterable[Position | None]) -> Position | None:
    """The least of the positions that are not None; None if there is none."""
    return min((position for position in positions if position is not None), default=None)
