"""Runs applications and raw Spark queries for the benchmarks, and watches their progress."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measuring import Progress, medians

from millstream import App
from millstream.config import Config
from millstream.log import Log, Scope, open_log
from millstream.runtime.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from millstream.runtime.handle import Handle

APPLICATION = "bench"
MAINTENANCE = {"spark.sql.streaming.stateStore.maintenanceInterval": "15s"}
"""So that a run of some minutes includes Spark's maintenance. It applies to all queries alike."""

_COMPILER = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"}
"""Java's default. Raw Spark has much to compile; applications start Java with the quick compiler (C1) only."""

_POLL = 0.002
_TIMEOUT = 1800.0
_ENDING = 20.0


class Bench:
    """The setting that all cases share.

    Args:
        directory: Where all is kept; each case has a directory of its own in it.
        scale: How large the cases are: 1 for the sizes that figures are asked for.
        tasks: How many tasks, and partitions of each topic.
    """

    def __init__(self, directory: Path, scale: float, tasks: int) -> None:
        self.directory = directory
        self.scale = scale
        self.tasks = tasks
        self._raw: bool | None = None

    def size(self, full: int, least: int = 1) -> int:
        """Returns a size at the scale of this run."""
        return max(least, int(full * self.scale))

    def session(self) -> SparkSession:
        """Returns a session in a JVM as applications start it."""
        return self._java(raw=False)

    def raw_session(self) -> SparkSession:
        """Returns a session for a raw Spark query: the same settings, and Java's default compilers."""
        return self._java(raw=True)

    def _java(self, *, raw: bool) -> SparkSession:
        """Starts a new JVM for each side, so that neither profits from code that the other compiled."""
        if self._raw is not raw:
            _stop_java()
            self._raw = raw
        return open_session(Config({**MAINTENANCE, **(_COMPILER if raw else {})}), self.directory)[0]

    def app(self, directory: Path, **config: Any) -> App:
        """Returns an application with a data directory."""
        if self._raw:
            self.session()
        settings = {"state.dir": str(directory), "status": "none", "num.tasks": self.tasks, **MAINTENANCE, **config}
        return App(APPLICATION, config=settings)

    @contextlib.contextmanager
    def data(self, name: str) -> Iterator[tuple[Path, Log]]:
        """Yields a new directory and the log in it; both are deleted afterwards."""
        directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.directory))
        try:
            with open_log(directory) as log:
                yield directory, log
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def raw_directory(self, name: str) -> Path:
        """Yields a new directory for a raw Spark query."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-raw-", dir=self.directory))


def _stop_java() -> None:
    from pyspark import SparkContext  # noqa: PLC0415  (it takes a second)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkSession.active().stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # Java exits when its stdin closes
    try:
        gateway.proc.wait(_ENDING)
    except subprocess.TimeoutExpired:  # background work of RocksDB can block the exit
        gateway.proc.kill()
        gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None


class Watch:
    """Watches a running application: its committed offsets and the phases of its batches.

    Args:
        handle: The application.
        log: Its log.
        topics: The input topics that count.
    """

    def __init__(self, handle: Handle, log: Log, topics: Iterable[str]) -> None:
        self._handle = handle
        self._log = log
        self._topics = set(topics)
        self._first = self._done()

    def until(self, records: int) -> Progress:
        """Waits until a number of records has been read; takes one sample per batch."""
        progress = Progress()
        seen = published_batches(self._log)
        last = time.perf_counter()
        deadline = last + _TIMEOUT
        if self._done() - self._first >= records:  # there may be no further batch
            return progress
        while True:
            if published_batches(self._log) == seen:
                if time.perf_counter() > deadline or self._handle.state.is_over:
                    self._handle.wait(0.0)
                    raise SystemExit("the application makes no progress")
                time.sleep(_POLL)
                continue
            seen = published_batches(self._log)
            done = self._done() - self._first
            progress.add(done)
            now = time.perf_counter()
            while (figures := self._handle.metrics())["last_batch"] < seen - 1:  # it is published, and not counted yet
                time.sleep(_POLL)
            figures = figures["phases"]
            rest = now - last - figures["spark"] - figures["commit"]
            progress.phases.append({**_milliseconds(figures), "between": max(0.0, rest * 1000)})
            last = now
            if done >= records:
                return progress

    def _done(self) -> int:
        published = self._log.applications.published(Scope(APPLICATION))
        offsets = {} if published is None else published.offsets
        return sum(offset for (topic, _partition), offset in offsets.items() if topic in self._topics)


def published_batches(log: Log) -> int:
    """Returns the number of batches that the application has published."""
    published = log.applications.published(Scope(APPLICATION))
    return 0 if published is None else published.batch + 1


def _milliseconds(figures: dict[str, float]) -> dict[str, float]:
    return {name: seconds * 1000 for name, seconds in figures.items()}


def phases(progress: Progress, skip: int = 0) -> dict[str, float]:
    """Returns the median of each phase in milliseconds.

    ``spark`` is the job: reading, tasks, state; ``engine`` the longest task in it; ``commit`` the publication;
    ``between`` what passes from the commit to the next job: Spark's own commit and log, and the planning.
    """
    return medians(progress.phases[skip:])


def check_count(log: Log, topic: str, expected: int) -> None:
    """Exits if a topic does not have the expected number of records: a fast wrong answer is not a result."""
    count = sum(log.ends([topic])[topic])
    if count != expected:
        raise SystemExit(f"topic {topic!r} has {count} records, not {expected}")


def checkpoint_of(directory: Path) -> Path:
    """Returns the checkpoint in a data directory."""
    return next(path.parent for path in directory.rglob("checkpoint/metadata"))


def tree_size(directory: Path) -> tuple[int, int]:
    """Returns the number of bytes and files in a directory."""
    size = files = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file():
                size += path.stat().st_size
                files += 1
    return size, files
