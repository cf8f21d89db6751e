"""Starts an application in real-time mode, and ends Spark at a point of the start; prints the errors.

Run by `test_real_time`: ``stopped_spark.py DIRECTORY HOW:POINT…``
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from millstream import App, MillstreamError
from millstream.log import ProducerRecord, open_log
from millstream.runtime.spark.session import import_pyspark

import_pyspark()
from pyspark import SparkContext  # noqa: E402  (imported under a lock)
from pyspark.sql import SparkSession  # noqa: E402

from millstream.runtime.real_time.pool import WorkerPool  # noqa: E402
from millstream.runtime.spark import session, workers  # noqa: E402  (it imports PySpark)


def stop() -> None:
    """Stops the session, as a thread of the user may do."""
    instantiated: Any = SparkSession._instantiatedSession
    instantiated.stop()


def stop_context() -> None:
    """Stops the context alone. The session stays active."""
    context: Any = SparkContext._active_spark_context
    context.stop()


def kill() -> None:
    """Kills Java."""
    gateway: Any = SparkContext._gateway
    os.kill(gateway.proc.pid, signal.SIGKILL)
    gateway.proc.wait()


def hooked(original: Callable[..., Any], end: Callable[[], None]) -> Callable[..., Any]:
    """A function that ends Spark at its first call, and then does what it should."""
    is_done = False

    def call(*args: Any, **options: Any) -> Any:
        nonlocal is_done
        if not is_done:
            is_done = True
            end()
        return original(*args, **options)

    return call


ENDS = {"stop": stop, "stop-context": stop_context, "kill": kill}


def main(directory: str, *cases: str) -> None:
    with open_log(directory) as log:
        log.create_topic("in", 2)
        log.produce("in", [ProducerRecord(b"k", b"v")])
    for case in cases:
        how, _, point = case.partition(":")
        where: Any = {"poll": WorkerPool, "keep_quiet": session}.get(point, workers)
        original = getattr(where, point)
        setattr(where, point, hooked(original, ENDS[how]))
        settings = {"state.dir": directory, "status": "none", "execution.mode": "real_time", "num.workers": 1}
        app = App("stopped", config=settings)
        app.stream("in", key=str, value=str).to("out")
        try:
            with app.start() as handle:
                handle.wait(60)
            print(f"{case} has not failed", flush=True)
        except MillstreamError as error:
            print(f"{case} {type(error).__name__}: {error.message}", error.hint, sep="\n", flush=True)
            if error.__cause__ is not None:  # its traceback would be shown
                raise
        setattr(where, point, original)


if __name__ == "__main__":
    main(*sys.argv[1:])
