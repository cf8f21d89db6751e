"""Errors of clauses that are wrong with any catalog."""

from __future__ import annotations

from millstream.errors import SqlStatementError


class PreparationError(SqlStatementError):
    """A property, a type or a column of a statement cannot be; ksqlDB reports it before it plans the statement."""
