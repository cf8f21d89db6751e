"""An application in a process of its own, which fails at an event without a weight. It runs locally, without Java.

python -m tests.serve.browser.parcels DATA fail | continue
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from millstream import App
from millstream.log import ProducerRecord, open_log

Handler = Literal["fail", "continue"]

APPLICATION = "parcels"
DEAD = "parcels-dead"
ROOT = Path(__file__).resolve().parents[3]


def cost(event: dict[str, Any]) -> float:
    """The cost of a parcel."""
    if "problem" in event:
        raise ValueError(event["problem"])
    return float(event["weight"]) * 1.5


def build(data: Path, handler: Handler) -> App:
    """Returns the application.

    Args:
        data: Its data directory.
        handler: What it does with an event that it cannot process: ``fail``, or ``continue`` with a dead letter.
    """
    dead = {"errors.dead.letter.queue.topic.name": DEAD} if handler == "continue" else {}
    app = App(
        APPLICATION,
        state_dir=str(data),
        status="none",
        commit_interval_ms=50,
        report_interval_ms=100,
        processing_exception_handler=handler,
        config=dead,
    )
    events = app.stream("events", key=str, value=dict)
    events.group_by_key().count(store="events-of-parcel")
    events.map_values(cost, value=float, name="cost").to("costs")
    return app


def create_topics(data: Path) -> None:
    """Creates the input topic."""
    with open_log(data) as log:
        log.create_topic("events", 1)


def produce(data: Path, *events: dict[str, Any], key: str = "p1") -> None:
    """Writes events of a parcel."""
    with open_log(data) as log:
        log.produce("events", [ProducerRecord(key.encode(), json.dumps(event).encode()) for event in events])


@contextmanager
def running(data: Path, handler: Handler = "fail") -> Iterator[subprocess.Popen[bytes]]:
    """Runs the application in a process of its own, and kills it at the end if it still runs."""
    command = [sys.executable, "-m", "tests.serve.browser.parcels", str(data), handler]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


if __name__ == "__main__":
    build(Path(sys.argv[1]), "fail" if sys.argv[2] == "fail" else "continue").run(mode="local")
