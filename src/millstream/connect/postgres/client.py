"""Connections to PostgreSQL, and its errors as errors of connectors. psycopg2 is imported on the first use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from millstream.config.secrets import Secret
from millstream.errors import ConnectorError, SetupError

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection, cursor as Cursor  # noqa: N812

CONNECT_TIMEOUT = 10
"""Seconds after which an attempt to connect fails."""

# The text forms of values must not depend on the configuration of the server, the database or the role.
TEXT_FORMATS = {
    "datestyle": "ISO",
    "intervalstyle": "iso_8601",
    "timezone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "xmloption": "content",
    "standard_conforming_strings": "on",
}

# A dead network is noticed within a minute, also while a query runs.
_KEEPALIVES = {"keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 6, "tcp_user_timeout": 45_000}

# Patterns in messages of a failed attempt to connect, which has no error code: the hint, and whether it may pass.
_CONNECT_FAILURES: tuple[tuple[str, str | None, bool], ...] = (
    (r"password authentication failed|no password supplied", "check database.user and database.password", False),
    (r"no pg_hba\.conf entry", "allow the connection in pg_hba.conf of the server", False),
    (r'database ".*" does not exist', "check database.dbname", False),
    (r'role ".*" does not exist', "check database.user", False),
    (r"must be superuser or replication role", "run: ALTER ROLE {user} REPLICATION", False),
    (r"permission denied to start WAL sender", "run: ALTER ROLE {user} REPLICATION", False),
    (r"exceeds max_wal_senders|max_wal_senders", "raise max_wal_senders on the server", True),
    (r"server does not support SSL|certificate|sslmode", "check database.sslmode", False),
    (r"permission denied for database", "run: GRANT CONNECT ON DATABASE {database} TO {user}", False),
)

# Classes of SQLSTATE that can pass by themselves: lost connections, lack of resources, the operator's intervention
# (shutdown, recovery), and conflicts with other transactions.
_PASSING = ("08", "53", "57", "40", "58", "55")


def load_psycopg2() -> ModuleType:
    """Imports psycopg2.

    Raises:
        SetupError: It is not installed.
    """
    try:
        psycopg2 = import_module("psycopg2")
        import_module("psycopg2.extras")
    except ImportError as error:
        hint = 'pip install "millstream[postgres]"'
        raise SetupError(f"connectors for PostgreSQL need psycopg2: {error}", hint=hint) from None
    return psycopg2


@dataclass(frozen=True, slots=True)
class Server:
    """A database on a server, and how to connect to it.

    Attributes:
        tls: Parameters of TLS: ``sslmode``, ``sslrootcert``, ``sslcert``, ``sslkey``.
    """

    host: str
    database: str
    user: str
    port: int = 5432
    password: Secret | None = None
    tls: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.database} at {self.host}:{self.port}"

    def connect(self, *, application: str = "millstream", replication: bool = False) -> Connection:
        """Connects, with text formats that do not depend on the server.

        Args:
            application: The name that ``pg_stat_activity`` shows.
            replication: Whether the connection is for commands of logical replication.

        Raises:
            ConnectorError: The attempt failed.
        """
        psycopg2 = load_psycopg2()
        options = {**TEXT_FORMATS, "statement_timeout": "0", "lock_timeout": "0"}
        arguments: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
            "dbname": self.database,
            "user": self.user,
            "connect_timeout": CONNECT_TIMEOUT,
            "application_name": application,
            "client_encoding": "UTF8",
            "options": " ".join(f"-c {name}={value}" for name, value in options.items()),
            **_KEEPALIVES,
            **self.tls,
        }
        if self.password is not None:
            arguments["password"] = self.password.reveal()
        if replication:
            arguments["connection_factory"] = psycopg2.extras.LogicalReplicationConnection
        try:
            connection: Connection = psycopg2.connect(**arguments)
        except psycopg2.Error as error:
            raise self._refused(error) from None
        if not replication:
            connection.autocommit = True
        return connection

    def _refused(self, error: Exception) -> ConnectorError:
        text = _first_line(error)
        for pattern, hint, may_pass in _CONNECT_FAILURES:
            if re.search(pattern, text):
                filled = hint and hint.format(user=quoted(self.user), database=quoted(self.database))
                return ConnectorError(f"PostgreSQL, {self}: {text}", hint=filled, may_pass=may_pass)
        return ConnectorError(f"PostgreSQL, {self}: {text}", may_pass=True)


@contextmanager
def connector_errors(action: str, *, hint: str | None = None) -> Iterator[None]:
    """Turns errors of psycopg2 into a `ConnectorError` that names what was done."""
    psycopg2 = load_psycopg2()
    try:
        yield
    except psycopg2.Error as error:
        raise connector_error(action, error, hint=hint) from error


def connector_error(action: str, error: Exception, *, hint: str | None = None) -> ConnectorError:
    """Returns the `ConnectorError` for an error of psycopg2."""
    code = getattr(error, "pgcode", None)
    psycopg2 = load_psycopg2()
    if code is None:
        lost = isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError | psycopg2.DatabaseError)
        return ConnectorError(f"PostgreSQL, {action}: {_first_line(error)}", hint=hint, may_pass=lost)
    message = f"PostgreSQL, {action}: {_first_line(error)} (SQLSTATE {code})"
    return ConnectorError(message, hint=hint, may_pass=code.startswith(_PASSING))


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def rows(cursor: Cursor, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    """Executes a query and returns its rows."""
    cursor.execute(statement, parameters)
    return cursor.fetchall()


def quoted(name: str) -> str:
    """Returns a name as an identifier in SQL.

    >>> print(quoted('the "orders" of today'))
    "the ""orders"" of today"
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Returns a text as a literal in SQL, also for commands of replication, which have no parameters.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"
