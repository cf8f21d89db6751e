"""A source and a sink as a user would write them: lines of a file, and a table of SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from millstream.connect import (
    RefusedRecords,
    Sink,
    SinkContext,
    SinkRecord,
    SinkWriter,
    Source,
    SourceBatch,
    SourceContext,
    SourceRecord,
)
from millstream.errors import ConnectorError, FencedError

BATCH = 7


class Lines(Source):
    """Appends the lines of files to a topic: the word before the colon is the key. Each file is a split."""

    commands = ("again",)

    def __init__(self, directory: Path, topic: str) -> None:
        self._directory = directory
        self._topic = topic

    def splits(self) -> Sequence[str]:
        return sorted(path.stem for path in self._directory.glob("*.txt"))

    def topics(self) -> Mapping[str, Mapping[str, str]]:
        return {self._topic: {}}

    def read(self, split: str, position: Any, context: SourceContext) -> Iterator[SourceBatch | None]:
        position = position or {"at": 0, "done": []}
        path = self._directory / f"{split}.txt"
        while True:
            for command in context.commands:
                if command["id"] not in position["done"]:
                    position = {"at": 0, "done": [*position["done"], command["id"]]}
            if not path.exists():
                raise ConnectorError(f"{path.name} is away", may_pass=True)
            with path.open("rb") as file:
                file.seek(position["at"])
                while lines := [line for line in (file.readline() for _ in range(BATCH)) if line.endswith(b"\n")]:
                    position = {**position, "at": position["at"] + sum(map(len, lines))}
                    yield SourceBatch([self._record(line) for line in lines], position)
            context.gauge("bytes", position["at"])
            yield None
            context.wait(0.02)

    def _record(self, line: bytes) -> SourceRecord:
        key, _, value = line.decode().rstrip().partition(":")
        return SourceRecord(self._topic, key, value, timestamp=0)


class Rows(Sink):
    """Writes records to a table of SQLite, with their offsets and the epoch."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self, context: SinkContext) -> SinkWriter:
        return RowWriter(sqlite3.connect(self._path, check_same_thread=False, timeout=30), context)


class RowWriter(SinkWriter):
    def __init__(self, connection: sqlite3.Connection, context: SinkContext) -> None:
        self._connection = connection
        self._fence = context.application_epoch, context.epoch
        with connection:
            connection.execute("create table if not exists rows (topic, partition, offset, key, value)")
            connection.execute(
                "create table if not exists offsets"
                " (topic, partition, next, run, epoch, primary key (topic, partition))"
            )

    def positions(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        rows = self._connection.execute("select topic, partition, next from offsets").fetchall()
        return {(topic, number): end for topic, number, end in rows if (topic, number) in partitions}

    def write(self, records: Sequence[SinkRecord], offsets: Mapping[tuple[str, int], int]) -> None:
        refused = {place: "it is poison" for place, record in enumerate(records) if record.value == "poison"}
        if refused:
            raise RefusedRecords(refused)
        with self._connection:
            self._connection.execute("begin immediate")
            self._connection.executemany(
                "insert into rows values (?, ?, ?, ?, ?)",
                [(r.topic, r.partition, r.offset, r.key, json.dumps(r.value)) for r in records],
            )
            for (topic, number), end in offsets.items():
                cursor = self._connection.execute(
                    "insert into offsets values (?, ?, ?, ?, ?) on conflict do update set next = excluded.next,"
                    " run = excluded.run, epoch = excluded.epoch where (run, epoch) <= (excluded.run, excluded.epoch)",
                    (topic, number, end, *self._fence),
                )
                if cursor.rowcount != 1:
                    raise FencedError("another instance writes the table")

    def close(self) -> None:
        self._connection.close()


def rows_of(path: Path) -> list[tuple[str, Any]]:
    """The keys and values of the table, in the order of each partition."""
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute("select key, value from rows order by topic, partition, offset").fetchall()
    finally:
        connection.close()
    return [(key, json.loads(value)) for key, value in rows]
