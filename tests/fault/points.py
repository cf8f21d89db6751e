"""All failpoints of the package, collected from the code, and the tests that reach them."""

from __future__ import annotations

import importlib
import pkgutil

import millstream
import millstream.runtime.in_process.batches  # noqa: F401  (declares failpoints)
from millstream.core.failpoints import FAILPOINTS

for module in pkgutil.walk_packages(millstream.__path__, "millstream."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)

SPARK = sorted(point for point in FAILPOINTS if point.startswith("proxy."))
"""Reached only on Spark: `test_kill`."""

HOST = sorted(point for point in FAILPOINTS if point.startswith("host."))
"""Reached in task hosts: `test_hosts`."""

_LOG_ALONE = (
    *("log.append.before", "log.append.after-commit", "log.create.", "log.topic-delete.", "log.hold."),
    *("log.compaction.", "log.retention."),
)
LOG = sorted(point for point in FAILPOINTS if point.startswith(_LOG_ALONE))
"""Not reached by a run of an application. The tests of the log reach all failpoints that begin with ``log.``."""

KAFKA = sorted(point for point in FAILPOINTS if point.startswith("kafka."))
"""Reached only on a cluster: `tests.kafka.test_kafka_faults`."""

WORKER = sorted(point for point in FAILPOINTS if point.startswith(("worker.", "local-store.")))
"""Reached in workers of real-time execution: `test_real_time`."""

CONNECTOR = sorted(point for point in FAILPOINTS if point.startswith(("connector.", "connect.")))
"""Reached by applications with connectors: `tests.connect.test_connector_kills`, `tests.connect.postgres`."""

LOCAL = sorted(FAILPOINTS.difference(SPARK, HOST, LOG, KAFKA, WORKER, CONNECTOR))
"""All others: batches without Spark must reach them."""

WITHOUT_TRANSACTIONS = {"worker.sent", "worker.flushed"}
"""Reached only with at_least_once: `tests.runtime.real_time.test_guarantees`, on a cluster
`tests.kafka.test_kafka_real_time_faults`, which alone reaches ``worker.flushed``."""

_BATCHES_ALONE = ("in-process.", "driver.batch.", "reader.")
REAL_TIME = sorted(
    {*WORKER, *(point for point in LOCAL if not point.startswith(_BATCHES_ALONE))} - WITHOUT_TRANSACTIONS
)
"""Reached by real-time execution, exactly once, on the embedded log: `test_real_time`."""

REAL_TIME_ON_KAFKA = sorted(
    {*WORKER, *KAFKA, *(point for point in LOCAL if point.startswith("start."))} - WITHOUT_TRANSACTIONS
)
"""The same on a cluster: `tests.kafka.test_kafka_real_time_faults`."""
