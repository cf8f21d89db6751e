"""A task: one partition of a sub-topology. Its identity and its stream time."""

from __future__ import annotations

from itertools import repeat

from millstream import App
from millstream.engine import Task
from millstream.engine.queues import Columns
from millstream.stages.placement import only


def doubling() -> App:
    app = App("doubling")
    app.stream("numbers", key=str, value=int).map_values(lambda n: 2 * n).to("doubles")
    return app


def columns(*timestamps: int) -> Columns:
    count = len(timestamps)
    return Columns(range(count), timestamps, [b"k"] * count, [bytes(8)] * count, repeat(()))


def make(app: App, partition: int = 0) -> Task:
    return Task(app.topology(), app.config, partition)


def test_a_task_without_records_has_no_stream_time() -> None:
    assert make(doubling()).stream_time == -1


def test_taken_columns_advance_the_stream_time() -> None:
    task = make(doubling())
    task.take([(task.input("numbers", 0), columns(10, 20)), (task.input("numbers", 5), columns(15))], [0, 1, 0])
    assert task.stream_time == 20
    task.take([(task.input("numbers", 0), columns(5))])
    assert task.stream_time == 20


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
