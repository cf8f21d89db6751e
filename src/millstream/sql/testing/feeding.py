"""Feeds the inputs of a case to its queries."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.sql.testing.cases import Record
from millstream.sql.testing.engine import Engine


def feed(engine: Engine, records: Sequence[Record]) -> None:
    """Appends records to their topics, and runs the queries on them."""
    inputs = [(record.topic, engine.encode(record)) for record in records]
    for topic, record in inputs:
        engine.append(topic, record)
    engine.run_queries(inputs)
