"""Small parts of the runtime: pacing, slots, lifecycle, control, printed output."""

from __future__ import annotations

import gc
import logging
import sys
import threading
from pathlib import Path

import pytest

from millstream.runtime.batches.control import Control, PlannerSettings
from millstream.runtime.batches.pacing import Pacing
from millstream.runtime.lifecycle import Lifecycle, State
from millstream.runtime.spark.slots import slots, spark_hash
from millstream.runtime.user_code.timeouts import Watchdog
from millstream.runtime.user_code.user_output import capture_output


def test_batches_shrink_when_they_take_too_long_and_grow_when_they_are_quick() -> None:
    pacing = Pacing(target_ms=500, least=100, most=50_000)
    pacing.learn(10_000, 5.0, 4.9)
    assert pacing.records == 5_000
    for _ in range(10):
        pacing.learn(pacing.records, 0.1, 0.09)
    assert pacing.records == 50_000
    for _ in range(20):
        pacing.learn(pacing.records, 60.0, 59.9)
    assert pacing.records == 100


def test_a_small_batch_does_not_change_the_limit() -> None:
    pacing = Pacing(target_ms=500, least=100, most=50_000)
    before = pacing.records
    pacing.learn(3, 0.3, 0.01)
    assert pacing.records == before


@pytest.mark.parametrize("measured", [0.3, 0.6, 1.0])
@pytest.mark.parametrize(("fixed", "seconds"), [(0.1, 0.5), (0.4, 1.2), (2.0, 6.0)])
def test_the_fixed_cost_of_a_batch_is_not_attributed_to_its_records(
    fixed: float, seconds: float, measured: float
) -> None:
    """The result does not depend on the share of the work that is measured."""
    per_record = 50e-6
    pacing = Pacing(target_ms=500, least=100, most=1_000_000)
    pacing.learn(10, fixed + 0.0005, 0.0005)
    for _ in range(40):
        pacing.learn(pacing.records, fixed + pacing.records * per_record, pacing.records * per_record * measured)
    assert fixed + pacing.records * per_record == pytest.approx(seconds, rel=0.15)


def test_batches_stay_large_if_the_fixed_cost_rises() -> None:
    pacing = Pacing(target_ms=500, least=100, most=1_000_000)
    for fixed in (*[0.2] * 10, *[2.0] * 40):
        pacing.learn(pacing.records, fixed + pacing.records * 20e-6, pacing.records * 15e-6)
    assert 2.0 + pacing.records * 20e-6 == pytest.approx(6.0, rel=0.2)


def test_batches_are_not_small_while_the_jvm_warms_up() -> None:
    pacing = Pacing(target_ms=500, least=100, most=1_000_000)
    for fixed in (4.0, 2.0, 1.5, 1.0, 0.5, 0.4, 0.3, *[0.2] * 20):
        pacing.learn(pacing.records, fixed + pacing.records * 20e-6, pacing.records * 20e-6)
        assert pacing.records >= 10_000
    assert pacing.records == pytest.approx(20_000, rel=0.15)


@pytest.mark.parametrize(("unread", "seconds"), [(0, 0.5), (100_000, 0.5), (400_000, 1.0), (10_000_000, 2.0)])
def test_batches_are_longer_while_there_is_a_backlog(unread: int, seconds: float) -> None:
    pacing = Pacing(target_ms=500, least=100, most=1_000_000)
    pacing.learn(10, 0.1005, 0.0005)
    for _ in range(40):
        pacing.learn(pacing.records, 0.1 + pacing.records * 20e-6, pacing.records * 20e-6, unread=unread)
    assert 0.1 + pacing.records * 20e-6 == pytest.approx(seconds, rel=0.15)


def test_the_limit_in_bytes_reduces_the_number_of_large_records() -> None:
    pacing = Pacing(target_ms=500, least=1_000, most=500_000, most_bytes=64_000_000, each=100_000)
    assert pacing.records == 640  # less than the minimum
    for _ in range(20):
        pacing.learn(pacing.records, 0.2, 0.01, size=pacing.records * 1_000)
    assert pacing.records == pytest.approx(64_000, rel=0.01)
    pacing.learn(64_000, 0.2, 0.01, size=64_000 * 10_000)
    assert pacing.records == 6_400  # at once
    for _ in range(20):
        pacing.learn(pacing.records, 0.2, 0.01, size=pacing.records * 50)
    assert pacing.records == 500_000
    pacing.learn(0, 0.2, 0.0, size=0)
    assert pacing.records == 500_000


@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 24, 48])
def test_slots_distribute_tasks_evenly_to_the_partitions_of_spark(partitions: int) -> None:
    assert [spark_hash(slot) % partitions for slot in slots(48)] == [task % partitions for task in range(48)]


def test_more_tasks_than_the_modulus_have_slots_of_their_own() -> None:
    task_slots = slots(2883)
    assert len(set(task_slots)) == 2883
    assert spark_hash(task_slots[2881]) % 2880 == 1


def test_an_invalid_state_transition_is_ignored() -> None:
    life = Lifecycle()
    seen: list[tuple[State, State]] = []
    life.listen(lambda new, old: seen.append((new, old)))
    assert not life.change(State.RUNNING)
    assert life.change(State.STARTING)
    assert life.change(State.RUNNING)
    assert life.change(State.PENDING_SHUTDOWN)
    assert not life.change(State.RUNNING)
    assert life.change(State.NOT_RUNNING)
    assert not life.change(State.ERROR)
    assert [new for new, _ in seen] == [State.STARTING, State.RUNNING, State.PENDING_SHUTDOWN, State.NOT_RUNNING]


def test_listeners_are_called_in_order_whichever_thread_changes_the_state() -> None:
    life = Lifecycle()
    seen: list[State] = []
    others: list[threading.Thread] = []

    def slow(new: State, _old: State) -> None:
        if new is State.STARTING:  # meanwhile another thread changes the state
            others.append(threading.Thread(target=life.change, args=[State.PENDING_SHUTDOWN]))
            others[0].start()
            assert life.wait(lambda state: state is State.PENDING_SHUTDOWN, 10)
        seen.append(new)

    life.listen(slow)
    life.change(State.STARTING)
    others[0].join()
    life.change(State.NOT_RUNNING)
    assert seen == [State.STARTING, State.PENDING_SHUTDOWN, State.NOT_RUNNING]


def test_a_failing_listener_does_not_stop_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    life = Lifecycle()
    seen: list[State] = []
    life.listen(lambda _new, _old: fail())
    life.listen(lambda new, _old: seen.append(new))
    life.change(State.STARTING)
    life.change(State.PENDING_ERROR)
    life.change(State.ERROR)
    assert seen == [State.STARTING, State.PENDING_ERROR, State.ERROR]
    messages = capsys.readouterr().err
    assert "a listener failed at the change to PENDING_ERROR" in messages
    assert "TimeoutError: the step's own" in messages


def test_settings_reach_the_planner(tmp_path: Path) -> None:
    driver, planner = Control(tmp_path / "control"), Control(tmp_path / "control")
    driver.write(PlannerSettings(5, until={"a": [1, 2]}))
    assert planner.read() == PlannerSettings(5, until={"a": [1, 2]})
    driver.write(PlannerSettings(7, paused=True, due=12))
    assert planner.read() == PlannerSettings(7, paused=True, due=12)


def test_printed_and_logged_lines_are_collected() -> None:
    lines: list[str] = []
    with capture_output(lines):
        print("one\ntwo")
        print("three", end="")
        print("err", file=sys.stderr)
        handler = logging.StreamHandler()
        logger = logging.Logger("user")  # noqa: LOG001  (not a logger of the process)
        logger.addHandler(handler)
        logger.warning("logged")
    assert lines == ["one", "two", "threeerr", "logged"]


def test_a_watchdog_runs_all_calls_in_one_thread_that_ends_with_it() -> None:
    watchdog = Watchdog(10_000)
    threads = {watchdog.run("step", threading.current_thread) for _ in range(3)}
    assert len(threads) == 1
    assert threads != {threading.current_thread()}
    with pytest.raises(TimeoutError, match="the step's own"):
        watchdog.run("step", fail)
    assert not watchdog.is_stuck
    del watchdog
    gc.collect()  # the traceback of the error refers to the watchdog
    (thread,) = threads
    thread.join(10)
    assert not thread.is_alive()


def fail() -> None:
    raise TimeoutError("the step's own")


def test_the_driver_reads_each_reported_retry_once_and_complete(tmp_path: Path) -> None:
    driver, worker = Control(tmp_path / "control.json"), Control(tmp_path / "control.json")
    assert driver.read_retries() == []
    worker.report_retry("task 0: its process ended")
    worker.report_retry("two\nlines")
    assert driver.read_retries() == ["task 0: its process ended", "two lines"]
    assert driver.read_retries() == []
    with (tmp_path / "control.retries").open("a") as file:
        file.write("half a ")
        file.flush()
        assert driver.read_retries() == []
        file.write("line\n")
    assert driver.read_retries() == ["half a line"]
    driver.clear()
    worker.report_retry("after a new start")
    assert driver.read_retries() == ["after a new start"]
    Control(tmp_path / "of another machine" / "control.json").report_retry("this is not read")
