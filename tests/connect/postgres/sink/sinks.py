"""Opens writers of a PostgreSQL sink, as the runtime does, and reads what they have written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from millstream.connect.api import SinkRecord
from millstream.connect.postgres.client import Server
from millstream.connect.postgres.sink import PostgresSink
from millstream.connect.postgres.sink.writer import PostgresWriter

UPSERT = {"insert.mode": "upsert", "primary.key.mode": "record_key", "delete.enabled": True}
KEYED = {**UPSERT, "primary.key.fields": "id", "schema.evolution": "basic"}


@dataclass
class Task:
    """The `SinkContext` of a task that runs by itself."""

    application: str = "shop"
    connector: str = "reports"
    task: int = 0
    epoch: int = 1
    application_epoch: int = 1
    stopping: bool = False

    def wait(self, _seconds: float) -> bool:
        return self.stopping

    def gauge(self, _name: str, _value: float) -> None: ...

    def report(self, _message: str) -> None: ...
    def warn(self, _message: str) -> None: ...


def url_of(server: Server) -> str:
    return f"postgresql://{server.user}@{server.host}:{server.port}/{server.database}"


def sink_of(server: Server, settings: Mapping[str, Any]) -> PostgresSink:
    return PostgresSink({"connection.url": url_of(server), **settings})


@contextmanager
def writing(
    server: Server,
    settings: Mapping[str, Any] = KEYED,
    *,
    task: Task | None = None,
    partitions: Sequence[tuple[str, int]] = (("orders", 0),),
) -> Iterator[PostgresWriter]:
    """A writer that has claimed partitions."""
    with closing(sink_of(server, settings).open(task or Task())) as writer:
        writer.positions(partitions)
        yield writer


def orders(*pairs: tuple[Any, Any], start: int = 0, topic: str = "orders", partition: int = 0) -> list[SinkRecord]:
    """Records with these keys and values, at successive offsets."""
    return [
        SinkRecord(topic, partition, offset, key, value, 1_700_000_000_000 + offset)
        for offset, (key, value) in enumerate(pairs, start)
    ]


def after(records: Sequence[SinkRecord]) -> dict[tuple[str, int], int]:
    """The offsets to continue at after records."""
    return {(record.origin, record.partition): record.offset + 1 for record in records}


def write(writer: PostgresWriter, *pairs: tuple[Any, Any], start: int = 0, topic: str = "orders") -> None:
    """Writes one batch."""
    records = orders(*pairs, start=start, topic=topic)
    writer.write(records, after(records))


def query(server: Server, statement: str) -> list[tuple[Any, ...]]:
    """The rows of a query, by a connection of its own."""
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET intervalstyle = postgres")  # the only one that psycopg2 reads
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def types(server: Server, table: str = "orders") -> dict[str, str]:
    """The columns of a table and their types."""
    rows = query(
        server,
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        f"WHERE attrelid = '\"{table}\"'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
    )
    return dict(rows)
