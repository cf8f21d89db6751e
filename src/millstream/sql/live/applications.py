"""The application of a persistent query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.core.callsite import called_from
from millstream.dsl.app import App
from millstream.dsl.stream import Stream
from millstream.errors import SqlStatementError, TopologyError
from millstream.sql.catalog.catalog import PersistentQuery
from millstream.sql.catalog.sources import DataSource
from millstream.sql.lowering.serdes import SourceSerdes
from millstream.sql.lowering.topology import QueryLowering
from millstream.sql.planner.environment import Environment
from millstream.sql.queries.push import from_beginning

_DAY_MS = 24 * 60 * 60 * 1000


def application_id(deployment: str, query: PersistentQuery) -> str:
    """Returns the id of the application that runs a query. A query that replaces another one has the same."""
    if query.id == query.sink.query:
        return f"{deployment}-as-{query.sink.name}"
    return f"{deployment}-into-{query.id}"


def table_application_id(deployment: str, source: DataSource) -> str:
    """Returns the id of the application that reads a SOURCE TABLE."""
    return f"{deployment}-source-{source.name}"


def query_application(id_: str, query: PersistentQuery, environment: Environment, config: Mapping[str, Any]) -> App:
    """Returns the application of a query. That of CREATE TABLE … AS keeps the rows of the table in a named store.

    Raises:
        SqlStatementError: The query has no topology.
    """
    app = App(id_, config={**config, "auto.offset.reset": "earliest" if from_beginning(environment) else "latest"})
    lowering = QueryLowering(app, environment, SourceSerdes(query.properties))
    try:
        with called_from(query.id):  # descriptions and errors name the query, not the thread that starts it
            stream = lowering.add(query)
            if query.sink.is_table:
                _keep_rows(stream, query.sink, lowering)
            app.topology()
    except TopologyError as error:
        raise SqlStatementError(error.message, hint=error.hint) from error
    return app


def table_application(id_: str, source: DataSource, environment: Environment, config: Mapping[str, Any]) -> App:
    """Returns the application that keeps the rows of a SOURCE TABLE in a named store."""
    app = App(id_, config={**config, "auto.offset.reset": "earliest"})
    lowering = QueryLowering(app, environment, SourceSerdes(environment.properties))
    with called_from(source.name):
        _keep_rows(lowering.source_stream(source), source, lowering)
    return app


def _keep_rows(stream: Stream[Any, Any], source: DataSource, lowering: QueryLowering) -> None:
    """Keeps the rows of a table, those of windows as long as Kafka Streams does: a day, or the size of a window."""
    ttl = None if source.window is None else max(source.window.size or 0, _DAY_MS)
    stream.to_table(store=source.name, key=lowering.serdes.key(source), value=lowering.serdes.value(source), ttl=ttl)
