"""PostgreSQL: change data capture, the sink, and tables for look-up joins. They need the package psycopg2."""

from __future__ import annotations

from millstream.connect.postgres.cdc import PostgresSource
from millstream.connect.postgres.sink import PostgresSink
from millstream.connect.postgres.table import PostgresTable, postgres_table

__all__ = ["PostgresSink", "PostgresSource", "PostgresTable", "postgres_table"]
