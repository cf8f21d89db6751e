"""An application with connectors for kill tests: lines of files → topic → counts → topic → table of SQLite.

``python pipeline.py DIRECTORY [BOOTSTRAP]`` runs it until it is killed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.connect.plugins import Lines, Rows

from millstream import App
from millstream.connect import SinkRecord, SourceRecord


def paced(record: SourceRecord) -> SourceRecord:
    """A transform, so that records of a batch pass one."""
    return record.replace(headers=(("paced", b"yes"),))


def read(record: SinkRecord) -> SinkRecord:
    """A transform that reads counts as numbers and lines as text."""
    value = int.from_bytes(record.value, "big") if record.topic == "counts" else record.value.decode()
    return record.replace(value=value)


def application(directory: Path, servers: str | None = None) -> App:
    """The application on the files of a directory."""
    config = {"state.dir": str(directory / "data"), "status": "none", "execution.mode": "local"}
    if servers is not None:
        config["bootstrap.servers"] = servers
    app = App("counting", config={**config, "commit.interval.ms": 20, "restart.backoff.ms": 50})
    app.connect("files", Lines(directory / "in", "lines"), key=str, value=str, partitions=2, transforms=[paced])
    app.stream("lines", value=str).group_by_key().count(store="counts").to_stream().to("counts")
    app.connect(
        "table",
        Rows(directory / "rows.db"),
        topics=["counts", "lines"],
        value=bytes,
        tasks=2,
        transforms=[read],
    )
    return app


if __name__ == "__main__":
    application(Path(sys.argv[1]), *sys.argv[2:]).run()
