"""The SQL process: it owns the catalog and the queries of a data directory, and answers the calls of the server.

A process of its own, because queries take the interpreter for themselves while they work: in the process of the
server, they would delay each of its answers. It ends when the server ends, and the queries continue at the next start.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from millstream.errors import AlreadyRunningError, MillstreamError
from millstream.serve.ksql.codes import NAME
from millstream.serve.ksql.frames import packed, receive
from millstream.serve.ksql.permissions import Sender
from millstream.serve.ksql.service import Items, SqlService, failure
from millstream.serve.observe.reports import Reports
from millstream.serve.operations.masking import Masks
from millstream.sql.live.server import SqlServer
from millstream.text.escaping import trace_text

_RETRY_SECONDS = 0.5
_STUCK_SECONDS = 60.0
_END_SECONDS = 20.0


class SqlProcess:
    """Receives calls, and runs each in a thread.

    Args:
        connection: The connection to the server.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._calls: dict[int, _Call] = {}
        self._service: SqlService | None = None
        self._server: SqlServer | None = None
        self._ended = threading.Event()

    def run(self) -> None:
        """Serves until the server closes the connection."""
        options = receive(self._connection)
        if options is None:
            return
        opening = threading.Thread(target=self._open, args=(options["config"],), daemon=True)
        opening.start()
        while (message := receive(self._connection)) is not None:
            self._take(message)
        self._ended.set()
        for call in list(self._calls.values()):
            call.cancel()
        opening.join(_END_SECONDS)
        if self._server is not None:
            self._server.close()

    def _open(self, config: dict[str, Any]) -> None:
        """Opens the catalog, as soon as no other process has it."""
        told = ""
        while not self._ended.is_set():
            try:
                self._server = SqlServer(config, name=NAME)
            except MillstreamError as error:
                reason = _reason(error)
                if reason != told:
                    self.send(state="waiting", reason=reason)
                    told = reason
                self._ended.wait(_RETRY_SECONDS)
            except Exception as error:  # noqa: BLE001  (the server answers that there is no SQL, and goes on)
                _log(error)
                self.send(state="waiting", reason="SQL could not be started: the log of the server has the traceback")
                return
            else:
                for statement, problem in self._server.problems:
                    print(f"millstream: a recorded statement has no effect any more: {problem}: {statement}")  # noqa: T201
                self._service = SqlService(self._server, Masks(Reports(Path(config["state.dir"]))))
                self.send(state="ready", reason=None)
                return

    def _take(self, message: dict[str, Any]) -> None:
        id_ = message["id"]
        if "method" in message:
            call = self._calls[id_] = _Call(self, id_, message)
            call.start()
        elif id_ in self._calls:
            call = self._calls[id_]
            call.cancel() if "cancel" in message else call.go_on()

    def method(self, name: str) -> Callable[..., Any]:
        """Returns the method of a call."""
        assert self._service is not None, "the server calls after the state is ready"
        owner = self._service.editor if name in {"complete", "check", "catalog", "explain"} else self._service
        method: Callable[..., Any] = getattr(owner, name)
        return method

    def send(self, **message: Any) -> None:
        """Sends a message to the server; nothing if it has ended."""
        data = packed(message)
        with self._sending, contextlib.suppress(OSError):
            self._connection.sendall(data)

    def over(self, id_: int) -> None:
        """Forgets a call."""
        self._calls.pop(id_, None)


class _Call:
    """A call: its thread sends items as far as the server takes them."""

    def __init__(self, process: SqlProcess, id_: int, message: dict[str, Any]) -> None:
        self._process = process
        self._id = id_
        self._method: str = message["method"]
        self._arguments: dict[str, Any] = message["arguments"]
        self._ended = threading.Event()
        self._more = threading.Semaphore(0)

    def start(self) -> None:
        """Starts the thread."""
        threading.Thread(target=self._run, name=f"millstream-sql-{self._method}", daemon=True).start()

    def cancel(self) -> None:
        """Ends the call early."""
        self._ended.set()
        self._more.release()

    def go_on(self) -> None:
        """Lets the thread send the next items."""
        self._more.release()

    def _run(self) -> None:
        end: dict[str, Any] = {"id": self._id}
        arguments = dict(self._arguments)
        sender = Sender.of(arguments["sender"]) if "sender" in arguments else None
        if sender is not None:
            arguments["sender"] = sender
        try:
            end["result"] = self._result(arguments)
        except MillstreamError as error:
            end["error"] = failure(error)
        except Exception as error:  # noqa: BLE001  (it is logged; the server answers with its number only)
            _log(error)
            end["error"] = None
        finally:
            self._process.over(self._id)
        self._process.send(**end, changes=[] if sender is None else sender.changes)

    def _result(self, arguments: dict[str, Any]) -> Any:
        method = self._process.method(self._method)
        if self._method != "query":
            return method(**arguments)
        answer: Items = method(**arguments, ended=self._ended)
        with contextlib.closing(answer):
            while True:
                try:
                    items = next(answer)
                except StopIteration as end:
                    return end.value
                self._process.send(id=self._id, items=items)
                if not self._more.acquire(timeout=_STUCK_SECONDS):
                    return None  # the client does not read


def _reason(error: MillstreamError) -> str:
    if isinstance(error, AlreadyRunningError):
        return (
            "another process runs the SQL statements of this data directory: a shell (millstream sql), or another "
            f"server. End it, or start the shell with --name ({error.message})"
        )
    return error.message if error.hint is None else f"{error.message} ({error.hint})"


def _log(error: BaseException) -> None:
    print("millstream: a call of the SQL process failed:", trace_text(error), sep="\n", file=sys.stderr, flush=True)  # noqa: T201


def main() -> None:
    """Runs the process; its standard input is the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the server, which ends this process
    with socket.socket(fileno=0) as connection:
        SqlProcess(connection).run()
    sys.stdout.flush()
    os._exit(0)  # threads of statements may still wait for something


if __name__ == "__main__":
    main()
