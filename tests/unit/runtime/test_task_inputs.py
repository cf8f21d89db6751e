"""The inputs of tasks: routing, senders, the memory of tasks, and reading for one task without routing."""

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
from millstream.runtime.messages import NO_SENDER, InputBound, TaskInput, TaskResult, pack, unpack
from millstream.runtime.read.inputs import Range
from millstream.runtime.read.range_reader import InputRecords, RangeReader, RangeRecords
from millstream.runtime.read.routing import Router
from millstream.runtime.tasks.memory import TaskMemory, decode_memory, encode_memory
from millstream.runtime.tasks.runner import TaskRunner, records_by_input
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
        span = Range(part.topic, part.partition, 0, len(part.orders), part.more)
        router.add(span, RangeRecords(TaskResult((0, part.topic, part.partition)), [part]))
    return {task: unpack(pack(task_input), TaskInput) for task, task_input in router.inputs(0, None)}


def sent(partition: int, orders: list[int], senders: list[int] | None, batch: pa.RecordBatch) -> InputRecords:
    positions = np.array(orders, np.int64)
    numbers = None if senders is None else np.array(senders, np.int64)
    return InputRecords("in", partition, partition, batch, positions, False, orders[-1], None, numbers)


def inputs_of(task_input: TaskInput) -> dict[tuple[str, int, int], list[int]]:
    parts = [batch for part in task_input.slices for batch in records_by_input(part)]
    return {key: batch.column("order").to_pylist() for key, batch in parts}


def test_records_of_input_topics_have_no_sender() -> None:
    task_input = routed([sent(0, [1, 5], None, records(1, 5)), sent(1, [2], None, records(2))])[0]
    assert inputs_of(task_input) == {("in", 0, NO_SENDER): [1, 5], ("in", 1, NO_SENDER): [2]}


def test_each_sender_of_a_partition_is_an_input_of_its_own() -> None:
    part = sent(0, [7, 3, 8, 4], [2, 0, 2, 0], records(1, 2, 3, 4))
    assert inputs_of(routed([part])[0]) == {("in", 0, 0): [3, 4], ("in", 0, 2): [7, 8]}


@pytest.mark.parametrize("tasks", [1, 3])
def test_senders_stay_with_their_records_whichever_task_these_go_to(tasks: int) -> None:
    keys = [b"%d" % number for number in range(60)]
    batch = records(*range(60)).set_column(2, SCHEMA.field("key"), pa.array(keys, pa.binary()))
    with_senders = sent(0, list(range(60)), [number % 4 for number in range(60)], batch)
    without = sent(1, list(range(60)), None, batch)
    positions: list[tuple[int, int]] = []
    for task_input in routed([with_senders, without], tasks).values():
        for (_topic, partition, sender), orders in inputs_of(task_input).items():
            positions += [(partition, order) for order in orders]
            assert sender == NO_SENDER if partition else {order % 4 for order in orders} == {sender}
    assert sorted(positions) == [(partition, order) for partition in range(2) for order in range(60)]


def joined(directory: Path) -> App:
    app = App("joined", config={"state.dir": str(directory), "status": "none"})
    app.stream("in", value=str).group_by_key().reduce(lambda a, b: a + "," + b, store="lines").to_stream().to("out")
    return app


def runner(directory: Path) -> TaskRunner:
    with InProcessRun(joined(directory)) as run:
        program = run.application.program
        return TaskRunner(TaskId(0, 0), program.placement.tasks[0], program, {}, 0, open_store)


def take(task: TaskRunner, task_input: TaskInput) -> list[bytes | None]:
    """The values that a task writes after it has received an input."""
    for part in task_input.slices:
        for key, batch in records_by_input(part):
            task.receive(key, batch)
    ends = {(end.topic, end.partition, end.sender): end.bound for end in task_input.bounds}
    task.begin(0)
    task.run(ends, 0)
    values: list[Any] = []
    for output in task.task.take_outputs():
        values += output.values if hasattr(output, "values") else [output.value]
    return values


def test_a_task_merges_senders_by_order_position_and_not_by_offset(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("in", 1)
    task = runner(tmp_path)
    part = sent(0, [30, 10, 40, 20], [1, 0, 1, 0], records(1, 2, 3, 4))
    assert take(task, routed([part])[0])[-1] == b"2,4,1,3"
    assert task.offsets == {("in", 0, 0): 4, ("in", 0, 1): 3}


def test_a_task_does_not_go_past_the_bound_of_a_sender(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("in", 1)
    task = runner(tmp_path)
    part = sent(0, [30, 10, 40, 20], [1, 0, 1, 0], records(1, 2, 3, 4))
    task_input = msgspec.structs.replace(routed([part])[0], bounds=[InputBound("in", 0, 20, sender=0)])
    assert take(task, task_input)[-1] == b"2,4"
    assert task.progress().waiting == 2
    memory = task.memory()
    assert [(part.partitions, part.counts) for part in memory.waiting] == [([0], [2])]
    assert memory.offsets == []  # nothing of sender 1 was taken yet
    assert take(task, msgspec.structs.replace(task_input, slices=[], bounds=[]))[-1] == b"2,4,1,3"


def test_the_memory_of_tasks_has_a_format() -> None:
    memory = TaskMemory({"counts.time": 5}, [], [("in", 0, NO_SENDER, 7)])
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
        read = RangeReader(run.application.program, run.log).read(Range("in", 1, 0, 3, True, [("in", 1, 2)]), now=9)
    (part,) = read.inputs
    assert (part.topic, part.partition, part.more, part.bound) == ("in", 1, True, 7)
    assert part.records.column("value").to_pylist() == [b"3", b"1", b"7"]
    assert part.orders.tolist() == [3, 3, 7]
    task = runner(tmp_path)
    task.receive((part.topic, part.partition, NO_SENDER), part.batch())
    task.begin(9)
    task.run({("in", 1, NO_SENDER): part.bound}, 9)
    assert task.offsets == {("in", 1, NO_SENDER): 3}
    assert read.result.offsets == [("in", 1, 0, 3)]
    assert read.result.bounds == [("in", 1, 7)]


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
