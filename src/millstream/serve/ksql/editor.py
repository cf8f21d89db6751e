"""What the editor of the console asks: completions, mistakes, the catalog, and the topology of a query."""

from __future__ import annotations

from typing import Any

from millstream.errors import SqlStatementError
from millstream.sql.catalog.sources import Column, DataSource, HeaderColumn
from millstream.sql.live.applications import application_id, table_application_id
from millstream.sql.live.server import SqlServer
from millstream.sql.requests.checking import mistakes
from millstream.sql.requests.completion import Completions, last_word
from millstream.sql.requests.explain import query_topology, statement_topology
from millstream.sql.requests.json_values import json_text
from millstream.sql.requests.properties import RequestSession

_MOST_ITEMS = 200


class Editor:
    """Answers questions about texts and the catalog. It changes nothing.

    Args:
        server: The catalog and the queries.
        name: The name of the catalog, with which the ids of its applications begin.
    """

    def __init__(self, server: SqlServer, name: str) -> None:
        self._server = server
        self._name = name
        topics = server.deployment.topics
        self._completions = Completions(
            server.session, lambda: (topic.name for topic in topics() if "-" not in topic.name), ("PAUSE", "RESUME")
        )

    def complete(self, text: str, position: int) -> str:
        """Returns the words and names that can take the place of the word at a position."""
        before = text[:position]
        items = [{"text": item, "kind": kind} for item, kind in self._completions.of(before)[:_MOST_ITEMS]]
        return json_text({"items": items, "start": len(before) - len(last_word(before))})

    def check(self, text: str) -> str:
        """Returns the mistakes of a text."""
        problems = mistakes(text, self._server.handler, RequestSession()) if text.strip() else []
        return json_text({"errors": [problem._asdict() for problem in problems]})

    def catalog(self) -> str:
        """Returns streams, tables, types and queries."""
        catalog = self._server.session.catalog.copy()
        sources = [self._source(source) for _name, source in sorted(catalog.sources.items())]
        environment, deployment = self._server.session.environment, self._server.deployment
        queries = [
            {
                "id": query.id,
                "statement": query.statement,
                "state": deployment.state(query),
                "problem": deployment.problem(query),
                "sources": [source.name for source in query.planned.sources],
                "sink": query.sink.name,
                "application": application_id(self._name, query),
            }
            for _id, query in sorted(catalog.queries.items())
        ]
        return json_text(
            {
                "streams": [source for source in sources if source["kind"] == "stream"],
                "tables": [source for source in sources if source["kind"] == "table"],
                "types": [{"name": name, "type": str(type_)} for name, type_ in sorted(environment.types.items())],
                "queries": queries,
            }
        )

    def _source(self, source: DataSource) -> dict[str, Any]:
        role = "PRIMARY KEY" if source.is_table else "KEY"
        columns = [
            *({**_column(column), "role": role} for column in source.key),
            *({**_column(column), "role": None} for column in source.value),
            *({**_column(column), "role": "HEADER"} for column in source.headers),
        ]
        application = table_application_id(self._name, source) if source.is_table and source.read_only else None
        query = self._server.session.catalog.queries.get(source.query or "")
        return {
            "name": source.name,
            "kind": source.kind.lower(),
            "topic": source.topic,
            "key_format": source.key_format.name,
            "value_format": source.value_format.name,
            "window": None if source.window is None else source.window.kind,
            "columns": columns,
            "query": source.query,
            "application": application if query is None else application_id(self._name, query),
            "statement": source.statement,
        }

    def explain(self, text: str) -> str:
        """Returns the topology of the query of a statement, or of a persistent query, whose id the text is.

        Raises:
            MillstreamError: The text is invalid, or has no query.
        """
        session = self._server.handler.session_of(RequestSession())
        id_ = text.strip().rstrip(";").strip()
        word, _, rest = id_.partition(" ")
        id_ = rest.strip() if word.upper() == "EXPLAIN" else id_
        query = session.catalog.queries.get(id_) or session.catalog.queries.get(id_.upper())
        if query is not None:
            application = application_id(self._name, query)
            facts = {
                "kind": "PERSISTENT",
                "columns": [_column(column) for column in (*query.sink.key, *query.sink.value)],
                "plan": None,
                "application": application,
            }
            return json_text({**facts, **query_topology(query, session.environment, application)})
        statements = self._server.handler.parse(text, RequestSession())
        if len(statements) != 1:
            raise SqlStatementError("the text has one statement", hint="EXPLAIN takes a SELECT or CREATE … AS")
        statement = statements[0]
        return json_text(statement_topology(statement, session))


def _column(column: Column | HeaderColumn) -> dict[str, Any]:
    return {"name": column.name, "type": str(column.type)}
