"""Failpoints have no effect unless they are armed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from millstream.core import failpoints
from millstream.core.failpoints import EXIT_STATUS, arm, declare, reach
from millstream.errors import ConfigError

CODE = """
from millstream.core.failpoints import declare, reach
first, second = declare("example.first"), declare("example.second")
for turn in range(3):
    reach(first)
    print("first", turn, flush=True)
    reach(second)
    print("second", turn, flush=True)
"""


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = set(failpoints.FAILPOINTS)
    yield
    failpoints.FAILPOINTS.clear()
    failpoints.FAILPOINTS.update(before)
    arm(None)


def run(setting: str | None) -> tuple[int, list[str]]:
    environment = {key: value for key, value in os.environ.items() if key != "MILLSTREAM_FAILPOINT"}
    if setting is not None:
        environment["MILLSTREAM_FAILPOINT"] = setting
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


ALL = [f"{name} {turn}" for turn in range(3) for name in ("first", "second")]


@pytest.mark.parametrize(
    ("setting", "status", "lines"),
    [
        (None, 0, 6),
        ("", 0, 6),
        ("example.other", 0, 6),
        ("example.first", EXIT_STATUS, 0),
        ("example.second", EXIT_STATUS, 1),
        ("example.second:2", EXIT_STATUS, 3),
        ("example.first:3", EXIT_STATUS, 4),
        ("example.first:4", 0, 6),
    ],
)
def test_a_process_exits_at_the_armed_pass(setting: str | None, status: int, lines: int) -> None:
    assert run(setting) == (status, ALL[:lines])


def test_points_are_listed_and_declared_once() -> None:
    point = declare("example.point")
    assert point in failpoints.FAILPOINTS
    with pytest.raises(ConfigError, match=r"failpoint 'example\.point' is already declared"):
        declare("example.point")
    reach(point)


@pytest.mark.parametrize("setting", ["a:0", "a:x", "a:-1", "a:1:2"])
def test_an_invalid_number_of_passes_is_an_error(setting: str) -> None:
    with pytest.raises(ConfigError, match="number of passes"):
        arm(setting)
