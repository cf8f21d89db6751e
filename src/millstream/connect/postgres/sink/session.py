"""The connection of a sink: its transactions, and a limit on the time that they take."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from millstream.connect.postgres.client import Server, load_psycopg2
from millstream.connect.postgres.sink.failures import failure
from millstream.errors import ConnectorError

if TYPE_CHECKING:
    from psycopg2.extensions import cursor as Cursor  # noqa: N812

_IDLE_MS = 60_000
"""The server ends a transaction whose client has not sent a statement for so long: a process that hangs."""


class Session:
    """A connection to the target.

    Args:
        server: The database.
        settings: The settings of the sink.
        application: The name of the connection in ``pg_stat_activity``.
    """

    def __init__(self, server: Server, settings: Mapping[str, Any], application: str) -> None:
        self._limit_ms: int = settings["write.timeout.ms"]
        self._expired = False
        self._connection = server.connect(application=application)
        with self._named("preparing the session"), self._connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('lock_timeout', %s, false), "
                "set_config('idle_in_transaction_session_timeout', %s, false)",
                (str(settings["lock.timeout.ms"]), str(_IDLE_MS)),
            )
        self._connection.autocommit = False

    @contextmanager
    def transaction(self, action: str, *, raw: bool = False, rollback: bool = False) -> Iterator[Cursor]:
        """Runs statements in a transaction, which is committed at the end.

        Args:
            action: What it does, for messages.
            raw: Whether errors of psycopg2 are passed on, except those of a lost connection.
            rollback: Whether to take everything back at the end.
        """
        psycopg2 = load_psycopg2()
        try:
            with self._connection.cursor() as cursor:
                yield cursor
            if rollback:
                self._connection.rollback()
            else:
                self._connection.commit()
        except BaseException as raised:  # noqa: BLE001  (it is raised again)
            with suppress(psycopg2.Error):
                self._connection.rollback()
            # psycopg2 wraps the error of a COPY whose connection is lost at its start.
            error = raised.__cause__ if isinstance(raised, SystemError) and raised.__cause__ else raised
            if isinstance(error, psycopg2.Error) and (not raw or not error.pgcode or self._connection.closed):
                raise self._failure(action, error) from error
            raise error from error.__cause__

    def _failure(self, action: str, error: Any) -> ConnectorError:
        if not self._expired:
            return failure(action, error)
        return ConnectorError(
            f"PostgreSQL, {action}: the transaction took longer than {self._limit_ms} ms",
            hint="see pg_stat_activity for what the server does; write.timeout.ms sets the limit",
            may_pass=True,
        )

    @contextmanager
    def _named(self, action: str) -> Iterator[None]:
        try:
            yield
        except load_psycopg2().Error as error:
            raise failure(action, error) from error

    @contextmanager
    def time_limit(self) -> Iterator[None]:
        """Closes the connection if the body takes longer than the limit: a server that hangs never answers."""
        timer = threading.Timer(self._limit_ms / 1000, self._expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _expire(self) -> None:
        self._expired = True
        # libpq waits for this socket in another thread, and sees its end. The copy leaves the descriptor to libpq.
        with (
            suppress(OSError, load_psycopg2().Error),
            socket.socket(fileno=os.dup(self._connection.fileno())) as copy,
        ):
            copy.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the connection."""
        with suppress(load_psycopg2().Error):
            self._connection.close()
