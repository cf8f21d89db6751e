"""The cost of a batch depends on the number of partitions that it reads, not on that of the topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millstream import App
from millstream.core.partitioning import partition_for
from millstream.errors import SetupError
from millstream.log import ProducerRecord, Scope, open_log
from millstream.runtime.admin import migrate, reset
from millstream.runtime.in_process.batches import InProcessRun
from millstream.runtime.messages import TaskInput, unpack
from millstream.runtime.read.reader import RESULT, TASK_INPUT
from millstream.runtime.start.prepared_application import MOST_TASKS, PreparedApplication
from millstream.state.paged import MANIFEST_KEY

TASKS = 48


def counting(directory: Path, **config: Any) -> App:
    app = App("counting", config={"state.dir": str(directory), "status": "none", **config})
    app.stream("in", value=str).group_by_key().count(store="counts").to_stream().to("out")
    return app


def cost_of_three(directory: Path, partitions: int) -> dict[str, int]:
    """The cost of a batch of three records, after every partition has been read."""
    with open_log(directory) as log:
        log.create_topic("in", partitions)
        log.create_topic("out", 1)
        for partition in range(partitions):
            log.produce("in", [ProducerRecord(b"key-%d" % (partition % 3), b"v", 5)], partition=partition)
    with InProcessRun(counting(directory, **{"num.tasks": TASKS})) as run:
        run.run()
        for place in range(3):
            run.log.produce("in", [ProducerRecord(b"key-%d" % place, b"v", 9)], partition=place)
        statements: list[str] = []
        with run.log._database.use() as connection:  # type: ignore[attr-defined]
            connection.set_trace_callback(statements.append)
        try:
            assert run.batch()
        finally:
            connection.set_trace_callback(None)
        tasks = {row.task for row in run.rows if row.kind == TASK_INPUT}
        states = run.states()
        return {
            "statements": len(statements),
            "task inputs": sum(row.kind == TASK_INPUT for row in run.rows),
            "results of reading": sum(row.kind == RESULT for row in run.rows),
            "task input bytes": sum(len(row.payload) for row in run.rows if row.kind == TASK_INPUT),
            "tasks that ran": sum(result.number is not None for result in run.results),
            "other state": sum(len(states[task][MANIFEST_KEY]) for task in tasks),
            "cells": sum(len(result.cells) for result in run.results),
        }


def test_partitions_without_new_records_cost_nothing(tmp_path: Path) -> None:
    few, many = (cost_of_three(tmp_path / str(count), count) for count in (3, 1000))
    assert many == few
    assert few["tasks that ran"] == few["task inputs"] == len({partition_for(b"key-%d" % n, TASKS) for n in range(3)})
    assert few["results of reading"] == 1


def test_small_partitions_reach_a_task_in_one_slice(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("in", 200)
        for number in range(2_000):
            log.produce("in", [ProducerRecord(b"%d" % number, b"v", 5)], partition=number % 200)
    with InProcessRun(counting(tmp_path, **{"num.tasks": 4})) as run:
        assert run.batch()
        inputs = [unpack(row.payload, TaskInput) for row in run.rows if row.kind == TASK_INPUT]
        assert [len(task_input.slices) for task_input in inputs] == [1, 1, 1, 1]
        assert sum(sum(part.counts) for task_input in inputs for part in task_input.slices) == 2_000
        assert sum(run.log.ends(["out"])["out"]) == 2_000


@pytest.mark.parametrize(
    ("partitions", "config", "tasks"),
    [(5, {}, 5), (1000, {}, MOST_TASKS), (1000, {"num.tasks": 100}, 100), (5, {"num.tasks": 100}, 100)],
)
def test_the_number_of_tasks_follows_the_partitions_up_to_a_limit(
    tmp_path: Path, partitions: int, config: dict[str, int], tasks: int
) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("in", partitions)
    app = counting(tmp_path, **config)
    application = PreparedApplication(app.topology(), app.config)
    application.close()
    assert application.program.tasks == tasks


# ----- tasks that do not run in every batch --------------------------------------------------------------------------

KEYS = {partition_for(key.encode(), 2): key for key in ("a", "b", "c", "d")}
"""A key of each of two tasks."""


def joining(directory: Path) -> App:
    """Concatenates the values of each key, in the order in which the task takes them."""
    app = App("joining", config={"state.dir": str(directory), "status": "none", "num.tasks": 2})
    left, right = app.stream("left", value=str), app.stream("right", value=str)
    left.merge(right).group_by_key().reduce(lambda before, value: before + value, store="seen")
    return app


def produce(directory: Path, topic: str, task: int, value: str, time: int) -> None:
    with open_log(directory) as log:
        log.create_topic(topic, exist_ok=True)
        log.produce(topic, [ProducerRecord(KEYS[task].encode(), value.encode(), time)])


@pytest.mark.parametrize("restart", [False, True])
def test_a_task_orders_by_the_time_of_records_that_came_while_it_did_not_run(tmp_path: Path, restart: bool) -> None:
    """A late record has the order position of the latest record of its partition, also if another task had that one."""
    produce(tmp_path, "left", 0, "-", 1)
    produce(tmp_path, "right", 1, "-", 1)
    app = joining(tmp_path)
    run = InProcessRun(app)
    assert run.batch()
    produce(tmp_path, "left", 0, "x", 100)
    assert run.batch()
    assert [result.number for result in run.results if result.number is not None] == [0]
    if restart:
        run.close()
        run = InProcessRun(joining(tmp_path))
    produce(tmp_path, "left", 1, "L", 50)
    produce(tmp_path, "right", 1, "R", 60)
    assert run.batch()
    run.close()
    assert app.store("seen").get(KEYS[1]) == "-RL"


def test_the_first_batch_after_a_start_runs_all_tasks(tmp_path: Path) -> None:
    """Only the tasks know whether they hold waiting records or wall-clock punctuators."""
    produce(tmp_path, "left", 0, "x", 1)
    produce(tmp_path, "right", 0, "x", 1)
    for _start in range(2):
        produce(tmp_path, "left", 0, "x", 1)
        with InProcessRun(joining(tmp_path)) as run:
            assert run.batch()
            assert [result.number for result in run.results if result.number is not None] == [0, 1]


def test_every_record_is_counted_whichever_batches_its_task_runs_in(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("in", 30)
        app = counting(tmp_path, **{"num.tasks": 7})
        expected: Counter[str] = Counter()
        with InProcessRun(app) as run:
            for number in range(60):
                keys = [f"{(number * step) % 23}" for step in (1, 5, 7)[: number % 3 + 1]]
                expected.update(keys)
                records = [ProducerRecord(key.encode(), b"v", number) for key in keys]
                log.produce("in", records, partition=number % 30)
                assert run.batch()
    assert dict(app.store("counts").all()) == expected


def test_every_reader_refuses_application_state_of_another_format(tmp_path: Path) -> None:
    produce(tmp_path, "in", 0, "x", 1)
    app = counting(tmp_path)
    with InProcessRun(app) as run:
        run.run()
        run.log.applications.set_state(Scope("counting"), {"format": b"1"}, run.application.epoch)
    readers: list[Callable[[], object]] = [
        lambda: InProcessRun(app),
        lambda: migrate(app),
        lambda: reset("counting", state_dir=str(tmp_path)),
    ]
    for read in readers:
        with pytest.raises(SetupError, match="written by another version of Millstream") as raised:
            read()
        assert raised.value.hint == "run or reset it with that version, or choose another application id"
