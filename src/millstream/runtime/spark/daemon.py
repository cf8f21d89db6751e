"""The daemon of Spark from which its Python workers are forked. It imports their modules once.

Spark starts it as ``python -m millstream.runtime.spark.daemon WORKER_MODULE`` (`spark.python.daemon.module`).
"""

from __future__ import annotations

import gc
import importlib
import sys

from pyspark import daemon

from millstream.runtime.spark.worker import be_daemon

if __name__ == "__main__":
    if sys.argv[1:] == ["pyspark.worker"]:
        for name in (
            "pandas",
            "pyarrow",
            "millstream.runtime.spark.proxy",
            "millstream.runtime.spark.source",
            "millstream.runtime.spark.worker_process",
            "millstream.runtime.real_time.worker",
        ):
            importlib.import_module(name)
        be_daemon()
        gc.collect()
        gc.freeze()  # see millstream.runtime.spark.worker
    daemon.manager()
