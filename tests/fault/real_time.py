"""Runs the application of `smoke` without Spark: ``python -m tests.fault.real_time DATA_DIR [KEY=VALUE]…``.

Workers are threads. A worker reads few records at once, commits every 5 ms and writes its local page stores often, so
that a short run passes each point of its loop many times. With ``pause=SECONDS``, it also waits between two reads.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path
from typing import Any
from unittest import mock

from tests.fault import smoke

from millstream.core.failpoints import arm
from millstream.log.embedded.following import EmbeddedFollower
from millstream.log.kafka.following import KafkaFollower
from millstream.runtime.real_time import task_state
from millstream.runtime.real_time.reading import Reading

AT_ONCE = 20
"""The number of records of an append to the embedded log, whose reads do not cut appends."""

_MOST = 60
_CONFIG: dict[str, Any] = {"execution.mode": "local", "num.workers": 2, "commit.interval.ms": 5}


@contextlib.contextmanager
def slow_workers(pause: float) -> Iterator[None]:
    """Has the workers of this process read few records at once, and wait for *pause* seconds between two reads."""
    poll = Reading.poll

    def poll_after_pause(reading: Reading, timeout: float, request: int) -> int:
        time.sleep(pause)
        return poll(reading, timeout, request)

    with (
        mock.patch.object(Reading, "poll", poll_after_pause),
        mock.patch.object(EmbeddedFollower, "poll", partialmethod(EmbeddedFollower.poll, most=_MOST)),
        mock.patch.object(KafkaFollower, "poll", partialmethod(KafkaFollower.poll, most=_MOST)),
        mock.patch.object(task_state, "INTERVAL", 0.02),
    ):
        yield


def run(directory: Path, *, pause: float | str = 0.0, **config: Any) -> None:
    """Runs the application to the end of its input. Its workers wait for *pause* seconds between two reads."""
    with slow_workers(float(pause)):
        smoke.build(directory, **{**_CONFIG, **config}).run(until_caught_up=True)


def run_to_point(directory: Path, point: str | None, config: dict[str, Any]) -> None:
    """Runs the application to its end, or to a crash at a failpoint: the target of a child process."""
    arm(point)
    run(directory, **config)


if __name__ == "__main__":
    run(Path(sys.argv[1]), **dict(setting.split("=", 1) for setting in sys.argv[2:]))
