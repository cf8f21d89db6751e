"""Real-time execution on the embedded log, with workers as threads: crashes and kills change no result.

The application runs in children: see `tests.clean_children`.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from tests.clean_children import start, status_of
from tests.fault import model, real_time, smoke
from tests.fault.points import REAL_TIME

from millstream.core.failpoints import EXIT_STATUS
from millstream.log import open_log
from millstream.log.api import Scope

PER_KEY = 24
SEED = 7
KILLS = int(os.environ.get("KILLS", "8"))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("filled") / "data"
    smoke.fill(directory, SEED, PER_KEY, at_once=real_time.AT_ONCE)
    return directory


@pytest.fixture
def directory(filled: Path, tmp_path: Path) -> Path:
    """A data directory with the input, for one test."""
    return Path(shutil.copytree(filled, tmp_path / "data"))


def run(directory: Path, point: str | None = None, **config: Any) -> int:
    """Runs the application in a child to its end, or to a crash at a failpoint; returns the child's exit status."""
    return status_of(start(real_time.run_to_point, directory, point, config))


@contextlib.contextmanager
def running(directory: Path, **config: Any) -> Iterator[BaseProcess]:
    """Starts the application in a child; yields the child, and kills it at the end."""
    child = start(real_time.run_to_point, directory, None, config)
    try:
        yield child
    finally:
        child.kill()


def check(directory: Path) -> None:
    findings = model.verify(directory, SEED, PER_KEY)
    assert not findings, str(findings)


def published(directory: Path) -> int:
    """The number of publications of all workers."""
    with open_log(directory) as log:
        scopes = [Scope(smoke.APPLICATION, f"worker-{number}") for number in range(4)]
        return sum(0 if (last := log.applications.published(scope)) is None else last.batch + 1 for scope in scopes)


def wait_for_publications(directory: Path, count: int, is_alive: Callable[[], bool]) -> bool:
    """Waits for more publications of the workers; returns whether the child still runs."""
    wanted, deadline = published(directory) + count, time.monotonic() + 60
    while published(directory) < wanted:
        assert time.monotonic() < deadline, "there are no more publications"
        if not is_alive():
            return False
        time.sleep(0.001)
    return True


def test_a_run_without_a_crash_gives_the_expected_results(directory: Path) -> None:
    assert run(directory) == 0
    check(directory)


@pytest.mark.slow
@pytest.mark.parametrize("point", REAL_TIME)
def test_a_run_recovers_from_a_crash_at_any_failpoint(point: str, directory: Path) -> None:
    if point == "worker.restoring":  # nothing is restored at the first start
        assert run(directory, "worker.published:6") == EXIT_STATUS
    assert run(directory, point) == EXIT_STATUS, "no run reaches this failpoint"
    assert run(directory, f"{point}:7") in {EXIT_STATUS, 0}  # a later pass, if there are so many
    assert run(directory) == 0
    check(directory)


@pytest.mark.slow
def test_a_run_that_is_killed_at_random_times_gives_the_expected_results(directory: Path) -> None:
    dice, in_the_middle = random.Random(SEED), 0
    for _kill in range(KILLS):
        with running(directory) as child:
            in_the_middle += wait_for_publications(directory, dice.randint(1, 5), child.is_alive)
            time.sleep(dice.random() * 0.02)
        assert status_of(child) in {-signal.SIGKILL, 0}
    assert run(directory) == 0
    check(directory)
    assert in_the_middle > KILLS // 2, "too few kills were in the middle to prove anything"


@pytest.mark.slow
def test_the_number_of_workers_changes_between_runs(directory: Path) -> None:
    """The tasks move to other workers, and the publications of a worker go on or end."""
    for workers in (4, 2, 4, 1):
        assert run(directory, "worker.published:5", **{"num.workers": workers}) == EXIT_STATUS
    assert run(directory, None, **{"num.workers": 4}) == 0
    check(directory)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_an_application_that_was_stopped_and_taken_over_publishes_nothing(workers: int, directory: Path) -> None:
    """Also workers that the other instance, with two, does not have."""
    command = [sys.executable, "-m", real_time.__name__, str(directory), f"num.workers={workers}"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as first:
        try:
            assert wait_for_publications(directory, 3, lambda: first.poll() is None)
            stop_between_writes(directory, first.pid)
            (directory / "applications" / smoke.APPLICATION / "lock").unlink()  # as if it were on another machine
            assert run(directory, "worker.stored:3") == EXIT_STATUS
            ends = all_ends(directory)
            first.send_signal(signal.SIGCONT)
            assert b"FencedError" in first.communicate()[1]
            assert first.returncode == 1
        finally:
            first.kill()
    assert all_ends(directory) == ends
    assert run(directory) == 0
    check(directory)


def stop_between_writes(directory: Path, child: int) -> None:
    """Stops a child while it holds no lock of a database, which another machine would not notice."""
    for _attempt in range(1000):
        os.kill(child, signal.SIGSTOP)
        os.waitid(os.P_PID, child, os.WSTOPPED)
        if not any(map(is_locked, directory.rglob("*.db"))):
            return
        os.kill(child, signal.SIGCONT)
    raise AssertionError("it writes all the time")


def is_locked(database: Path) -> bool:
    with contextlib.closing(sqlite3.connect(database, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        connection.execute("ROLLBACK")
    return False


def all_ends(directory: Path) -> dict[str, list[int]]:
    with open_log(directory) as log:
        return log.ends([topic.name for topic in log.topics()])


def flip(file: Path) -> None:
    """Changes some bytes, those of the header of the file not among them."""
    data, dice = bytearray(file.read_bytes()), random.Random(file.name)
    for _byte in range(20 if len(data) > 200 else 0):
        data[dice.randrange(100, len(data))] ^= 0xFF
    file.write_bytes(data)


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [flip, truncate, Path.unlink, None])
def test_local_stores_that_are_damaged_lost_or_older_change_no_result(
    damage: Callable[[Path], None] | None, directory: Path, tmp_path: Path
) -> None:
    stores = directory / "applications" / smoke.APPLICATION / "workers"
    assert run(directory, "worker.stored:6") == EXIT_STATUS
    older = Path(shutil.copytree(stores, tmp_path / "older"))
    for _death in range(2):
        assert run(directory, "worker.stored:4") == EXIT_STATUS
        files = sorted(stores.glob("*"))
        assert files
        if damage is None:
            shutil.rmtree(stores)
            shutil.copytree(older, stores)
        else:
            for file in files:
                damage(file)
    assert run(directory) == 0
    check(directory)
