"""Instances of the application of `smoke` in real-time execution on Spark: observes them, and kills their workers."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.fault import slow_daemon, smoke
from tests.fault.killing import Instance, Tally, send
from tests.fault.points import KAFKA, WITHOUT_TRANSACTIONS, WORKER
from tests.kafka import independent
from tests.processes import open_files, running

from millstream.log import open_log

SLOTS = 4
"""The number of Spark's slots, and the greatest number of workers."""

SESSION_SECONDS = 6

STOPPED = 0.15
"""The share of workers that are stopped for longer than the session timeout, instead of killed."""

_MOST_DISTURBANCES = 4
_MOST_SECONDS = 2.0
_OPTIONS = {
    "execution.mode": "real_time",
    "commit.interval.ms": 20,
    "session.timeout.ms": SESSION_SECONDS * 1000,
    "consumer.fetch.message.max.bytes": 1000,  # so that few records at once are of all partitions
    "status": "text",
}
_LOST = "was lost and starts again"

_ALWAYS_REACHED = sorted({*WORKER} - WITHOUT_TRANSACTIONS - {"worker.restored", "worker.restoring"})


def random_point(dice: random.Random, *, kafka: bool) -> str:
    """A failpoint that every worker reaches, at a pass after it has committed something."""
    return f"{dice.choice([*_ALWAYS_REACHED, *(KAFKA if kafka else [])])}:{dice.randint(12, 30)}"


class RealTimeInstance(Instance):
    """One start of the application in real-time execution. Its progress is the sum of its committed offsets.

    Args:
        directory: Its data directory.
        *options: Options of the script.
        point: A failpoint.
    """

    def __init__(self, directory: Path, *options: str, point: str | None = None) -> None:
        with ExitStack() as opened:
            log = opened.enter_context(open_log(directory))
            self._ends = {
                (topic, number): end for topic, row in log.ends(smoke.INPUTS).items() for number, end in enumerate(row)
            }
            self._offsets: independent.Offsets = partial(log.committed, smoke.APPLICATION)
            if servers := os.environ.get("MILLSTREAM_BOOTSTRAP_SERVERS"):
                offsets = independent.committed_offsets(servers, smoke.APPLICATION, smoke.INPUTS, smoke.PARTITIONS)
                self._offsets = opened.enter_context(offsets)
            super().__init__(directory, *options, point=point)
            self._opened = opened.pop_all()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._opened.close()

    # ----- what `kill_and_restart` does with it ----------------------------------------------------------------

    @classmethod
    def options(cls, dice: random.Random) -> Sequence[str]:
        """Options of an instance with some workers, which are slow. Spark may start a lost worker again by itself."""
        master = dice.choice([f"local[{SLOTS}]", f"local[{SLOTS},4]"])
        workers = {"num.workers": dice.randint(1, SLOTS), "spark.python.daemon.module": slow_daemon.__name__}
        return settings({**_OPTIONS, "spark.master": master, **workers})

    @classmethod
    def last_options(cls) -> Sequence[str]:
        """Options of an instance that is not slow."""
        return settings({**_OPTIONS, "num.workers": 2})

    @staticmethod
    def ends_at(_point: str) -> bool:
        """It never ends at a failpoint: its workers do."""
        return False

    def disturb(self, dice: random.Random, tally: Tally) -> None:
        """Kills or stops some workers at random times, and mostly waits until they run again."""
        for _kill in range(dice.randint(0, _MOST_DISTURBANCES)):
            time.sleep(dice.random() * _MOST_SECONDS)
            self._lose_worker(dice, tally)

    def _lose_worker(self, dice: random.Random, tally: Tally) -> None:
        before: list[int] = []
        while not before:  # a worker may end by itself, at a failpoint
            self.wait_for(lambda: bool(self.workers()), "a worker")
            before = self.workers()
        lost = self.losses()
        pid = dice.choice(sorted(before))
        send([pid], signal.SIGSTOP)  # so that the offsets show its state at that moment
        in_the_middle, since = self.in_batch, time.monotonic()
        if is_stopped := dice.random() < STOPPED:
            tally.stopped += 1  # the driver ends it
        else:
            send([pid], signal.SIGKILL)
        tally.kills += 1
        tally.of_workers += 1
        tally.in_batch += in_the_middle
        self.wait_for(lambda: self.losses() > lost, "the driver's notice of a lost worker", 60)
        if dice.random() < 0.7:  # otherwise, the next kill may come before it runs again
            self.wait_for(lambda: len(self.workers()) >= len(before), "the next process of a worker", 60)
            if not is_stopped:
                tally.until_worker_runs.append(time.monotonic() - since)

    def kill(self, *, java: bool) -> bool:
        """Kills the driver, alone or with its JVM; returns whether it was in the middle of its input.

        The workers are stopped before, and half of them stay so.
        """
        workers = self.workers()
        send(workers, signal.SIGSTOP)
        in_the_middle = super().kill(java=java)
        send(workers[::2], signal.SIGCONT)
        return in_the_middle

    # ----- observation -----------------------------------------------------------------------------------------

    @property
    def committed(self) -> int:
        """The number of records of the input that were taken, according to the last commit of offsets."""
        offsets = self._offsets()
        return sum(offsets.get(key, 0) for key in self._ends)

    @property
    def in_batch(self) -> bool:
        """Whether it has committed something itself, and has not taken all input."""
        offsets = self._offsets()
        return self.done > 0 and any(offsets.get(key, 0) < end for key, end in self._ends.items())

    def wait_for_batches(self, count: int) -> None:
        """Waits for so many commits that take records."""
        for _commit in range(count):
            super().wait_for_batches(1)

    def workers(self) -> list[int]:
        """The processes of workers: those that Spark's daemon has forked and that use the data directory."""
        marked = set(self.processes("daemon", "pyspark.worker"))
        forked = [pid for pid, process in running().items() if pid in marked and process.parent in marked]
        return sorted(pid for pid in forked if any(self.directory in file.parents for file in open_files(pid)))

    def losses(self) -> int:
        """The number of workers that the driver has started again."""
        return self.output_file.read_text(encoding="utf-8").count(_LOST)

    def deaths(self) -> int:
        """The same."""
        return self.losses()


def settings(config: dict[str, object]) -> list[str]:
    """Options of the script for a configuration."""
    return [word for key, value in config.items() for word in ("--set", f"{key}={value}")]
