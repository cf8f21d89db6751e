"""Makes one publication of everything that the tasks of a worker have done since the last one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from millstream.log.api import Append
from millstream.log.blocks import ColumnBlock
from millstream.runtime.messages import OutputBlock, StreamTime, TaskProgress, TaskResult, process_figures, sample_of
from millstream.runtime.order.positions import Position
from millstream.runtime.program.program import Program
from millstream.runtime.real_time.appends import appends_of, letters_of
from millstream.runtime.real_time.global_tables import GlobalTables
from millstream.runtime.real_time.hosted_task import HostedTask
from millstream.runtime.real_time.task import RealTimeTask
from millstream.runtime.real_time.task_record import KEY, encode, topic_of
from millstream.stages.task_id import TaskId
from millstream.state.paged import StoreSize
from millstream.state.paged.history import versions_put
from millstream.views.changes import ViewChange, change_of


class Collected(NamedTuple):
    """The content of a publication.

    Attributes:
        outputs: Outputs and records of internal topics.
        changes: Changelogs.
        records: Task records.
        views: Changes of views.
        least: The least order position of the records of each partition of an internal topic.
        result: The figures of the publication.
    """

    outputs: list[Append]
    changes: list[Append]
    records: list[Append]
    views: list[ViewChange]
    least: dict[tuple[str, int], Position]
    result: TaskResult


class Collector:
    """Collects the content of publications.

    Args:
        program: The application.
        worker: The number of the worker.
        count_of: Returns the number of partitions of a topic, which is created if it does not exist.
    """

    def __init__(self, program: Program, worker: int, count_of: Callable[[str], int]) -> None:
        self._program = program
        self._worker = worker
        self._count_of = count_of
        self._topic = topic_of(program.topology.application_id)
        self._has_views = program.log.cluster is None
        self._announced: set[TaskId] = set()
        self._collected = self._nothing()
        self._offsets: dict[tuple[str, int], dict[TaskId | None, int]] = {}

    def _nothing(self) -> Collected:
        return Collected([], [], [], [], {}, TaskResult((1, "", self._worker)))

    def take_outputs(self, tasks: Iterable[HostedTask]) -> list[Append]:
        """Returns the outputs of tasks since the last call. The next content counts them, and does not have them."""
        for task in tasks:
            self._add_outputs(task, self._collected)
        outputs = self._collected.outputs[:]
        self._collected.outputs.clear()
        self._count(outputs, self._collected)
        return outputs

    def collect(
        self, tasks: Iterable[HostedTask], now: int, publication: tuple[int, int], *, claims: bool = False
    ) -> Collected:
        """Collects what tasks have done since the last call.

        Args:
            tasks: The tasks that have done something.
            now: The wall-clock time.
            publication: The epoch of the worker, and the number of the publication.
            claims: The offsets of task records are those behind the buffered records.
        """
        collected, self._collected = self._collected, self._nothing()
        for task in tasks:
            self._add_outputs(task, collected)
            self._add_changes(task, collected, now)
            self._add_record(task, collected, now, publication, claims=claims)
        self._count([*collected.outputs, *collected.changes], collected)
        return collected

    @staticmethod
    def _count(appends: Iterable[Append], collected: Collected) -> None:
        for topic, partition, block in appends:
            sample = sample_of(block.timestamps) if isinstance(block, ColumnBlock) else []
            collected.result.blocks.append(OutputBlock(topic, partition, b"", block.count, 0, 0, sample))

    def _add_outputs(self, task: HostedTask, collected: Collected) -> None:
        assert task.running is not None
        for append, least in appends_of(task.running.take_outputs(), self._count_of, task.id.partition):
            collected.outputs.append(append)
            if least is not None:
                place = append.topic, append.partition
                collected.least[place] = min(least, collected.least.get(place, least))

    def _add_changes(self, task: HostedTask, collected: Collected, now: int) -> None:
        """Adds changelogs and views. A change of a row without a time gets the stream time of the task."""
        assert task.running is not None
        time = task.running.task.stream_time
        time = now if time < 0 else time
        changed = set()
        for block in task.state.changes(time):
            columns = ColumnBlock(block.timestamps, block.keys, block.values)
            collected.changes.append(Append(block.topic, task.id.partition, columns))
            if self._program.has_view(task.specs[block.store]):
                _count_changes(block.store, len(block.keys), collected)
            if self._is_viewed(task, block.store):
                changed.add(block.store)
                spec = task.specs[block.store]
                rows = list(zip(block.keys, block.values, block.timestamps, strict=True))
                if spec.kind == "versioned":
                    rows = list(versions_put(rows))
                collected.views.append(change_of(spec, task.id.partition, rows, task.state.open(spec).time))
        if task.id not in self._announced:
            self._announced.add(task.id)
            for name, spec in task.specs.items():
                if name not in changed and self._is_viewed(task, name):
                    collected.views.append(change_of(spec, task.id.partition, [], task.state.open(spec).time))

    def _is_viewed(self, task: HostedTask, store: str) -> bool:
        return self._has_views and self._program.has_view(task.specs[store])

    def _add_record(
        self, task: HostedTask, collected: Collected, now: int, publication: tuple[int, int], *, claims: bool
    ) -> None:
        assert task.running is not None
        drops, taken = task.running.take_counts()
        result = collected.result
        result.drops.extend(drops)
        for operator, count in taken.items():
            result.read[operator] = result.read.get(operator, 0) + count
        record = task.running.record(task.state.cells(), claims=claims)
        for topic, partition, offset in record.offsets:
            self._move((topic, partition), task.id, offset, result)
        block = ColumnBlock([now], [KEY], [encode(record, publication)])
        collected.records.append(Append(self._topic, task.slot, block))

    def add_globals(self, tables: GlobalTables, applied: Sequence[tuple[str, int, int]], collected: Collected) -> None:
        """Adds the offsets, the dead letters and the views of global tables. Of all workers, the first one does so.

        Args:
            tables: The tables.
            applied: (topic, partition, offset): the offsets up to which all workers have applied them.
            collected: The content of the publication.
        """
        for topic, partition, offset in applied:
            self._offsets.setdefault((topic, partition), {None: 0})
            self._move((topic, partition), None, offset, collected.result)
        collected.result.drops.extend(tables.take_drops())
        letters = letters_of(tables.take_letters(applied), self._count_of)
        collected.outputs.extend(letters)
        self._count(letters, collected)
        views = tables.take_views(self._program.has_view)
        for change in views:
            _count_changes(change.store, len(change.records), collected)
        if self._has_views:
            collected.views.extend(views)

    def begin(self, task: RealTimeTask) -> None:
        """Notes the offsets at which a task begins."""
        for key in task.inputs:
            self._offsets.setdefault(key, {})[task.id] = task.taken(key)

    def is_behind(self, task: RealTimeTask) -> bool:
        """Whether a task has passed offsets since its last task record, be they those of control records."""
        return any(task.taken(key) > self._offsets[key][task.id] for key in task.inputs)

    def _move(self, place: tuple[str, int], reader: TaskId | None, offset: int, result: TaskResult) -> None:
        """Moves the offset of a reader. The least one of all readers is that of the application."""
        readers = self._offsets[place]
        before = min(readers.values())
        readers[reader] = offset
        after = min(readers.values())
        if after > before:
            result.offsets.append((*place, before, after))

    @property
    def offsets(self) -> dict[tuple[str, int], int]:
        """The offsets before which all records were taken, by input, by all tasks that read it."""
        return {place: min(readers.values()) for place, readers in self._offsets.items()}


def _count_changes(store: str, count: int, collected: Collected) -> None:
    changed = collected.result.changed
    changed[store] = changed.get(store, 0) + count


def measure(worker: int, tasks: Iterable[HostedTask]) -> TaskResult:
    """Returns the sizes of the stores of a worker, and how far its tasks are: stream times, and records held back."""
    result = TaskResult((1, "", worker), figures=process_figures())
    for task in tasks:
        if task.running is not None:
            time = task.running.task.stream_time
            if time >= 0:
                result.times.append(StreamTime(task.id.subtopology, task.id.partition, time))
            result.tasks.append(TaskProgress(task.id, waiting=task.running.waiting))
        sizes = task.state.sizes()
        for name, size in sizes.items():
            before = result.stores.get(name, StoreSize(0, 0, 0))
            result.stores[name] = StoreSize(*map(sum, zip(before, size, strict=True)))
        for name, value in task.state.figures(sizes).items():
            result.figures[f"state.{name}"] = result.figures.get(f"state.{name}", 0.0) + value
    return result
