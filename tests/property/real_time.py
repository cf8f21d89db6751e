"""Runs generated cases in real-time mode, with workers in this process; see `test_real_time_replays`."""

from __future__ import annotations

import random
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

from tests.property.generation import Case, Input, Member
from tests.property.replaying import (
    PREFIXES,
    UNCUT,
    Results,
    append,
    application,
    compare_runs,
    compare_with_driver,
    fill,
    read_results,
    run_cut,
)

from millstream import App
from millstream.core.partitioning import partition_for
from millstream.errors import MillstreamError
from millstream.log import Log, open_log
from millstream.log.embedded.following import EmbeddedFollower
from millstream.runtime.real_time import publications, reading, task, worker

POINTS = (
    worker.POLLED,
    worker.PROCESSED,
    publications.HANDED_OVER,
    publications.PUBLISHED,
    publications.STORED,
    worker.RESTORED,
)


class Crash(Exception):  # noqa: N818  (it is no error)
    """Ends a worker at a failpoint."""


@dataclass(frozen=True)
class Start:
    """A run of the application between two starts.

    Attributes:
        workers: The number of workers.
        most: The most records that a worker reads at once.
        buffered: The number of buffered records of an input above which a worker stops to read it.
        point: The failpoint at which the run ends; None: it runs to its end.
        passes: The number of times that the point is reached before.
        crash: The worker ends there without a last publication. Otherwise the application stops.
    """

    workers: int
    most: int
    buffered: int
    point: str | None = None
    passes: int = 0
    crash: bool = False


def starts(seed: int) -> tuple[Start, ...]:
    """Returns random runs, the last of which runs to its end."""
    rng = random.Random(seed)

    def start(point: str | None) -> Start:
        most, buffered = rng.choice([1, 3, 10, 1000]), rng.choice([4, 20, 50_000])
        return Start(rng.choice([1, 2, 2, 3]), most, buffered, point, rng.randrange(12), rng.random() < 0.6)

    return (*(start(rng.choice(POINTS)) for _ in range(rng.randrange(4))), start(None))


def copartitioned(case: Case, count: int) -> Case:
    """The case with as many partitions of each topic as there are tasks."""
    return Case(tuple(_copartitioned(member, count) for member in case.members), count, UNCUT)


def _copartitioned(member: Member, count: int) -> Member:
    def moved(record: Input) -> Input:
        key = record.key
        number = record.partition % count if key is None else partition_for(key.encode(), count)
        return record._replace(partition=number)

    return replace(
        member, partitions=dict.fromkeys(member.partitions, count), records=tuple(map(moved, member.records))
    )


# ----- runs --------------------------------------------------------------------------------------------------------


def check_real_time(case: Case, runs: tuple[Start, ...]) -> None:
    """Runs a case, and asserts that its results are those of the driver and of micro-batches."""
    results = run_real_time(case, runs)
    differences = compare_with_driver(case, results)
    differences = differences or compare_runs(case, run_cut(case, UNCUT), results)
    assert not differences, "\n".join(differences)


def run_real_time(case: Case, runs: tuple[Start, ...]) -> list[Results]:
    """Runs a case whose records are all in the log before the start, each in a block of its own."""
    with tempfile.TemporaryDirectory() as directory:
        with open_log(directory) as log:
            fill(log, case, empty=True)
            _fill(log, case)
        for start in runs:
            run_application(partial(application, case, directory), start)
        return read_results(case, directory)


def _fill(log: Log, case: Case) -> None:
    for prefix, member in zip(PREFIXES, case.members, strict=False):
        for record in member.records:
            append(log, prefix, (record,))


def run_application(make: Callable[..., App], start: Start) -> None:
    """Runs an application until it has caught up, or until a worker reaches a failpoint.

    Args:
        make: Creates the application, with the given configuration.
        start: How it runs.
    """
    config = {"execution.mode": "local", "num.workers": start.workers, "commit.interval.ms": 5, "status": "none"}
    app = make(**config)
    with _limited(start), _ending(start) as reached:
        handle = app.start(until_caught_up=True)
        try:
            while not handle.wait(0.01) and not reached.is_set():
                pass
        except (Crash, MillstreamError):
            if not reached.is_set():
                raise
        with suppress(Crash, MillstreamError) if start.crash and reached.is_set() else ExitStack():
            handle.stop()


@contextmanager
def _limited(start: Start) -> Iterator[None]:
    """Limits the number of records that workers read at once, and that they buffer."""
    poll = EmbeddedFollower.poll

    def limited(follower: EmbeddedFollower, timeout: float) -> Any:
        return poll(follower, timeout, start.most)

    with (
        patch.object(EmbeddedFollower, "poll", limited),
        patch.object(reading, "_MOST_BUFFERED", start.buffered),
        patch.object(task, "_MOST_WAITING", start.buffered),
    ):
        yield


@contextmanager
def _ending(start: Start) -> Iterator[threading.Event]:
    """Ends the application where a worker reaches a failpoint. The event says that it was reached."""
    reached = threading.Event()
    left = start.passes
    lock = threading.Lock()

    def reach(point: str) -> None:
        nonlocal left
        if point != start.point:
            return
        with lock:
            left -= 1
            is_last = left < 0
        if is_last:
            reached.set()
            if start.crash:
                raise Crash

    with patch.object(worker, "reach", reach), patch.object(publications, "reach", reach):
        yield reached
