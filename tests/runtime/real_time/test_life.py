"""The life of an application in workers: states, pause, time, errors, retention, other modes and resets."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.real_time.shops import numbers_of, records_of, wait_for

from millstream import App, Processor, Record, tumbling
from millstream.errors import ProcessingError, RunError, SetupError
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.admin import reset
from millstream.runtime.lifecycle import State
from millstream.runtime.real_time.comparison import compare_workers
from millstream.runtime.start.application_state import read_state

KEYS = [f"k{number}".encode() for number in range(10)]


def application(directory: Path, **config: Any) -> App:
    config = {"execution.mode": "local", "status": "none", **config}
    return App("life", config={"state.dir": str(directory), **config})


def counting(directory: Path, **config: Any) -> App:
    app = application(directory, **config)
    orders = app.stream("in", value=str)
    orders.group_by_key().count(store="counts").to_stream().to("counted", value=int)
    orders.group_by(lambda _value: "all").count(store="all").to_stream().to("all", value=int)
    return app


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path)
    log.create_topic("in", 2)
    return log


def produce(log: Log, *values: bytes) -> None:
    for value in values or (b"x",):
        for number, key in enumerate(KEYS):
            log.produce("in", [ProducerRecord(key, value, number)])


def test_the_states_of_a_run_and_of_a_failure(tmp_path: Path, log: Log) -> None:
    produce(log)
    states: list[State] = []
    counting(tmp_path).run(until_caught_up=True, on_state_change=lambda new, _old: states.append(new))
    assert states == [State.STARTING, State.RUNNING, State.PENDING_SHUTDOWN, State.NOT_RUNNING]
    states.clear()
    failing = App("failing", config={"state.dir": str(tmp_path), "execution.mode": "local", "status": "none"})
    failing.stream("in", value=str).map_values(int, value=int).to("numbers")
    with pytest.raises(ProcessingError, match=r"topic in, partition [01], offset 0"):
        failing.run(until_caught_up=True, on_state_change=lambda new, _old: states.append(new))
    assert states == [State.STARTING, State.RUNNING, State.PENDING_ERROR, State.ERROR]
    assert records_of(log, "numbers") == {}


def test_a_paused_application_processes_nothing_until_it_is_resumed(tmp_path: Path, log: Log) -> None:
    produce(log)
    with counting(tmp_path).start() as handle:
        wait_for(lambda: len(numbers_of(log, "all").get(b"all", [])) == len(KEYS))
        handle.pause()
        before = numbers_of(log, "all")
        produce(log)
        committed = log.ends(["life-progress.tasks"])
        wait_for(lambda: handle.metrics()["sources"]["in"]["lag"] == len(KEYS))
        assert numbers_of(log, "all") == before
        assert log.ends(["life-progress.tasks"]) == committed
        handle.resume()
        wait_for(lambda: len(numbers_of(log, "all")[b"all"]) == 2 * len(KEYS))


class Ticking(Processor[str, str, str, int]):
    """Forwards the time at each wall-clock punctuation."""

    def init(self) -> None:
        self.context.schedule("20ms", "wall", self.tick)

    def tick(self, now: int) -> None:
        self.context.forward(Record("tick", now, now))

    def process(self, record: Record[str, str]) -> None:
        pass


def test_wall_clock_punctuators_and_idle_windows_need_no_records(tmp_path: Path, log: Log) -> None:
    produce(log)
    app = application(tmp_path)
    stream = app.stream("in", value=str)
    stream.process(Ticking, key=str, value=int).to("ticks")
    windows = stream.group_by_key().windowed_by(tumbling(1_000, idle="1s"), emit="close")
    windows.count(store="windows").to_stream(lambda key, _count: key.key).to("closed", key=str, value=int)
    with app.start():
        wait_for(lambda: len(numbers_of(log, "ticks").get(b"tick", [])) > 5)
        wait_for(lambda: numbers_of(log, "closed") == {key: [1] for key in KEYS})


def test_errors_go_to_handlers_and_dead_letters_and_drops_are_counted(tmp_path: Path, log: Log) -> None:
    produce(log, b"1", b"x")
    options = {"processing.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "letters"}
    app = application(tmp_path, **options)
    app.stream("in", value=str).map_values(int, value=int).to("numbers")
    handle = app.start(until_caught_up=True)
    handle.wait()
    assert numbers_of(log, "numbers") == {key: [1] for key in KEYS}
    assert records_of(log, "letters") == {key: [b"x"] for key in KEYS}
    assert sum(handle.metrics()["dropped"].values()) == len(KEYS)


def delete_read(log: Log) -> None:
    """Deletes all records but the last one of each partition."""
    last = {("in", number): end - 1 for number, end in enumerate(log.ends(["in"])["in"])}
    assert log.cleanup is not None
    log.cleanup.hold("life", last)
    log.delete_records(last)


def test_another_mode_is_refused_with_the_remedy(tmp_path: Path, log: Log) -> None:
    produce(log)
    counting(tmp_path).run(until_caught_up=True)
    with pytest.raises(SetupError, match=r"has run with execution\.mode=real_time") as raised:
        counting(tmp_path, **{"execution.mode": "micro_batch"}).run(until_caught_up=True)
    assert "millstream reset" in (raised.value.hint or "")


def test_a_reset_deletes_all_state_of_the_mode(tmp_path: Path, log: Log) -> None:
    produce(log)
    counting(tmp_path).run(until_caught_up=True)
    assert (tmp_path / "applications" / "life" / "workers").exists()
    steps = reset("life", state_dir=str(tmp_path))
    assert any("workers" in step for step in steps)
    assert [topic.name for topic in log.topics() if topic.name.startswith("life-")] == []
    assert not (tmp_path / "applications" / "life" / "workers").exists()
    counting(tmp_path).run(until_caught_up=True)
    assert numbers_of(log, "counted") == {key: [1, 1] for key in KEYS}


def test_a_restart_after_retention_has_deleted_what_was_read(tmp_path: Path, log: Log) -> None:
    produce(log)
    counting(tmp_path).run(until_caught_up=True)
    delete_read(log)
    repartition = "life-all-repartition"
    log.delete_records({(repartition, number): end for number, end in enumerate(log.ends([repartition])[repartition])})
    produce(log)
    counting(tmp_path).run(until_caught_up=True)
    assert numbers_of(log, "counted") == {key: [1, 2] for key in KEYS}


def test_a_topology_may_change_and_its_comparison_is_that_of_the_start(tmp_path: Path, log: Log) -> None:
    produce(log)
    counting(tmp_path, **{"input.partitioning": "repartition"}).run(until_caught_up=True)
    app = application(tmp_path)
    app.stream("in", value=str).group_by_key().count(store="counts").to_stream().to("counted", value=int)
    comparison = compare_workers(app.topology(), app.config, read_state(log, "life"), log, "")
    assert comparison.compatible
    assert comparison.names("lost") == ["all"]
    produce(log)
    app.run(until_caught_up=True)
    assert numbers_of(log, "counted") == {key: [1, 2] for key in KEYS}


def test_a_function_that_does_not_return_is_named(tmp_path: Path, log: Log) -> None:
    produce(log)
    released = threading.Event()

    def stuck(value: str) -> str:
        released.wait()
        return value

    app = application(tmp_path, **{"task.timeout.ms": 300})
    app.stream("in", value=str).map_values(stuck).to("out")
    with pytest.raises(RunError, match=r"task 0_[01]: stuck .* has not returned for 300 ms"):
        app.run(until_caught_up=True)
    released.set()
