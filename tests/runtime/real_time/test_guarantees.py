"""The guarantees of ``processing.guarantee`` in workers: processes are killed at named points, and records counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.clean_children import start, status_of
from tests.runtime.real_time.guarded import KEYS, guarded, record, run_to_point
from tests.runtime.real_time.shops import numbers_of, wait_for

from millstream.core.failpoints import EXIT_STATUS
from millstream.log import Log, open_log
from millstream.runtime.real_time.task_record import topic_of

POINTS = ("worker.polled", "worker.processed", "worker.handed-over", "worker.published", "worker.stored")


def run_killed(directory: Path, guarantee: str, point: str) -> None:
    """Runs the application in a process that writes its input one by one, and is killed at a point."""
    assert status_of(start(run_to_point, directory, guarantee, point)) == EXIT_STATUS


def produced(log: Log) -> int:
    return log.ends(["in"])["in"][0]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with open_log(tmp_path) as log:
        log.create_topic("in", 1)
    return tmp_path


def copies(log: Log) -> Counter[int]:
    return Counter(value for values in numbers_of(log, "out").values() for value in values)


@pytest.mark.parametrize("point", POINTS)
def test_exactly_once_loses_and_doubles_nothing(directory: Path, point: str) -> None:
    for passes in (3, 9):
        run_killed(directory, "exactly_once", f"{point}:{passes}")
    guarded(directory, "exactly_once").run(until_caught_up=True)
    log = open_log(directory)
    numbers = range(produced(log))
    assert copies(log) == Counter(numbers)
    expected = {str(key).encode(): list(range(1, len(numbers[key::KEYS]) + 1)) for key in range(KEYS)}
    expected = {key: counts for key, counts in expected.items() if counts}
    assert numbers_of(log, "counted") == expected
    assert numbers_of(log, "moved") == expected


@pytest.mark.parametrize("point", [*POINTS, "worker.sent"])
def test_at_least_once_loses_nothing(directory: Path, point: str) -> None:
    run_killed(directory, "at_least_once", f"{point}:5")
    guarded(directory, "at_least_once").run(until_caught_up=True)
    log = open_log(directory)
    assert set(copies(log)) == set(range(produced(log)))
    for topic in ("counted", "moved"):
        for key, counts in numbers_of(log, topic).items():
            assert counts[-1] >= len(range(produced(log))[int(key or b"") :: KEYS])


@pytest.mark.parametrize("point", POINTS)
def test_at_most_once_doubles_nothing(directory: Path, point: str) -> None:
    run_killed(directory, "at_most_once", f"{point}:5")
    guarded(directory, "at_most_once").run(until_caught_up=True)
    log = open_log(directory)
    assert set(copies(log).values()) <= {1}
    for topic in ("counted", "moved"):
        for key, counts in numbers_of(log, topic).items():
            assert counts == sorted(set(counts)), "a count was written twice"
            assert counts[-1] <= len(range(produced(log))[int(key or b"") :: KEYS])


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_without_a_crash_each_record_is_processed_once(directory: Path, guarantee: str) -> None:
    log = open_log(directory)
    log.produce("in", [record(number) for number in range(100)])
    guarded(directory, guarantee).run(until_caught_up=True)
    log.produce("in", [record(number) for number in range(100, 200)])
    guarded(directory, guarantee).run(until_caught_up=True)
    assert copies(log) == Counter(range(200))
    assert sum(map(len, numbers_of(log, "counted").values())) == 200
    assert sum(map(len, numbers_of(log, "moved").values())) == 200


def test_at_least_once_results_are_visible_before_the_commit(directory: Path) -> None:
    log = open_log(directory)
    app = guarded(directory, "at_least_once", **{"commit.interval.ms": 10_000})
    with app.start():
        tasks = log.ends([topic_of("guarded")])
        log.produce("in", [record(0)])
        wait_for(lambda: bool(copies(log)))
        assert log.ends([topic_of("guarded")]) == tasks
