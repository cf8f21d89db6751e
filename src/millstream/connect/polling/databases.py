"""Databases behind Python's DB-API: connections, parameters, errors, and values that JSON can hold."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from millstream.config.secrets import Secret
from millstream.connect.postgres.client import connector_error
from millstream.connect.postgres.urls import server_of
from millstream.errors import ConfigError, ConnectorError
from millstream.text.escaping import error_text

Connect: TypeAlias = Callable[[], Any]
"""Returns a new DB-API connection."""

_POSTGRES = ("postgresql:", "postgres:", "jdbc:postgresql:")
_BUSY_SECONDS = 10.0


def connect_to(url: str, *, user: str | None = None, password: Secret | None = None, writes: bool = False) -> Connect:
    """Returns a function that connects to the database of a URL.

    Args:
        url: ``postgresql://…``, or the path of a SQLite file, also with ``sqlite:`` or ``jdbc:sqlite:`` in front.
        user: The user, in place of the one in the URL.
        password: The password, in place of the one in the URL.
        writes: Whether the connection is used to write.
    """
    if url.startswith(_POSTGRES):
        server = server_of(url, user=user, password=password)
        return lambda: server.connect(application="millstream")
    path = url.removeprefix("jdbc:").removeprefix("sqlite:").removeprefix("//")
    if "://" in url and not url.removeprefix("jdbc:").startswith("sqlite:"):
        raise ConfigError(
            "the URL of the database is neither of PostgreSQL nor of SQLite",
            hint="pass a function that connects, connect=…, for any other database",
        )
    return lambda: _sqlite(Path(path), "rw" if writes else "ro")


def _sqlite(path: Path, mode: str) -> sqlite3.Connection:
    if not path.exists():
        raise ConnectorError(f"SQLite: there is no file {path}", hint="correct connection.url", may_pass=False)
    return sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}", uri=True, timeout=_BUSY_SECONDS, isolation_level=None
    )


def is_postgres(connection: Any) -> bool:
    """Whether a connection is one of PostgreSQL."""
    return _module_name(connection).startswith("psycopg")


def is_sqlite(connection: Any) -> bool:
    """Whether a connection is one of SQLite."""
    return isinstance(connection, sqlite3.Connection)


def _module_name(connection: Any) -> str:
    return type(connection).__module__.partition(".")[0]


def _error_class(connection: Any) -> type[Exception]:
    error: type[Exception] | None = getattr(connection, "Error", None)
    if error is None:
        error = getattr(sys.modules.get(_module_name(connection)), "Error", None)
    return error or Exception


@contextmanager
def database_errors(connection: Any, action: str) -> Iterator[None]:
    """Turns errors of the driver into a `ConnectorError` that names what was done."""
    try:
        yield
    except _error_class(connection) as error:
        if is_postgres(connection):
            raise connector_error(action, error) from error
        name = type(error).__name__
        text = error_text(error).partition(": ")[2]
        # SQLite reports a missing table by the same class as a locked file.
        passes = name in {"OperationalError", "InterfaceError", "InternalError"} and "no such" not in text
        raise ConnectorError(f"{action}: {text}", may_pass=passes) from error


def close(connection: Any) -> None:
    """Closes a connection, also a broken one."""
    with suppress(_error_class(connection)):
        connection.close()


def end_transaction(connection: Any) -> None:
    """Ends the transaction of a query, which otherwise keeps old versions of rows, or a lock."""
    connection.rollback()


def placeholder(connection: Any) -> str:
    """Returns how the driver writes a parameter in a statement."""
    style = getattr(sys.modules.get(_module_name(connection)), "paramstyle", "qmark")
    marks = {"qmark": "?", "format": "%s", "pyformat": "%s"}
    if style not in marks:
        raise ConfigError(
            f"the driver {_module_name(connection)} has the parameter style {style!r}, which is not known"
        )
    return marks[style]


def names_of(cursor: Any) -> list[str]:
    """Returns the names of the columns of a result."""
    return [column[0] for column in cursor.description]


def plain(value: Any) -> Any:
    """Returns a value of a driver as one that converters write."""
    if value is None or isinstance(value, str | int | float | bool | bytes | Decimal | datetime | date | time):
        return value
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return str(value)


def to_position(value: Any) -> Any:
    """Returns a value of a column as JSON, from which `from_position` restores it.

    >>> to_position(datetime(2024, 2, 29, 12, tzinfo=UTC))
    {'datetime': '2024-02-29T12:00:00+00:00'}
    """
    if isinstance(value, datetime):
        return {"datetime": value.isoformat()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if value is None or isinstance(value, str | int | float):
        return value
    raise ConfigError(f"a column of the class {type(value).__name__} has no order that a source can follow")


def from_position(value: Any) -> Any:
    """Returns the value of a column from its form in a position."""
    if not isinstance(value, dict):
        return value
    [(kind, text)] = value.items()
    return datetime.fromisoformat(text) if kind == "datetime" else Decimal(text)


def milliseconds(value: Any, unit: str) -> float:
    """Returns a time of a column as milliseconds since the epoch. A time without a zone is UTC.

    >>> milliseconds("2024-02-29 12:00:00", "seconds") == milliseconds(1709208000, "seconds")
    True
    """
    if isinstance(value, int | float | Decimal):
        return float(value) * {"seconds": 1_000.0, "milliseconds": 1.0, "microseconds": 0.001}[unit]
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ConnectorError(f"a time is {value!r}", hint="store times as ISO 8601, or as numbers") from None
    if not isinstance(value, datetime):
        raise ConnectorError(f"a time has the class {type(value).__name__}", hint="name a column of timestamps")
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1_000


def row_of(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    """Returns a row as a dict."""
    return {name: plain(value) for name, value in zip(names, row, strict=True)}
