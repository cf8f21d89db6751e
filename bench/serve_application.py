"""The application of bench_serve.py: it counts events by key, and measures its commits and its lag.

It reads commands from stdin, one in each line, and answers each with a line of JSON: ``figures`` with the times of
commits and the lags since the last command.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from millstream import App
from millstream.runtime.observe.metrics import Metrics

EVERY = 0.05


def build(data: str) -> App:
    app = App("bench", state_dir=data, status="none", report_interval_ms=1000)
    app.stream("events", key=str, value=int).group_by_key().count(store="counts")
    return app


def main() -> None:
    commits: list[float] = []
    lags: list[int] = []
    add = Metrics.add

    def measured(self: Metrics, progress: Any) -> None:
        commits.append(progress.commit_seconds * 1000)
        add(self, progress)

    Metrics.add = measured  # type: ignore[method-assign]
    with build(sys.argv[1]).start(mode=sys.argv[2]) as handle:

        def sample() -> None:
            while True:
                lags.append(sum(source["lag"] for source in handle.metrics()["sources"].values()))
                time.sleep(EVERY)

        threading.Thread(target=sample, daemon=True).start()
        for _line in sys.stdin:
            taken = {"commits": commits[:], "lags": lags[:]}
            commits.clear()
            lags.clear()
            print(json.dumps(taken), flush=True)


if __name__ == "__main__":
    main()
