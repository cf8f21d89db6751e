"""Runs the application of `tests.fault.smoke` without Spark: ``python -m tests.kafka.local_smoke DATA_DIR RECORDS``.

It runs in a separate process: clients of a cluster cannot be used after a fork.
"""

from __future__ import annotations

import sys

from tests.fault import smoke

from millstream.runtime.in_process.batches import InProcessRun

if __name__ == "__main__":
    with InProcessRun(smoke.build(sys.argv[1]), records=int(sys.argv[2])) as local:
        local.run()
