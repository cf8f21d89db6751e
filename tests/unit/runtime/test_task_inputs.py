"""The inputs of tasks: routing, positions, limits, the memory of tasks, and reading for one task without routing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from millstream import App
from millstream.errors import StateError
from millstream.log import ProducerRecord, open_log
from millstream.runtime.in_process.batches import InProcessRun
from millstream.runtime.messages import InputBound, TaskInput, TaskResult, pack, unpack
from millstream.runtime.order.batch_order import NO_ORDER, BatchOrder
from millstream.runtime.order.positions import position, positions, time_of
from millstream.runtime.read.inputs import Range
from millstream.runtime.read.range_reader import InputRecords, RangeReader, RangeRecords
from millstream.runtime.read.routing import Router
from millstream.runtime.tasks.memory import TaskMemory, decode_memory, encode_memory
from millstream.runtime.tasks.runner import TaskRunner, records_by_input
from millstream.stages.exchange_graph import exchange_graph
from millstream.stages.task_id import TaskId
from millstream.state.memory import open_store

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        *(pa.field(name, pa.binary()) for name in ("key", "value", "headers")),
    ]
)


def records(*times: int, key: bytes = b"k") -> pa.RecordBatch:
    columns = [[*range(len(times))], list(times), [key] * len(times), [b"%d" % time for time in times]]
    return pa.record_batch([*columns, [None] * len(times)], schema=SCHEMA)


def routed(read: list[InputRecords], tasks: int = 1) -> dict[int, TaskInput]:
    router = Router(tasks)
    for part in read:
        span = Range(part.topic, part.partition, 0, len(part.positions), part.more)
        router.add(span, RangeRecords(TaskResult((0, part.topic, part.partition)), [part]))
    return {task: unpack(pack(task_input), TaskInput) for task, task_input in router.inputs(0, None, NO_ORDER)}


def at(time: int, partition: int = 0, offset: int = 0) -> bytes:
    return position(time, partition, offset)


def read(partition: int, times: list[int], batch: pa.RecordBatch) -> InputRecords:
    offsets = np.arange(len(times), dtype=np.int64)
    column = positions(np.array(times, np.int64), partition, offsets)
    return InputRecords("in", partition, partition, batch, column, more=False, bound=None)


def inputs_of(task_input: TaskInput) -> dict[tuple[str, int], list[int]]:
    parts = [batch for part in task_input.slices for batch in records_by_input(part)]
    return {key: [time_of(row) for row in batch.column("position").to_pylist()] for key, batch in parts}


@pytest.mark.parametrize("tasks", [1, 3])
def test_positions_stay_with_their_records_whichever_task_these_go_to(tasks: int) -> None:
    keys = [b"%d" % number for number in range(60)]
    batch = records(*range(60)).set_column(2, SCHEMA.field("key"), pa.array(keys, pa.binary()))
    parts = [read(partition, list(range(60)), batch) for partition in range(2)]
    routed_records: list[tuple[int, int]] = []
    for task_input in routed(parts, tasks).values():
        for (_topic, partition), times in inputs_of(task_input).items():
            assert times == sorted(times)
            routed_records += [(partition, time) for time in times]
    assert sorted(routed_records) == [(partition, time) for partition in range(2) for time in range(60)]


def joined(directory: Path) -> App:
    app = App("joined", config={"state.dir": str(directory), "status": "none"})
    app.stream("in", value=str).group_by_key().reduce(lambda a, b: a + "," + b, store="lines").to_stream().to("out")
    return app


def runner(directory: Path) -> TaskRunner:
    with InProcessRun(joined(directory)) as run:
        program = run.application.program
        graph = exchange_graph(program.placement)
        return TaskRunner(TaskId(0, 0), program.placement.tasks[0], program, {}, 0, open_store, graph)


def take(task: TaskRunner, task_input: TaskInput) -> list[bytes | None]:
    """The values that a task writes after it has received an input."""
    for part in task_input.slices:
        for key, batch in records_by_input(part):
            task.receive(key, batch, task_input.order.sequence)
    task.begin(0, task_input.order)
    task.run(task_input.bounds, 0)
    values: list[Any] = []
    for output in task.task.take_outputs():
        values += output.values if hasattr(output, "values") else [output.value]
    return values


@pytest.fixture
def two_partitions(tmp_path: Path) -> tuple[TaskRunner, TaskInput]:
    with open_log(tmp_path) as log:
        log.create_topic("in", 2)
    parts = [read(0, [30, 40], records(1, 3)), read(1, [10, 20], records(2, 4))]
    return runner(tmp_path), routed(parts)[0]


def test_a_task_merges_partitions_by_position(two_partitions: tuple[TaskRunner, TaskInput]) -> None:
    task, task_input = two_partitions
    assert take(task, task_input)[-1] == b"2,4,1,3"
    assert task.offsets == {("in", 0): 2, ("in", 1): 2}


def test_a_task_does_not_go_past_the_bound_of_an_input(two_partitions: tuple[TaskRunner, TaskInput]) -> None:
    task, task_input = two_partitions
    bounded = msgspec.structs.replace(task_input, bounds=[InputBound("in", 1, at(20, 1, 2))])
    assert take(task, bounded)[-1] == b"2,4"
    assert task.progress().waiting == 2
    assert task.progress().held == at(30)
    memory = task.memory()
    assert [(part.partitions, part.counts) for part in memory.waiting] == [([0], [2])]
    assert memory.offsets == []  # nothing of partition 0 was taken yet
    assert take(task, msgspec.structs.replace(task_input, slices=[], bounds=[]))[-1] == b"2,4,1,3"


def test_a_task_takes_nothing_if_the_bound_of_an_input_is_unknown(
    two_partitions: tuple[TaskRunner, TaskInput],
) -> None:
    task, task_input = two_partitions
    assert take(task, msgspec.structs.replace(task_input, bounds=[InputBound("in", 1, None)])) == []


def test_a_task_does_not_go_past_the_limit_of_its_sub_topology_unless_records_are_released(
    two_partitions: tuple[TaskRunner, TaskInput],
) -> None:
    task, task_input = two_partitions
    held = BatchOrder(3, limits=[(0, at(20, 1, 1)), (7, at(0))], released=[(0, [2])])
    assert take(task, msgspec.structs.replace(task_input, order=held))[-1] == b"2"
    assert {part.batch for part in task.memory().waiting} == {3}
    released = BatchOrder(4, limits=[(0, at(0))], released=[(0, [3])])
    assert take(task, msgspec.structs.replace(task_input, slices=[], order=released))[-1] == b"2,4,1,3"


def test_the_memory_of_tasks_has_a_format() -> None:
    memory = TaskMemory({"counts.time": 5}, [], [("in", 0, 7)], "lines", at(3))
    assert decode_memory(encode_memory({TaskId(1, 3): memory})) == [memory]
    for other in (msgspec.msgpack.encode([[{}], []]), msgspec.msgpack.encode([99, {}])):
        with pytest.raises(StateError, match="was written in format"):
            decode_memory(other)


def test_a_range_is_read_for_a_task_without_routing(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("in", 2)
        for time in (3, 1, 7):
            log.produce("in", [ProducerRecord(b"k", b"%d" % time, time)], partition=1)
    with InProcessRun(joined(tmp_path)) as run:
        span = Range("in", 1, 0, 3, more=True, bound=at(2, 1), ordinal=1)
        result = RangeReader(run.application.program, run.log).read(span, now=9)
    (part,) = result.inputs
    assert (part.topic, part.partition, part.more, part.bound) == ("in", 1, True, at(7, 1, 3))
    assert part.records.column("value").to_pylist() == [b"3", b"1", b"7"]
    assert part.positions.tolist() == [at(3, 1, 0), at(3, 1, 1), at(7, 1, 2)]
    task = runner(tmp_path)
    task.receive((part.topic, part.partition), part.batch(), 1)
    task.begin(9, NO_ORDER)
    task.run([InputBound("in", 1, part.bound)], 9)
    assert task.offsets == {("in", 1): 3}
    assert result.result.offsets == [("in", 1, 0, 3)]
    assert result.result.bounds == [("in", 1, at(7, 1, 3))]


def test_results_name_each_task(tmp_path: Path) -> None:
    app = App("two", config={"state.dir": str(tmp_path), "status": "none", "num.tasks": 2})
    first = app.stream("in", value=str).group_by_key().count(store="first").to_stream()
    first.group_by(lambda _key, value: str(value), key=str).count(store="second")
    with open_log(tmp_path) as log:
        log.create_topic("in", 1)
        log.produce("in", [ProducerRecord(b"a", b"v", 1), ProducerRecord(b"b", b"v", 2)])
    with InProcessRun(app) as run:
        assert run.batch()
        tasks = {str(task.task) for result in run.results for task in result.tasks}
        numbers = {result.number for result in run.results}
    assert tasks == {"0_0", "0_1", "1_0", "1_1"}
    assert numbers <= {None, 0, 1}
