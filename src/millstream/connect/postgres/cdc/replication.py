"""The stream of logical replication: its messages, its keepalives, and the reports of the position.

psycopg2 connects and starts the stream, and libpq's own functions, which psycopg2 has loaded, read and write it. The
reader of psycopg2 answers keepalives by itself, and reports a position that may be beyond the recorded one. A position
must not be reported before it is recorded: the recorded position is compared with that of the slot at each start.
"""

from __future__ import annotations

import ctypes
import select
import time
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from millstream.connect.postgres.client import Server, connector_errors, literal, load_psycopg2, quoted
from millstream.connect.postgres.lsn import show_lsn
from millstream.errors import ConnectorError, SetupError

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection, cursor as Cursor  # noqa: N812

_EPOCH = 946_684_800
_SILENCE = 30.0
"""Seconds without a message after which the server counts as lost. It is asked for an answer after half of them."""


class Wal(NamedTuple):
    """A message of the output plugin, and where it is in the log of the server."""

    start: int
    data: bytes


class Keepalive(NamedTuple):
    """The server has sent everything up to `end`."""

    end: int


@cache
def _libpq() -> ctypes.CDLL:
    """Returns the functions of the libpq that psycopg2 is linked with.

    Raises:
        SetupError: psycopg2 does not export them.
    """
    psycopg2 = load_psycopg2()
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    try:
        library = ctypes.CDLL(psycopg2._psycopg.__file__)
        signatures: dict[str, tuple[Any, list[Any]]] = {
            "PQgetCopyData": (ctypes.c_int, [pointer, ctypes.POINTER(pointer), ctypes.c_int]),
            "PQputCopyData": (ctypes.c_int, [pointer, text, ctypes.c_int]),
            "PQconsumeInput": (ctypes.c_int, [pointer]),
            "PQflush": (ctypes.c_int, [pointer]),
            "PQfreemem": (None, [pointer]),
            "PQgetResult": (pointer, [pointer]),
            "PQresultErrorMessage": (text, [pointer]),
            "PQresultErrorField": (text, [pointer, ctypes.c_int]),
            "PQclear": (None, [pointer]),
            "PQerrorMessage": (text, [pointer]),
        }
        for name, (result, arguments) in signatures.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        hint = 'pip install "millstream[postgres]", which has psycopg2-binary'
        raise SetupError(f"this build of psycopg2 does not give access to libpq: {error}", hint=hint) from None
    return library


class ReplicationStream:
    """A connection for logical replication.

    Attributes:
        received: The end of what the server has sent, of messages and keepalives.
    """

    def __init__(self, server: Server, application: str) -> None:
        self._server = server
        self._library = _libpq()
        self._connection: Connection = server.connect(application=application, replication=True)
        self._cursor: Cursor = self._connection.cursor()
        self._heard = time.monotonic()
        self._asked = False
        self.received = 0

    def command(self, statement: str) -> list[tuple[Any, ...]]:
        """Executes a command of the replication protocol, before the stream is started."""
        with connector_errors(statement.split(" LOGICAL", maxsplit=1)[0]):
            self._cursor.execute(statement)
            return self._cursor.fetchall() if self._cursor.description else []

    def start(self, slot: str, publication: str, *, messages: bool = False) -> None:
        """Starts the stream, at the position of the slot."""
        self.command("SET lock_timeout = 0")
        options = {"proto_version": "1", "publication_names": quoted(publication)}
        if messages:
            options["messages"] = "true"
        listed = ", ".join(f"{name} {literal(value)}" for name, value in options.items())
        with connector_errors(f"starting the stream of slot {slot!r}"):
            self._cursor.start_replication_expert(  # type: ignore[attr-defined]
                f"START_REPLICATION SLOT {quoted(slot)} LOGICAL 0/0 ({listed})", decode=False
            )
        self._heard = time.monotonic()

    def read(self) -> Wal | Keepalive | None:
        """Returns the next message that has arrived; None: there is none yet.

        Raises:
            ConnectorError: The connection is lost, or the server ended the stream.
        """
        data = self._copy_data()
        if data is None:
            self._check_silence()
            return None
        self._heard, self._asked = time.monotonic(), False
        if data[0] == ord("w"):
            start = int.from_bytes(data[1:9], "big")
            self.received = max(self.received, start)
            return Wal(start, data[25:])
        end = int.from_bytes(data[1:9], "big")
        self.received = max(self.received, end)
        if data[17]:  # an answer is requested
            self._answer = True
        return Keepalive(end)

    _answer = False

    @property
    def answer_requested(self) -> bool:
        """Whether the server waits for a report."""
        return self._answer

    def wait(self, seconds: float) -> None:
        """Waits until something arrives."""
        select.select([self._connection.fileno()], [], [], seconds)

    def report(self, flushed: int) -> None:
        """Reports that the log of the server is not needed before a position; 0: without a position.

        Raises:
            ConnectorError: The connection is lost.
        """
        self._answer = False
        now = int((time.time() - _EPOCH) * 1_000_000)
        request = time.monotonic() - self._heard > _SILENCE / 2 and not self._asked
        self._asked |= request
        numbers = (max(self.received, flushed), flushed, flushed, now)
        data = b"r" + b"".join(number.to_bytes(8, "big") for number in numbers) + bytes([request])
        if self._library.PQputCopyData(self._pointer, data, len(data)) != 1 or self._library.PQflush(self._pointer) < 0:
            raise self._lost()

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    @property
    def _pointer(self) -> int | None:
        return self._connection.pgconn_ptr

    def _copy_data(self) -> bytes | None:
        buffer = ctypes.c_void_p()
        size = self._library.PQgetCopyData(self._pointer, ctypes.byref(buffer), 1)
        if size == 0:
            if not self._library.PQconsumeInput(self._pointer):
                raise self._lost()
            size = self._library.PQgetCopyData(self._pointer, ctypes.byref(buffer), 1)
            if size == 0:
                return None
        if size < 0:
            raise self._lost()
        data = ctypes.string_at(buffer, size)
        self._library.PQfreemem(buffer)
        return data

    def _check_silence(self) -> None:
        silence = time.monotonic() - self._heard
        if silence > _SILENCE and self._asked:
            raise ConnectorError(
                f"PostgreSQL, {self._server}: the server has not answered for {silence:.0f} s", may_pass=True
            )

    def _lost(self) -> ConnectorError:
        """Returns the error with which the server has ended the stream."""
        message, code = self._library.PQerrorMessage(self._pointer), None
        result = self._library.PQgetResult(self._pointer)
        if result:
            message = self._library.PQresultErrorMessage(result) or message
            code = self._library.PQresultErrorField(result, ord("C"))
            self._library.PQclear(result)
        text = (message or b"").decode(errors="replace").strip().partition("\n")[0]
        state = (code or b"").decode()
        # Without a code, the connection is lost. Errors of the classes 22 to 28 and 42 to 44 do not pass: the
        # publication is missing, a right is revoked, …
        may_pass = state[:2] not in {"22", "25", "26", "28", "42", "44", "0A"}
        shown = f" (SQLSTATE {state})" if state else ""
        hint = None
        if state == "42704" and "publication" in text:
            hint = "create the publication again, and take a new snapshot: changes in between are not in the stream"
        return ConnectorError(
            f"PostgreSQL, {self._server}: the stream ended at {show_lsn(self.received)}: "
            f"{text or 'the server closed the connection'}{shown}",
            hint=hint,
            may_pass=may_pass,
        )
