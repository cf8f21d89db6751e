"""An application whose results tell whether a record was lost or processed twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from millstream import App
from millstream.core.failpoints import arm
from millstream.log import ProducerRecord, open_log

MOST = 5_000
KEYS = 7


def guarded(directory: Path, guarantee: str, **config: Any) -> App:
    """Copies ``in`` to ``out``, and counts by key, behind a repartition and directly."""
    config = {"commit.interval.ms": 5, **config}
    app = App(
        "guarded",
        config={
            "state.dir": str(directory),
            "status": "none",
            "execution.mode": "local",
            "processing.guarantee": guarantee,
            **config,
        },
    )
    stream = app.stream("in", value=int)
    stream.to("out", value=int)
    stream.group_by_key().count(store="counts").to_stream().to("counted", value=int)
    stream.group_by(lambda value: str(value % KEYS)).count(store="moved").to_stream().to("moved", value=int)
    return app


def record(number: int) -> ProducerRecord:
    return ProducerRecord(str(number % KEYS).encode(), number.to_bytes(8, "big"), number)


def run_to_point(directory: Path, guarantee: str, point: str) -> None:
    """Runs the application beside a producer that writes its input one by one, until a failpoint ends the process."""
    with guarded(directory, guarantee).start(), open_log(directory) as log:
        arm(point)
        for _ in range(MOST):
            log.produce("in", [record(log.ends(["in"])["in"][0])])
