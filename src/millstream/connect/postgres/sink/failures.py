"""Errors of the server: which of them concern single rows, which may pass, and what to do about the others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from millstream.connect.postgres.client import connector_error
from millstream.errors import ConnectorError

if TYPE_CHECKING:
    from psycopg2 import Error

# Classes of SQLSTATE: data exceptions, violated constraints, views with a check, limits of values and indexes, and
# exceptions of triggers.
_ROWS = ("22", "23", "44", "54", "P0001")
_RETRIED = frozenset({"40001", "40P01"})
STALE = frozenset({"42P01", "42703", "42804", "0A000", "42P17"})
"""A table or a column has changed since the sink read the catalog. 0A000: a cached plan has another result type."""

DUPLICATE_IN_STATEMENT = "21000"

_HINTS = {
    "25006": "the server is a standby, or read-only: set connection.url to the primary",
    "42501": "grant the right to the user of the sink",
    "42P10": "create a unique index on the columns of the primary key, or change primary.key.fields",
    "428C9": "the column is generated: remove the field with a transform",
    "3F000": "create the schema",
    "53100": "free space on the disk of the server, or enlarge it: the sink then continues by itself",
    "53200": "the server is out of memory: reduce the load, or enlarge it",
    "55P03": "another session holds a lock: see pg_locks and pg_stat_activity",
}

_LINE = re.compile(r"[^\d,]*(\d+)")


def state_of(error: Error) -> str:
    """Returns the SQLSTATE of an error, or an empty text if the connection was lost."""
    return error.pgcode or ""


def is_retried(error: Error) -> bool:
    """Whether the transaction failed only because of others: a deadlock, or a serialization failure."""
    return state_of(error) in _RETRIED


def row_reason(error: Error) -> str | None:
    """Returns why the server refuses a row; None if the error does not concern a row."""
    if not state_of(error).startswith(_ROWS):
        return None
    detail = error.diag.message_detail
    # Details of constraints quote the row, which may be large.
    reason = " ".join(f"{error.diag.message_primary}{': ' if detail else ''}{detail or ''}".split())
    return reason if len(reason) <= 500 else f"{reason[:500]}…"


def copied_line(error: Error, relation: str) -> int | None:
    """Returns the line of COPY to a table that failed, from 0; None if the server does not name it.

    The words of the context have the language of the server. It begins with the name, which may contain anything.
    """
    context = error.diag.context or ""
    named = _LINE.match(context.removeprefix(f"COPY {relation},")) if context.startswith(f"COPY {relation},") else None
    return int(named[1]) - 1 if named else None


def failure(action: str, error: Error) -> ConnectorError:
    """Returns an error of the server as an error of the sink."""
    state = state_of(error)
    failed = connector_error(action, error, hint=_HINTS.get(state))
    failed.may_pass = failed.may_pass or state in {"25006", "25P03", "25P04"}
    return failed
