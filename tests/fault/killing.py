"""Starts the application of `smoke` as processes of its own, looks at what they do, and kills them."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.fault import model, smoke
from tests.fault.points import KAFKA, SPARK
from tests.processes import Process, running

from millstream.core.failpoints import EXIT_STATUS

GONE_SECONDS = 15.0
"""No process of an application may be left longer than this after its end."""

DRIVER_POINTS = ["driver.batch.received", "driver.batch.published"]
WORKER_POINTS = [*SPARK, "host.batch.after-run", "reader.after-read"]
"""Those of which Spark is started: all that only Spark passes, and one of each process."""

MARK = "MILLSTREAM_FAULT_TEST"
"""The name in the environment of all processes that come of one start."""

_PATIENCE = 600.0
_OPTIONS = ("--batch", "600")
LAST = ("--batch", "6000")
"""For an instance that nobody kills: what it gives does not depend on how large its batches are."""

_LONG = 2400.0


class Instance:
    """One start of the application. All processes that come of it carry a mark in their environment.

    Args:
        directory: Its data directory.
        *options: Of the script.
        point: A failpoint.
    """

    def __init__(self, directory: Path, *options: str, point: str | None = None) -> None:
        self.directory = directory
        self.mark = uuid.uuid4().hex
        self.checkpoint = directory / "applications" / smoke.APPLICATION / "checkpoint"
        self.log = directory / "applications" / smoke.APPLICATION / "spark.log"
        environment = {key: value for key, value in os.environ.items() if key != "MILLSTREAM_FAILPOINT"}
        environment[MARK] = self.mark
        if point is not None:
            environment["MILLSTREAM_FAILPOINT"] = point
        self.point = point
        self._lost_before = 0
        self._lost_before = self.lost_tasks()
        self.first = self.last("commits")
        self.started = time.monotonic()
        self.said = directory.parent / f"said-{self.mark}"
        with self.said.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, smoke.__file__, str(directory), *options],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        _signal(self.processes(), signal.SIGKILL)
        self.process.wait()

    # ----- looking ---------------------------------------------------------------------------------------------

    def last(self, kind: str) -> int:
        """The greatest number in a folder of the checkpoint: of batches that were begun (offsets) or done (commits)."""
        folder = self.checkpoint / kind
        return max((int(path.name) for path in folder.glob("*") if path.name.isdigit()), default=-1)

    @property
    def done(self) -> int:
        """How many batches this instance has done."""
        return self.last("commits") - self.first

    @property
    def in_batch(self) -> bool:
        """Whether it is in the middle of a batch that it has begun itself."""
        return self.done > 0 and self.last("offsets") > self.last("commits")

    def processes(self, *words: str) -> list[int]:
        """The processes that came of this instance and still run, of those whose command has all of some words."""
        return processes(self.mark, *words)

    def lost_tasks(self) -> int:
        """How many attempts of tasks Spark has seen fail in this instance."""
        return self._logged("Lost task") - self._lost_before

    def deaths(self) -> int:
        """How many tasks were run again: by Spark, or by a worker whose task host had ended."""
        told = self.checkpoint.parent / "control.retries"
        again = told.read_text(encoding="utf-8").count("its process ended") if told.exists() else 0
        return self.lost_tasks() + again

    def lost_executors(self) -> int:
        """How many executors Spark has ever lost."""
        return self._logged("Lost executor")

    def _logged(self, words: str) -> int:
        return self.log.read_text(encoding="utf-8").count(words) if self.log.exists() else 0

    # ----- waiting ---------------------------------------------------------------------------------------------

    def wait_for(self, condition: Callable[[], bool], what: str, patience: float = _PATIENCE) -> None:
        """Waits until something holds, and fails if the application ends before that."""
        deadline = time.monotonic() + patience
        while not condition():
            assert self.process.poll() is None, f"it ended ({self.process.returncode}) before {what}: {self.output()}"
            assert time.monotonic() < deadline, f"waited in vain for {what}: {self.output()}"
            time.sleep(0.02)

    def wait_for_batches(self, count: int) -> None:
        """Waits until it has done so many more batches."""
        wanted = self.last("commits") + count
        self.wait_for(lambda: self.last("commits") >= wanted, f"{count} more batches")

    def wait(self, patience: float = _PATIENCE) -> int:
        """Waits for its end; returns its exit status."""
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end: {self.output()}") from None

    def output(self) -> str:
        """What it said, the end of it."""
        return self.said.read_text(encoding="utf-8")[-2000:]

    def seconds_until_gone(self) -> float:
        """Waits until none of its processes is left; returns how long that took."""
        return wait_until_gone(self.mark)

    # ----- killing ---------------------------------------------------------------------------------------------

    def kill(self, *, java: bool) -> bool:
        """Kills the driver, alone or with its Java half; returns whether that was in the middle of a batch.

        Both are stopped first, so that what the checkpoint says is what there was at that moment.
        """
        halves = [self.process.pid, *self.processes("java", "SparkSubmit")]
        _signal(halves, signal.SIGSTOP)
        in_batch = self.in_batch
        _signal(halves[:1], signal.SIGKILL)
        _signal(halves[1:], signal.SIGKILL if java else signal.SIGCONT)
        self.process.wait()
        return in_batch


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    """Some may be gone: what Java starts looks like Java for a moment."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def processes(mark: str, *words: str) -> list[int]:
    """The processes that have a mark and still run, of those whose command has all of some words."""
    return [process.pid for process in _marked(mark) if all(word in process.command for word in words)]


def _marked(mark: str) -> list[Process]:
    return [process for process in running().values() if f"{MARK}={mark}" in process.environment]


def wait_until_gone(mark: str) -> float:
    """Waits until no process with a mark is left; returns how long that took."""
    started = time.monotonic()
    while left := _marked(mark):
        waited = time.monotonic() - started
        assert waited < GONE_SECONDS, f"still there after {waited:.0f} s: {[one.command[:200] for one in left]}"
        time.sleep(0.05)
    return time.monotonic() - started


# ----- rounds of kills ---------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What became of a number of kills."""

    kills: int = 0
    in_batch: int = 0
    early: int = 0
    points: int = 0
    starts: int = 0
    until_gone: list[float] = field(default_factory=list)
    until_going: list[float] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """How many of the kills were in the middle of a batch, of those that were meant to be."""
        return self.in_batch / max(1, self.kills - self.early)

    def figures(self) -> dict[str, Any]:
        """The figures, for people."""
        return {
            "kills": self.kills,
            "in the middle of a batch": self.in_batch,
            "while it started": self.early,
            "lives with deaths at a failpoint": self.points,
            "starts": self.starts,
            "seconds until no process was left, at most": round(max(self.until_gone, default=0.0), 1),
            "seconds from start to first batch done, median": round(_median(self.until_going), 1),
            "seconds from start to first batch done, at most": round(max(self.until_going, default=0.0), 1),
            "wrong": self.findings,
        }


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


def kill_and_restart(
    directory: Path,
    seed: int,
    lives: Sequence[str | None],
    tally: Tally,
    *,
    early: float = 0.0,
    read: model.Read | None = None,
    per_key: int = smoke.PER_KEY,
) -> None:
    """Runs the application to its end with a number of deaths on the way, and verifies what it did.

    Args:
        directory: Its data directory, with the input of the seed in it.
        seed: Of the input, and of the moments.
        lives: For each death a failpoint, or None. At a point of the driver it dies by itself; else it is killed at a
            random moment, after workers or hosts have died at the point.
        tally: Where to count.
        early: How many of the kills hit an instance that has not done a batch yet.
        read: Reads the topics, if not the embedded log's are to be read.
        per_key: How many records each key of the input has.
    """
    dice = random.Random(seed)
    former: Instance | None = None
    for point in lives:
        with Instance(directory, *_OPTIONS, point=point) as instance:
            tally.starts += 1
            if point is not None and point.partition(":")[0] in {*DRIVER_POINTS, *KAFKA}:
                assert instance.wait() == EXIT_STATUS, f"{point}: {instance.output()}"
                tally.points += 1
            else:
                _kill(instance, dice, tally, early=point is None and dice.random() < early)
            if former is not None:  # a supervisor does not wait for what is left of the one before
                former.seconds_until_gone()
                former = None
            if dice.random() < 0.7:
                tally.until_gone.append(instance.seconds_until_gone())
            else:
                former = instance
    with Instance(directory, *LAST) as instance:
        tally.starts += 1
        status = instance.wait(_LONG)
        assert status == 0, instance.output()
        tally.until_gone.append(instance.seconds_until_gone())
    findings = model.verify(directory, seed, per_key, read=read)
    if findings:
        tally.findings.append(f"seed {seed}: {findings}")


def _kill(instance: Instance, dice: random.Random, tally: Tally, *, early: bool) -> None:
    if early:
        time.sleep(dice.uniform(1.0, 12.0))
        tally.early += 1
    else:
        _wait_for_a_moment(instance, dice, tally)
    assert instance.process.poll() is None, f"it had ended before it could be killed: {instance.output()}"
    tally.in_batch += instance.kill(java=dice.random() < 0.5)
    tally.kills += 1


def _wait_for_a_moment(instance: Instance, dice: random.Random, tally: Tally) -> None:
    """Waits until it has done a batch or two, with deaths of workers if there are to be any; then for a random time."""
    instance.wait_for(lambda: instance.done > 0, "its first batch")
    tally.until_going.append(time.monotonic() - instance.started)
    if instance.point is not None:
        instance.wait_for(lambda: instance.deaths() > 0, f"a death at {instance.point}")
        tally.points += 1
    begun = time.monotonic()
    instance.wait_for_batches(1 + dice.randrange(2))
    time.sleep(dice.random() * (time.monotonic() - begun))
