"""An application that dies at any point, once or several times, ends with the results of one that never died.

The points come from the code: a new one is tried here, and the test fails if nothing passes it. No Spark is started:
see `millstream.runtime.in_process.batches` for what stands in for it.
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
    """A data directory of its own, with the input in it."""
    return Path(shutil.copytree(filled, tmp_path / "data"))


def run(directory: Path, point: str | None = None, *, cold: bool = False, **config: Any) -> int:
    """Runs the application in a child until it is done or dies at a point; returns the child's exit status."""

    def child() -> None:
        arm(point)
        with InProcessRun(smoke.build(directory, **config), records=RECORDS, cold=cold) as local:
            local.run()

    return in_child(child)


def check(directory: Path) -> None:
    findings = model.verify(directory, SEED, PER_KEY)
    assert not findings, str(findings)


def test_without_a_crash_the_results_are_those_of_the_model(directory: Path) -> None:
    assert run(directory) == 0
    check(directory)


def test_tasks_that_are_built_anew_for_each_batch_give_the_same(directory: Path) -> None:
    assert run(directory, cold=True) == 0
    check(directory)


@pytest.mark.parametrize("point", LOCAL)
def test_a_run_that_dies_at_a_point_ends_right(point: str, directory: Path) -> None:
    assert run(directory, point) == EXIT_STATUS, "nothing passes this point"
    for passes in (3, 8):  # later ones too, where it is passed so often
        assert run(directory, f"{point}:{passes}") in {EXIT_STATUS, 0}
    assert run(directory) == 0
    check(directory)


IN_BATCH = [point for point in LOCAL if not point.startswith(("start.", "log.acquire", "log.state", "log.topic"))]


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("seed", range(int(os.environ.get("RECOVERIES", "3"))))
def test_a_run_that_dies_again_while_it_recovers_ends_right(seed: int, depth: int, directory: Path) -> None:
    dice = random.Random(100 * depth + seed)
    first = f"{dice.choice(IN_BATCH)}:{dice.randint(2, 6)}"
    deaths = [first, *(dice.choice(LOCAL) for _ in range(depth))]
    for point in deaths:
        cold = dice.random() < 0.5
        assert run(directory, point, cold=cold) in {EXIT_STATUS, 0}, deaths
    assert run(directory) == 0
    check(directory)


def test_batches_that_were_published_before_the_crash_are_not_published_again(directory: Path) -> None:
    assert run(directory, "in-process.after-publish:4") == EXIT_STATUS
    with open_log(directory) as log:
        ends = log.ends([topic.name for topic in log.topics()])
    assert run(directory, "in-process.after-publish:1") == EXIT_STATUS
    with open_log(directory) as log:
        assert log.ends(list(ends)) == ends
    assert run(directory) == 0
    check(directory)
