"""A task: one partition of a sub-topology. Its identity, and the state that it reports."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import pytest

from millstream import App
from millstream.engine import InputRecord, Task
from millstream.engine.queues import Columns
from millstream.errors import ProcessingError
from millstream.stages.placement import only


def doubling(**config: Any) -> App:
    app = App("doubling", config=config)
    app.stream("numbers", key=str, value=int).map_values(lambda n: 2 // n if n == 0 else 2 * n).to("doubles")
    return app


def record(offset: int, value: int, timestamp: int = 0) -> InputRecord:
    return InputRecord(offset, timestamp, b"k", value.to_bytes(8, "big"))


def columns(*records: InputRecord) -> Columns:
    offsets, timestamps, keys, values, _headers = zip(*records, strict=True)
    return Columns(list(offsets), list(timestamps), list(keys), list(values), repeat(()))


def make(app: App, **options: Any) -> Task:
    return Task(app.topology(), app.config, **options)


def test_a_task_without_records_has_no_positions_and_no_stream_time() -> None:
    task = make(doubling())
    assert (task.positions(), task.stream_time) == ({}, -1)


def test_the_position_of_an_input_is_the_offset_of_its_first_queued_record() -> None:
    task = make(doubling(), partition=3)
    task.add("numbers", [record(7, 1), record(9, 2)])
    assert task.positions() == {("numbers", 3): 7}
    task.step()
    assert task.positions() == {("numbers", 3): 9}
    task.step()
    assert task.positions() == {("numbers", 3): 10}


def test_the_position_passes_over_records_that_cannot_be_read() -> None:
    task = make(doubling(**{"deserialization.exception.handler": "continue"}))
    task.add("numbers", [record(0, 1), InputRecord(1, 0, b"k", b"short")])
    task.run()
    assert task.positions() == {("numbers", 0): 2}


def test_taken_columns_move_the_position_of_each_partition() -> None:
    task = make(doubling())
    first, second = task.input("numbers", 0), task.input("numbers", 5)
    task.take([(first, columns(record(0, 1, 10), record(1, 2, 20))), (second, columns(record(40, 3, 15)))], [0, 1, 0])
    assert task.positions() == {("numbers", 0): 2, ("numbers", 5): 41}
    assert task.stream_time == 20
    task.take([(first, columns(record(4, 1, 5)))])
    assert task.positions() == {("numbers", 0): 5, ("numbers", 5): 41}


def test_the_position_is_after_the_highest_offset_if_a_partition_is_in_several_inputs() -> None:
    task = make(doubling())
    queue = task.input("numbers", 0)
    task.take([(queue, columns(record(3, 1))), (queue, columns(record(1, 2)))], [0, 1])
    assert task.positions() == {("numbers", 0): 4}


def test_a_failed_batch_does_not_move_the_position() -> None:
    task = make(doubling())
    queue = task.input("numbers", 0)
    task.take([(queue, columns(record(0, 1)))])
    with pytest.raises(ProcessingError):
        task.take([(queue, columns(record(1, 1), record(2, 0)))])
    assert task.positions() == {("numbers", 0): 1}


def test_topics_of_global_tables_have_no_positions() -> None:
    app = App("lookups")
    rates = app.global_table("rates", key=str, value=int)
    app.stream("numbers", key=str, value=int).join(rates, lambda n, rate: n * rate, on=lambda k, _n: k).to("out")
    task = make(app)
    task.add("rates", [record(0, 3)])
    task.add("numbers", [record(0, 2)])
    task.run()
    assert task.positions() == {("numbers", 0): 1}


def two_subtopologies() -> App:
    app = App("two")
    words = app.stream("words", key=str, value=str).select_key(lambda value: value)
    words.group_by_key().count().to_stream().to("counts")
    return app


def test_the_id_of_a_task_is_its_subtopology_and_its_partition() -> None:
    app = two_subtopologies()
    topology = app.topology()
    ids = [Task(only(topology, part), app.config, 4).context.task_id for part in topology.parts]
    assert ids == ["0_4", "1_4"]


def test_a_task_of_a_whole_topology_has_the_id_of_its_first_subtopology() -> None:
    assert make(two_subtopologies(), partition=4).context.task_id == "0_4"
