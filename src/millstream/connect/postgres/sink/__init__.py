"""The PostgreSQL sink: batches of records become rows, in one transaction with their offsets."""

from __future__ import annotations

from millstream.connect.postgres.sink.sink import PostgresSink

__all__ = ["PostgresSink"]
