"""Starts the application of `smoke` in separate processes, observes them, and kills them."""

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
"""The time in which all processes of an application must end after it."""

WORKER_POINTS = [*SPARK, "host.batch.after-run", "reader.after-read"]
"""Failpoints of workers and hosts: all that only Spark reaches, and one of each other kind of process."""

MARK = "MILLSTREAM_FAULT_TEST"
"""The environment variable that marks all processes of one start."""

_PATIENCE = 600.0
LAST = ("--batch", "6000")
"""Options of the last instance, which is not killed: its results do not depend on the size of its batches."""

_LONG = 2400.0


class InputEndedError(AssertionError):
    """The application has processed all input before it was killed."""


class Instance:
    """One start of the application. All its processes have a mark in their environment.

    Args:
        directory: Its data directory.
        *options: Options of the script.
        point: A failpoint.
    """

    def __init__(self, directory: Path, *options: str, point: str | None = None) -> None:
        self.directory = directory
        self.mark = uuid.uuid4().hex
        self.checkpoint = directory / "applications" / smoke.APPLICATION / "checkpoint"
        self.log = directory / "applications" / smoke.APPLICATION / "spark.log"
        environment = {key: value for key, value in os.environ.items() if key != "MILLSTREAM_FAILPOINT"}
        environment |= {MARK: self.mark, "PYTHONPATH": str(Path(__file__).parents[2])}
        if point is not None:
            environment["MILLSTREAM_FAILPOINT"] = point
        self.point = point
        self._lost_before = 0
        self._lost_before = self.lost_tasks()
        self.first = self.committed
        self.started = time.monotonic()
        self.output_file = directory.parent / f"output-{self.mark}"
        with self.output_file.open("wb") as file:
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
        send(self.processes(), signal.SIGKILL)
        self.process.wait()

    # ----- what `kill_and_restart` does with it ----------------------------------------------------------------

    @classmethod
    def options(cls, _dice: random.Random) -> Sequence[str]:
        """Options of an instance that is killed."""
        return ("--batch", "600")

    @classmethod
    def last_options(cls) -> Sequence[str]:
        """Options of the last instance, which is not killed."""
        return LAST

    @staticmethod
    def ends_at(point: str) -> bool:
        """Whether it ends at a failpoint; otherwise some of its processes do."""
        return point.partition(":")[0] in KAFKA

    def disturb(self, _dice: random.Random, _tally: Tally) -> None:
        """Kills some of its processes while it goes on."""

    # ----- observation ---------------------------------------------------------------------------------------------

    def last(self, kind: str) -> int:
        """The greatest batch number in a folder of the checkpoint: started (offsets) or committed (commits)."""
        folder = self.checkpoint / kind
        return max((int(path.name) for path in folder.glob("*") if path.name.isdigit()), default=-1)

    @property
    def committed(self) -> int:
        """The number of the last batch that was committed."""
        return self.last("commits")

    @property
    def done(self) -> int:
        """The number of batches that this instance has committed."""
        return self.committed - self.first

    @property
    def in_batch(self) -> bool:
        """Whether it runs a batch that it has started itself."""
        return self.done > 0 and self.last("offsets") > self.last("commits")

    def processes(self, *words: str) -> list[int]:
        """The running processes of this instance whose command contains all of the words."""
        return processes(self.mark, *words)

    def lost_tasks(self) -> int:
        """The number of task attempts of this instance that Spark reports as lost."""
        return self._logged("Lost task") - self._lost_before

    def deaths(self) -> int:
        """The number of tasks that ran again: by Spark, or by a worker whose task host had ended."""
        retries = self.checkpoint.parent / "control.retries"
        ended = retries.read_text(encoding="utf-8").count("its process ended") if retries.exists() else 0
        return self.lost_tasks() + ended

    def lost_executors(self) -> int:
        """The number of executors that Spark reports as lost."""
        return self._logged("Lost executor")

    def _logged(self, words: str) -> int:
        return self.log.read_text(encoding="utf-8").count(words) if self.log.exists() else 0

    # ----- waiting ---------------------------------------------------------------------------------------------

    def wait_for(self, condition: Callable[[], bool], what: str, patience: float = _PATIENCE) -> None:
        """Waits until a condition holds; fails if the application ends before."""
        deadline = time.monotonic() + patience
        while not condition():
            self.check_running(what)
            assert time.monotonic() < deadline, f"timed out waiting for {what}: {self.output()}"
            time.sleep(0.02)

    def check_running(self, what: str) -> None:
        """Fails if the application has ended before something happened."""
        status = self.process.poll()
        if status == 0:
            raise InputEndedError(f"it has processed all input before {what}")
        assert status is None, f"it ended ({status}) before {what}: {self.output()}"

    def wait_for_batches(self, count: int) -> None:
        """Waits until it has committed so many more batches."""
        wanted = self.committed + count
        self.wait_for(lambda: self.committed >= wanted, f"{count} more batches")

    def wait(self, patience: float = _PATIENCE) -> int:
        """Waits until it ends; returns its exit status."""
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end: {self.output()}") from None

    def output(self) -> str:
        """The end of its output."""
        return self.output_file.read_text(encoding="utf-8")[-2000:]

    def seconds_until_gone(self) -> float:
        """Waits until none of its processes is left; returns the seconds that this took."""
        return wait_until_gone(self.mark)

    # ----- killing ---------------------------------------------------------------------------------------------

    def kill(self, *, java: bool) -> bool:
        """Kills the driver, alone or with its JVM; returns whether a batch was running.

        Both are stopped first, so that the checkpoint shows the state at that moment.
        """
        pids = [self.process.pid, *self.processes("java", "SparkSubmit")]
        send(pids, signal.SIGSTOP)
        in_batch = self.in_batch
        send(pids[:1], signal.SIGKILL)
        send(pids[1:], signal.SIGKILL if java else signal.SIGCONT)
        self.process.wait()
        return in_batch


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Sends a signal to processes, some of which may have ended: a child of Java has its command for a moment."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def processes(mark: str, *words: str) -> list[int]:
    """The running processes with a mark whose command contains all of the words."""
    return [process.pid for process in _marked(mark) if all(word in process.command for word in words)]


def _marked(mark: str) -> list[Process]:
    return [process for process in running().values() if f"{MARK}={mark}" in process.environment]


def wait_until_gone(mark: str) -> float:
    """Waits until no process with a mark is left; returns the seconds that this took."""
    started = time.monotonic()
    while left := _marked(mark):
        waited = time.monotonic() - started
        assert waited < GONE_SECONDS, f"left after {waited:.0f} s: {[process.command[:200] for process in left]}"
        time.sleep(0.05)
    return time.monotonic() - started


# ----- rounds of kills ---------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """The outcome of a number of kills."""

    kills: int = 0
    in_batch: int = 0
    early: int = 0
    of_workers: int = 0
    stopped: int = 0
    points: int = 0
    starts: int = 0
    ended: int = 0
    until_gone: list[float] = field(default_factory=list)
    until_first_commit: list[float] = field(default_factory=list)
    until_worker_runs: list[float] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The share of kills in the middle of a batch, among those after the first batch."""
        return self.in_batch / max(1, self.kills - self.early)

    def figures(self) -> dict[str, Any]:
        """The figures, with readable names."""
        return {
            "kills": self.kills,
            "in the middle of a batch": self.in_batch,
            "during the start": self.early,
            "of single workers": self.of_workers,
            "of them stopped until the session timeout": self.stopped,
            "instances with a crash at a failpoint": self.points,
            "starts": self.starts,
            "rounds whose input ended before the last kill": self.ended,
            "seconds until no process was left, at most": round(max(self.until_gone, default=0.0), 1),
            "seconds from start to first commit, median": round(_median(self.until_first_commit), 1),
            "seconds from start to first commit, at most": round(max(self.until_first_commit, default=0.0), 1),
            "seconds from the kill of a worker to its next process, median": round(_median(self.until_worker_runs), 1),
            "seconds from the kill of a worker to its next process, at most": round(
                max(self.until_worker_runs, default=0.0), 1
            ),
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
    kind: type[Instance] = Instance,
) -> None:
    """Runs the application to its end, with a number of kills and crashes, and verifies its results.

    Args:
        directory: Its data directory, with the input of the seed in it.
        seed: Of the input, and of the times of kills.
        lives: For each instance a failpoint, or None. At some failpoints it ends by itself (`Instance.ends_at`);
            otherwise it is killed at a random time, after workers or hosts have crashed at the failpoint.
        tally: Counts the outcomes.
        early: The share of kills before the first commit of an instance.
        read: Reads the topics; by default from the embedded log.
        per_key: The number of records of each key of the input.
        kind: The kind of the instances.
    """
    dice = random.Random(seed)
    former: Instance | None = None
    for point in lives:
        with kind(directory, *kind.options(dice), point=point) as instance:
            tally.starts += 1
            if point is not None and kind.ends_at(point):
                assert instance.wait() == EXIT_STATUS, f"{point}: {instance.output()}"
                tally.points += 1
            else:
                try:
                    _kill(instance, dice, tally, early=point is None and dice.random() < early)
                except InputEndedError:
                    tally.ended += 1
                    break
            if former is not None:  # a supervisor does not wait for processes of the last instance
                former.seconds_until_gone()
                former = None
            if dice.random() < 0.7:
                tally.until_gone.append(instance.seconds_until_gone())
            else:
                former = instance
    with kind(directory, *kind.last_options()) as instance:
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
        _wait_for_random_time(instance, dice, tally)
    instance.check_running("the kill")
    tally.in_batch += instance.kill(java=dice.random() < 0.5)
    tally.kills += 1


def _wait_for_random_time(instance: Instance, dice: random.Random, tally: Tally) -> None:
    """Waits for a batch or two, for a crash at the instance's failpoint if it has one, and then for a random time."""
    instance.wait_for(lambda: instance.done > 0, "its first batch")
    tally.until_first_commit.append(time.monotonic() - instance.started)
    if instance.point is not None:
        instance.wait_for(lambda: instance.deaths() > 0, f"a crash at {instance.point}")
        tally.points += 1
    instance.disturb(dice, tally)
    since = time.monotonic()
    instance.wait_for_batches(1 + dice.randrange(2))
    time.sleep(dice.random() * (time.monotonic() - since))
