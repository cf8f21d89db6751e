"""Change data capture of PostgreSQL, by logical replication."""

from __future__ import annotations

from millstream.connect.postgres.cdc.source import PostgresSource

__all__ = ["PostgresSource"]
