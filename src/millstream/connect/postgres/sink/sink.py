"""The PostgreSQL sink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.connect.api import Sink, SinkContext
from millstream.connect.postgres.client import Server
from millstream.connect.postgres.sink.keys import SETTINGS, sink_settings
from millstream.connect.postgres.sink.offsets import OffsetTable
from millstream.connect.postgres.sink.session import Session
from millstream.connect.postgres.sink.writer import PostgresWriter
from millstream.connect.postgres.urls import server_of


class PostgresSink(Sink):
    """Writes records to tables of PostgreSQL, exactly once.

    A field of the value is a column, and so is a field of the key if ``primary.key.mode`` is ``record_key``. A value
    that is not a struct goes to the column ``value``. Change events of Debezium are unwrapped. Each batch is one
    transaction, which also records the offsets of its records in the table ``millstream_offsets``. Another instance of
    the same connector fences earlier ones.

    Args:
        config: The settings, by the names of the JDBC sinks of Debezium and Confluent.

    >>> sink = PostgresSink(
    ...     {
    ...         "connection.url": "postgresql://shop@db.example.com/reports",
    ...         "insert.mode": "upsert",
    ...         "primary.key.mode": "record_key",
    ...         "primary.key.fields": "customer",
    ...         "delete.enabled": True,
    ...         "schema.evolution": "basic",
    ...     }
    ... )
    >>> sink.server
    Server(host='db.example.com', database='reports', user='shop', port=5432, password=None, tls={})
    >>> PostgresSink({"connection.url": "postgresql://db/reports", "insert.mod": "upsert"})
    Traceback (most recent call last):
    millstream.errors.ConfigError: PostgresSink: unknown setting 'insert.mod'
      hint: did you mean 'insert.mode'?

    Attributes:
        config: The settings, with defaults.
        server: The database.
    """

    settings = SETTINGS

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = sink_settings(config)
        self.server: Server = server_of(
            self.config["connection.url"],
            user=self.config["connection.username"],
            password=self.config["connection.password"],
        )

    def open(self, context: SinkContext) -> PostgresWriter:
        """Connects, and creates the table of offsets if there is none."""
        name = self.config["application.name"] or f"{context.application} {context.connector} {context.task}"
        session = Session(self.server, self.config, name[:63])
        fence = (context.application_epoch, context.epoch)
        offsets = OffsetTable(self.config["offsets.schema"], context.application, context.connector, fence)
        try:
            with session.time_limit(), session.transaction("creating the table of offsets") as cursor:
                offsets.create(cursor)
        except BaseException:
            session.close()
            raise
        return PostgresWriter(self.config, session, offsets)
