"""A server that answers as a test says, and records the requests."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Answer(NamedTuple):
    """An answer: a body that is not text is sent as JSON."""

    body: Any
    status: int = 200
    delay: threading.Event | None = None


Script = Callable[[Request], Answer]


class Server:
    """Answers with a function, which a test can replace at any time."""

    def __init__(self, answer: Script, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.connections: list[socket.socket] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                server.connections.append(self.connection)

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (ConnectionError, ValueError):
                    self.close_connection = True

            def respond(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                content = self.rfile.read(length)
                body = json.loads(content) if content.startswith(b"{") else content
                request = Request(self.command, self.path, dict(self.headers), body)
                server.requests.append(request)
                answer = server.answer(request)
                if answer.delay is not None:
                    answer.delay.wait(20)
                sent = answer.body.encode() if isinstance(answer.body, str) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            do_GET = do_POST = do_PUT = do_DELETE = respond  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"http{'' if tls is None else 's'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            for connection in self.connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def serving(answer: Script, port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    server = Server(answer, port, tls)
    try:
        yield server
    finally:
        server.stop()
