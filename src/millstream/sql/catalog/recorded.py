"""The catalog as plain data, which an application records with its topology."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.sql.catalog.catalog import Catalog, PersistentQuery
from millstream.sql.catalog.sources import DataSource, FormatInfo
from millstream.sql.syntax.tokens import tokens


def recorded(catalog: Catalog) -> dict[str, dict[str, str]]:
    """Returns the facts of each stream, table, type and query, by name: ``TABLE TOTALS``, ``INSERT INTO ORDERS``."""
    return dict(_definitions(catalog))


def _definitions(catalog: Catalog) -> Iterator[tuple[str, dict[str, str]]]:
    for name, type_ in catalog.types.items():
        yield f"TYPE {name}", {"type": str(type_)}
    creating = {query.id: query for query in catalog.queries.values() if query.id == query.sink.query}
    for source in catalog.sources.values():
        yield f"{source.kind} {source.name}", _source(source, creating.get(source.query or ""))
    for query in catalog.queries.values():
        if query.id not in creating:
            yield _insertion(query), {"query": plain_text(query.statement)}


def _insertion(query: PersistentQuery) -> str:
    """Returns the name of a query that inserts: the second one has its number, others the id of their statement."""
    own = query.name.removeprefix(f"{query.sink.name}.insert").removeprefix("-")
    return f"INSERT INTO {query.sink.name}" + (f" ({own})" if own else "")


def _source(source: DataSource, query: PersistentQuery | None) -> dict[str, str]:
    facts = {
        "columns": source.schema_text(),
        "topic": source.topic,
        "key format": _format(source.key_format),
        "value format": _format(source.value_format),
        "window": "" if source.window is None else f"{source.window.kind} {source.window.size or ''}".rstrip(),
        "timestamp": "" if source.timestamp is None else f"{source.timestamp.column} {source.timestamp.pattern or ''}",
        "query": "" if query is None else plain_text(query.statement),
    }
    return {name: fact for name, fact in facts.items() if fact}


def _format(format_: FormatInfo) -> str:
    options = [f"{name}={value}" for name, value in format_.properties]
    options += [] if format_.wrap is None else [f"wrap={format_.wrap}"]
    options += [] if format_.schema_id is None else [f"schema id={format_.schema_id}"]
    return " ".join((format_.name, *options))


def plain_text(statement: str) -> str:
    r"""Returns the text of a statement without comments, and with single spaces between its tokens.

    >>> plain_text("SELECT  a -- the first\nFROM s;")
    'SELECT a FROM s ;'
    """
    return " ".join(token.text for token in tokens(statement) if token.text)
