"""The daemon of Spark for workers of real-time execution that are slow: see `tests.fault.real_time`.

Spark starts it as ``python -m tests.fault.slow_daemon WORKER_MODULE`` (`spark.python.daemon.module`). Workers are
forked from it.
"""

from __future__ import annotations

import runpy

from tests.fault.real_time import slow_workers

PAUSE = 0.08
"""Seconds between two reads of a worker. They determine for how long the input lasts, also on a fast machine."""

if __name__ == "__main__":
    with slow_workers(PAUSE):
        runpy.run_module("millstream.runtime.spark.daemon", run_name="__main__", alter_sys=True)
