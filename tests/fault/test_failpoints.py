"""An application that crashes at any failpoint, once or several times, gives the results of a run without a crash.

The failpoints are collected from the code. The test fails for a failpoint that no run reaches. The application runs
without Spark: see `millstream.runtime.in_process.batches`.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.fault import model, smoke
from tests.fault.points import LOCAL
from tests.unit.log.helpers import in_child

from millstream.core.failpoints import EXIT_STATUS, arm
from millstream.log import open_log
from millstream.runtime.in_process.batches import InProcessRun

PER_KEY = 24
RECORDS = 150
SEED = 7


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("filled") / "data"
    smoke.fill(directory, SEED, PER_KEY)
    return directory


@pytest.fixture
def directory(filled: Path, tmp_path: Path) -> Path:
    """A data directory with the input, for one test."""
    return Path(shutil.copytree(filled, tmp_path / "data"))


def run(directory: Path, point: str | None = None, *, cold: bool = False, **config: Any) -> int:
    """Runs the application in a child to its end, or to a crash at a failpoint; returns the child's exit status."""

    def child() -> None:
        arm(point)
        with InProcessRun(smoke.build(directory, **config), records=RECORDS, cold=cold) as local:
            local.run()

    return in_child(child)


def check(directory: Path) -> None:
    findings = model.verify(directory, SEED, PER_KEY)
    assert not findings, str(findings)


def test_a_run_without_a_crash_gives_the_expected_results(directory: Path) -> None:
    assert run(directory) == 0
    check(directory)


def test_tasks_that_are_loaded_again_for_each_batch_give_the_expected_results(directory: Path) -> None:
    assert run(directory, cold=True) == 0
    check(directory)


@pytest.mark.slow
@pytest.mark.parametrize("point", LOCAL)
def test_a_run_recovers_from_a_crash_at_any_failpoint(point: str, directory: Path) -> None:
    assert run(directory, point) == EXIT_STATUS, "no run reaches this failpoint"
    assert run(directory, f"{point}:4") in {EXIT_STATUS, 0}  # a later pass, if there are so many
    assert run(directory) == 0
    check(directory)


IN_BATCH = [point for point in LOCAL if not point.startswith(("start.", "log.acquire", "log.state", "log.topic"))]


@pytest.mark.slow
@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("seed", range(int(os.environ.get("RECOVERIES", "3"))))
def test_a_run_recovers_from_crashes_during_recovery(seed: int, depth: int, directory: Path) -> None:
    dice = random.Random(100 * depth + seed)
    first = f"{dice.choice(IN_BATCH)}:{dice.randint(2, 6)}"
    crashes = [first, *(dice.choice(LOCAL) for _ in range(depth))]
    for point in crashes:
        cold = dice.random() < 0.5
        assert run(directory, point, cold=cold) in {EXIT_STATUS, 0}, crashes
    assert run(directory) == 0
    check(directory)


def test_batches_published_before_a_crash_are_not_published_again(directory: Path) -> None:
    assert run(directory, "in-process.after-publish:4") == EXIT_STATUS
    with open_log(directory) as log:
        ends = log.ends([topic.name for topic in log.topics()])
    assert run(directory, "in-process.after-publish:1") == EXIT_STATUS
    with open_log(directory) as log:
        assert log.ends(list(ends)) == ends
    assert run(directory) == 0
    check(directory)
