"""A host for sources in tests: it records batches with their positions, as the runtime does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.connect.postgres.server import Database

from millstream.connect.api import SourceBatch, SourceRecord
from millstream.connect.postgres.cdc.source import PostgresSource

_PATIENCE = 30


class Host:
    """Runs a source, and keeps what it has committed. Each run continues at the last committed position."""

    application = "tests"
    connector = "capture"

    def __init__(self, database: Database, **settings: Any) -> None:
        self.source = PostgresSource(
            {
                "topic.prefix": "p",
                "database.hostname": "127.0.0.1",
                "database.port": database.server.port,
                "database.user": "postgres",
                "database.dbname": database.name,
                "slot.name": database.name,
                "status.update.interval.ms": 100,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self.records: list[SourceRecord] = []
        self.committed: Any = None
        self.commands: list[dict[str, Any]] = []
        self.gauges: dict[str, float] = {}
        self.reports: list[str] = []
        self.batches = 0
        self.stopping = False
        self._reading: Iterator[SourceBatch | None] | None = None

    def wait(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self.stopping

    def gauge(self, name: str, value: float) -> None:
        self.gauges[name] = value

    def report(self, message: str) -> None:
        self.reports.append(message)

    def warn(self, message: str) -> None:
        self.reports.append(message)

    def step(self) -> SourceBatch | None:
        """Takes one item of the source, and commits it."""
        if self._reading is None:
            self._reading = self.source.read("0", self.committed, self)
        batch = next(self._reading)
        if batch is not None:
            self.commit(batch)
        return batch

    def commit(self, batch: SourceBatch) -> None:
        self.records += batch.records
        self.committed = json.loads(json.dumps(batch.position))
        self.batches += 1

    def close(self) -> None:
        """Ends the run, as the end of the process would: nothing is finished."""
        if self._reading is not None:
            self._reading.close()  # type: ignore[attr-defined]
            self._reading = None

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Runs the source until a condition holds."""
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            self.step()
            assert time.monotonic() < deadline, f"it did not happen; reports: {self.reports}"

    def run_to_end(self, database: Database) -> list[SourceRecord]:
        """Runs until everything that is in the database now is committed, and returns all records."""
        end = written(database)

        def passed() -> bool:
            position = self.committed
            return position is not None and position["lsn"] >= end and "snapshot" not in position

        self.run_until(passed)
        return self.records

    def values(self, topic: str | None = None) -> list[Any]:
        """Operation and row of each record: (op, after or before); None for a tombstone."""
        return [
            None if record.value is None else (record.value["op"], record.value["after"] or record.value["before"])
            for record in self.records
            if topic is None or record.topic == topic
        ]


def written(database: Database) -> int:
    """Where the log of the server ends now. A transaction that is not captured is written before."""
    database.execute("select pg_logical_emit_message(true, 'test', '')")
    ((end,),) = database.execute("select pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint")
    return int(end)


def final_rows(records: list[SourceRecord], topic: str) -> dict[str, Any]:
    """The last row of each key of a topic, without deleted ones."""
    rows: dict[str, Any] = {}
    for record in records:
        if record.topic != topic:
            continue
        key = json.dumps(record.key)
        after = None if record.value is None else record.value["after"]
        if after is None:
            rows.pop(key, None)
        else:
            rows[key] = after
    return rows
