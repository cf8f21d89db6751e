"""Kills an application with connectors at each point of their loops, and at random moments, and checks its output."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.connect import pipeline
from tests.connect.plugins import rows_of
from tests.connect.waiting import wait_for

from millstream.core.failpoints import EXIT_STATUS
from millstream.log import open_log
from millstream.runtime.connectors import sink_task, source_task

POINTS = (source_task.READ, source_task.PUBLISHED, sink_task.READ, sink_task.WRITTEN)

FILES = "abc"
KEYS = 5


@contextlib.contextmanager
def running(directory: Path, servers: str | None = None, point: str = "") -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "MILLSTREAM_FAILPOINT": point}
    process = subprocess.Popen(
        [sys.executable, pipeline.__file__, str(directory), *([servers] if servers else [])],
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Feed:
    """Writes numbered lines to the files, in order."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "in"
        self.directory.mkdir()
        self.written: list[tuple[str, str]] = []
        for name in FILES:
            (self.directory / f"{name}.txt").touch()

    def write(self, count: int) -> None:
        for _ in range(count):
            number = len(self.written)
            name = FILES[number % len(FILES)]
            key = f"{name}{number % KEYS}"
            with (self.directory / f"{name}.txt").open("a") as file:
                file.write(f"{key}:{number}\n")
            self.written.append((key, str(number)))


def is_done(directory: Path, total: int) -> bool:
    return (directory / "rows.db").exists() and len(rows_of(directory / "rows.db")) >= 2 * total


def assert_exactly_once(directory: Path, feed: Feed, config: dict[str, str]) -> None:
    with open_log(directory / "data", config=config) as log:
        lines = defaultdict(list)
        for number, end in enumerate(log.ends(["lines"])["lines"]):
            table = log.read("lines", number, 0, end)
            for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True):
                lines[key.decode()].append(value.decode())
    expected = defaultdict(list)
    for key, value in feed.written:
        expected[key].append(value)
    assert lines == expected, "the topic has each line once, in the order of its key"
    values = defaultdict(list)
    for key, value in rows_of(directory / "rows.db"):
        values[key].append(value)
    assert values.keys() == expected.keys()
    for key, numbers in expected.items():
        assert [value for value in values[key] if isinstance(value, int)] == list(range(1, len(numbers) + 1))
        assert [value for value in values[key] if isinstance(value, str)] == numbers


def kill_often(directory: Path, points: Sequence[str], kills: int, servers: str | None = None) -> None:
    feed, chance = Feed(directory), random.Random(24)
    config = {"bootstrap.servers": servers} if servers else {}
    for point in points:
        with running(directory, servers, f"{point}:{chance.randint(2, 4)}") as process:
            while process.poll() is None:
                feed.write(5)
                time.sleep(0.05)
            assert process.returncode == EXIT_STATUS
    for _ in range(kills):
        with running(directory, servers) as process:
            before = len(rows_of(directory / "rows.db"))
            while len(rows_of(directory / "rows.db")) == before:
                assert process.poll() is None
                feed.write(3)
                time.sleep(0.05)
            time.sleep(chance.random() / 5)
            assert process.poll() is None
    with running(directory, servers):
        wait_for(lambda: is_done(directory, len(feed.written)), "all rows")
        time.sleep(0.3)  # a row too many would come now
    assert_exactly_once(directory, feed, config)
