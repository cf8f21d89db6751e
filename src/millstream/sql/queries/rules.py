"""The common part of the messages of refused pull queries, and the properties that allow more queries."""

from __future__ import annotations

from millstream.errors import SqlStatementError
from millstream.sql.catalog.sources import DataSource
from millstream.sql.planner.environment import Environment
from millstream.sql.syntax import tree


def enabled(environment: Environment, name: str) -> bool:
    """Whether a property is on; all of them are unless the session sets them."""
    return str(environment.properties.get(name, "true")).lower() != "false"


def help_text(message: str) -> str:
    """Returns the message of a refused pull query with where to read on."""
    return (
        f"{message} See https://cnfl.io/queries for more info.\nAdd EMIT CHANGES if you intended to issue a push query."
    )


def where_error(message: str, source: DataSource, at: tree.Position) -> SqlStatementError:
    """Returns the error of a condition that finds no rows by key."""
    windows = "; WINDOWSTART and WINDOWEND can be compared with =, <, <=, > and >=" if source.window is not None else ""
    return SqlStatementError(
        help_text(f"{message}. "),
        hint="name every key column with = in each alternative of WHERE, or set ksql.query.pull.table.scan.enabled=true"
        + windows,
        at=at,
    )
