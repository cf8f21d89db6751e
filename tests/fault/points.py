"""The failpoints of the whole package, taken from the code, and where each is tested."""

from __future__ import annotations

import importlib
import pkgutil

import millstream
import millstream.runtime.in_process.batches  # noqa: F401  (it declares points of its own)
from millstream.core.failpoints import FAILPOINTS

for module in pkgutil.walk_packages(millstream.__path__, "millstream."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)

SPARK = sorted(point for point in FAILPOINTS if point.startswith("proxy."))
"""Only Spark passes them: `test_kill`."""

HOST = sorted(point for point in FAILPOINTS if point.startswith("host."))
"""Task hosts pass them: `test_hosts`."""

_LOG_ALONE = (
    *("log.append.before", "log.append.after-commit", "log.create.", "log.topic-delete.", "log.hold."),
    *("log.compaction.", "log.retention."),
)
LOG = sorted(point for point in FAILPOINTS if point.startswith(_LOG_ALONE))
"""No run of an application passes them; the tests of the log do, and miss none that begins with ``log.``."""

KAFKA = sorted(point for point in FAILPOINTS if point.startswith("kafka."))
"""Only a cluster has them: `tests.kafka.test_faults`."""

LOCAL = sorted(FAILPOINTS.difference(SPARK, HOST, LOG, KAFKA))
"""All others: a run without Spark must pass them."""
