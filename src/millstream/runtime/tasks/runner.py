"""Runs the batches of one task: takes what was delivered, lets the engine work, and says what came of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from millstream.engine import InputRecord, Task
from millstream.engine.call_trace import installed_trace
from millstream.errors import MillstreamError
from millstream.log.arrays import to_numbers
from millstream.plan.sources import GlobalTable
from millstream.runtime.messages import (
    INPUT_SCHEMA,
    Drop,
    InputBound,
    InputSlice,
    OutputBlock,
    StoreChange,
    TaskInput,
    TaskResult,
    earliest,
    failure_of,
    pack,
)
from millstream.runtime.program.program import Program
from millstream.runtime.publish.output_blocks import block, blocks_of
from millstream.runtime.read.columns import columns_of, finder
from millstream.runtime.tasks.ordering import Input, merge
from millstream.serde.key_layouts import split_session_key, split_store_window_key
from millstream.state.paged import PagedState, StoreSize
from millstream.state.spec import NO_TIMESTAMP, ChangelogRecord, StoreSpec

Place = tuple[str, int]

FetchValues = Callable[[list[bytes]], list[bytes | None]]


class TaskCommit(NamedTuple):
    """What a batch did: what is to be written to the state, and what goes to the commit, a list of one `TaskResult`."""

    puts: list[tuple[bytes, bytes]]
    deletes: list[bytes]
    results: bytes
    failed: bool = False


class _Memory(msgspec.Struct, array_like=True):
    """What a task remembers beside its stores."""

    cells: list[dict[str, Any]]
    waiting: list[InputSlice]


class TaskRunner:
    """One task of an application: the sub-topologies of one partition number, with their state.

    Args:
        program: The application.
        number: The number of the task.
        fetch: Reads values of Spark's state.
        manifest: What the state has under `PagedState`'s own key; None for a new task.
        now: The time of the batch.
        memory_limit: About how many bytes its state may take in memory; by default as many as all tasks of a host may.
    """

    def __init__(
        self,
        program: Program,
        number: int,
        fetch: FetchValues,
        manifest: bytes | None,
        now: int,
        memory_limit: int | None = None,
    ) -> None:
        self._program = program
        self._number = number
        self.fetch = fetch
        self.state = PagedState(self._fetch, memory_limit=memory_limit or program.config["host.memory.max.bytes"])
        extra = self.state.load(manifest)
        if extra is None and number in program.cells:
            memory = _Memory(msgspec.msgpack.decode(program.cells[number]), [])
        else:
            memory = _Memory([], []) if extra is None else msgspec.msgpack.decode(extra, type=_Memory)
        cells = {name: value for each in memory.cells for name, value in each.items()}
        self._waiting: dict[Place, pa.RecordBatch] = {
            place: batch for piece in memory.waiting for place, batch in _by_partition(piece)
        }
        self._parts: list[_Part] = []
        parts = program.placement.tasks
        everyone = {node.name for topology in parts for node in topology.plan.nodes}
        of_node: dict[str | None, list[str]] = {}
        for name in cells:
            of_node.setdefault(_node_of(name, everyone), []).append(name)
        for topology in parts:
            names = [node.name for node in topology.plan.nodes if not isinstance(node, GlobalTable)]
            first = names[0] if names else ""
            # No part may have what is another's: it would go on saving it as it was when it was loaded.
            own = {name: cells[name] for node in topology.plan.nodes for name in of_node.get(node.name, ())}
            own["task.stream-time"] = cells.get(f"task.stream-time.{first}", -1)
            task = Task(topology, program.config, number, now=now, state=({}, own), open_store=self.state.open)
            task.context.partition_counts = self._partition_count
            task.context.largest = program.log.largest
            self._parts.append(_Part(first, task))
        for topology in parts:
            for spec in topology.stores:
                self.state.open(spec)  # also those that a processor asks for only later
        self._specs: dict[str, StoreSpec] = {
            spec.name: spec for part in self._parts for node in part.task.topology.plan.nodes for spec in node.stores
        }
        self._owned = {name for name in self._specs if self._owns(name)}
        self._told = {
            name
            for name in self._owned
            if program.changelog_of(self._specs[name]) is not None or program.has_view(self._specs[name])
        }
        self._known = False

    def run(self, deliveries: Sequence[TaskInput], printed: list[str]) -> TaskCommit:
        """Runs a batch. After an error the runner must not be used again."""
        started = time.perf_counter()
        try:
            written, extra = self._run(deliveries)
            trace = installed_trace()
            if trace is not None:
                trace.enter_step("keeping the state")
            changes = self.state.changes(self._told)
            writes = self.state.commit(extra)
        except MillstreamError as error:
            return TaskCommit(
                [], [], pack([TaskResult(self._origin, printed=printed, failure=failure_of(error))]), failed=True
            )
        if any(delivery.restores for delivery in deliveries):
            changes = {}  # the changelogs and the views have them
        sizes = self.state.sizes()
        written = msgspec.structs.replace(
            written,
            blocks=written.blocks + self._changelogs(changes),
            changes=self._views(changes),
            cells=msgspec.msgpack.encode(self._cells()),
            printed=printed,
            stores={name: size if name in self._owned else size._replace(rows=0) for name, size in sizes.items()},
            figures={"engine": time.perf_counter() - started, **self._figures(sizes)},
        )
        return TaskCommit(writes.puts, writes.deletes, pack([written]))

    def _fetch(self, keys: list[bytes]) -> list[bytes | None]:
        """Asks whoever asks for this batch: with each batch that is another one."""
        return self.fetch(keys)

    @property
    def _origin(self) -> tuple[int, str, int]:
        return (1, "", self._number)

    def _run(self, deliveries: Sequence[TaskInput]) -> tuple[TaskResult, bytes]:
        now = max((delivery.now for delivery in deliveries), default=0)
        arrived = self._arrived(deliveries)
        ends = {(end.topic, end.partition): end for delivery in deliveries for end in delivery.bounds}
        outputs: list[Any] = []
        for piece in (piece for delivery in deliveries for piece in delivery.restores):
            self._restore(piece)
        for part in self._parts:
            part.task.context.now = now
            part.dropped = dict(part.task.context.dropped)
            part.taken = Counter()
            for delivery in deliveries:
                for piece in delivery.globals:
                    part.task.add(piece.topic, _input_records(_records(piece)))
            outputs += part.task.take_outputs()
        for part in self._parts:
            self._take(part, arrived, ends)
            part.task.advance_wall_clock(now, is_quiet=self._is_quiet(part, ends))
            outputs += part.task.take_outputs()
        written = TaskResult(
            self._origin,
            blocks=list(blocks_of(outputs, self._program.counts.get, self._number)),
            drops=[drop for part in self._parts for drop in part.drops()],
            taken={name: count for part in self._parts for name, count in part.taken.items()},
            due=earliest(part.task.context.punctuators.due() for part in self._parts),
            asleep=earliest(part.task.context.punctuators.asleep() for part in self._parts),
            waiting=sum(len(batch) for batch in self._waiting.values()),
            awake=bool(self._waiting) or any(part.task.context.punctuators.any("wall") for part in self._parts),
        )
        return written, self._extra()

    def _arrived(self, deliveries: Sequence[TaskInput]) -> dict[Place, pa.RecordBatch]:
        """The records at hand by topic and partition: those that were left, and those that came."""
        arrived, self._waiting = self._waiting, {}
        for piece in (piece for delivery in deliveries for piece in delivery.slices):
            for place, batch in _by_partition(piece):
                arrived[place] = pa.concat_batches([arrived[place], batch]) if place in arrived else batch
        return arrived

    def _take(self, part: _Part, arrived: dict[Place, pa.RecordBatch], ends: dict[Place, InputBound]) -> None:
        """Lets a sub-topology take its records, as far as the inputs allow that have more."""
        task = part.task
        batches = {place: arrived[place] for place in sorted(arrived) if task.queue(place[0]) is not None}
        counts, order = merge(_inputs(batches, {p: e for p, e in ends.items() if task.queue(p[0]) is not None}))
        taken = []
        for (place, batch), count in zip(batches.items(), counts, strict=False):
            if count < len(batch):
                self._waiting[place] = batch.slice(count)
            queue = task.input(*place)
            part.taken[queue.node.name] += count
            columns = columns_of(batch.slice(0, count))
            queue.find = finder(columns)
            taken.append((queue, columns))
        if taken:
            task.take(taken, order)

    def _is_quiet(self, part: _Part, ends: dict[Place, InputBound]) -> bool:
        """Whether a sub-topology has seen all records that there were when the batch was planned."""
        unseen = {topic for topic, _partition in (*ends, *self._waiting)}
        return all(part.task.queue(topic) is None for topic in unseen)

    def _restore(self, piece: InputSlice) -> None:
        """Puts the records of a changelog into their store."""
        spec = self._specs[self._program.restores[piece.topic]]
        store: Any = self.state.open(spec)
        key_in, value_in = spec.key.deserialize, spec.value.deserialize
        for _offset, timestamp, data, value, _headers in zip(*columns_of(_records(piece)), strict=False):
            assert data is not None
            row = None if value is None else value_in(value)
            row = (row, timestamp) if spec.timestamped and row is not None else row
            if spec.kind == "key-value":
                store.put(key_in(data), row)
            elif spec.kind == "window":
                key, start, _sequence = split_store_window_key(data)
                store.put(key_in(key), start, row)
            elif spec.kind == "session":
                key, start, end = split_session_key(data)
                store.put(key_in(key), start, end, row)
            else:
                store.put(key_in(data), row, timestamp)

    def _cells(self) -> list[dict[str, Any]]:
        cells = []
        for part in self._parts:
            own = {n: v for n, v in part.task.cells().items() if not n.startswith("store.")}
            own[f"task.stream-time.{part.name}"] = own.pop("task.stream-time")
            cells.append(own)
        return cells

    def _extra(self) -> bytes:
        waiting = [
            InputSlice(topic, [partition], [len(batch)], pa.concat_batches([batch]).serialize().to_pybytes())
            for (topic, partition), batch in self._waiting.items()
        ]
        return msgspec.msgpack.encode(_Memory(self._cells(), waiting))

    # ----- stores ----------------------------------------------------------------------------------------------

    def _changelogs(self, changes: dict[str, list[ChangelogRecord]]) -> list[OutputBlock]:
        found = []
        latest = max((part.task.context.stream_time for part in self._parts), default=-1)
        if latest < 0:  # nothing has come yet but rows of global tables
            latest = max((part.task.context.now for part in self._parts), default=0)
        for name, records in changes.items():
            topic = self._program.changelog_of(self._specs[name])
            if topic is None:
                continue
            keys, values, timestamps = _columns(records)
            times = [latest if time == NO_TIMESTAMP else time for time in timestamps]
            found.append(block(topic, self._number, times, keys, values, None))
        return found

    def _views(self, changes: dict[str, list[ChangelogRecord]]) -> list[StoreChange]:
        """What changed in stores that can be queried; at first also those without a change, so that all are known."""
        found = []
        names = changes if self._known else self._told
        self._known = True
        for name in names:
            if self._program.has_view(self._specs[name]):
                records = changes.get(name, [])
                time = self.state.open(self._specs[name]).time
                found.append(StoreChange(name, self._number, *_columns(records), time))
        return found

    def _owns(self, store: str) -> bool:
        """Whether this task tells others of a store: global tables are the same in all tasks."""
        if self._number == 0:
            return True
        return not any(table.store.name == store for table in self._program.topology.plan.of_type(GlobalTable))

    def _figures(self, sizes: dict[str, StoreSize]) -> dict[str, float]:
        return {f"state.{name}": float(value) for name, value in self.state.figures(sizes).items()}

    def _partition_count(self, topic: str) -> int:
        return self._program.counts.get(topic, 1)


def _node_of(cell: str, nodes: set[str]) -> str | None:
    """The node that a cell is of: the longest name that the cell's own begins with."""
    while "." in cell:
        cell = cell.rpartition(".")[0]
        if cell in nodes:
            return cell
    return None


class _Part:
    """One sub-topology of the task."""

    def __init__(self, name: str, task: Task) -> None:
        self.name = name
        self.task = task
        self.dropped: dict[tuple[str, str], int] = {}
        self.taken: Counter[str] = Counter()

    def drops(self) -> list[Drop]:
        """What was dropped in this batch."""
        now = self.task.context.dropped
        return [Drop(*where, count - self.dropped.get(where, 0)) for where, count in now.items()]


# ----- columns -----------------------------------------------------------------------------------------------------

_NONE = np.empty(0, np.int64)
_ALWAYS = -(2**63)


def _inputs(batches: dict[Place, pa.RecordBatch], ends: dict[Place, InputBound]) -> list[Input]:
    """What `merge` decides on: the inputs that have records, in their order.

    Of those that have none at hand but more in the log, only the one that bounds the others the most counts; it is the
    last, if there is one.
    """
    bounds = {place: _ALWAYS if end.bound is None else end.bound for place, end in ends.items()}
    without = min(((bound, place) for place, bound in bounds.items() if place not in batches), default=None)
    places = sorted(batches if without is None else {*batches, without[1]})
    ranks = {place: rank for rank, place in enumerate(places)}
    inputs = [Input(ranks[p], to_numbers(batch.column(2)), bounds.get(p)) for p, batch in batches.items()]
    return inputs if without is None else [*inputs, Input(ranks[without[1]], _NONE, without[0])]


def _columns(records: list[ChangelogRecord]) -> tuple[list[bytes], list[bytes | None], list[int]]:
    """Records by column; for many of them, this is several times as quick as ``zip(*records)``."""
    return [one[0] for one in records], [one[1] for one in records], [one[2] for one in records]


def _by_partition(piece: InputSlice) -> Iterator[tuple[Place, pa.RecordBatch]]:
    """The records of each partition of a piece."""
    records, start = _records(piece), 0
    for partition, count in zip(piece.partitions, piece.counts, strict=True):
        yield (piece.topic, partition), records.slice(start, count)
        start += count


def _records(piece: InputSlice) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(piece.data), INPUT_SCHEMA)


def _input_records(batch: pa.RecordBatch) -> list[InputRecord]:
    return list(map(InputRecord, *columns_of(batch)))
