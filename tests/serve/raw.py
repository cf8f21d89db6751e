"""Requests that no HTTP client sends, byte by byte."""

from __future__ import annotations

import socket

from tests.serve.servers import Server

from millstream.serve.access.roles import Role


def head_of(server: Server, path: str, method: str = "GET", more: str = "") -> str:
    """The line and the headers of a request of an admin, with further headers."""
    token = f"Authorization: Bearer {server.token(Role.ADMIN)}\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n{token}{more}\r\n"


def raw_answer(port: int, request: str | bytes) -> bytes:
    """Sends bytes as they are, and returns all that the server answers."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        answer = b""
        try:
            connection.sendall(request.encode() if isinstance(request, str) else request)
            while part := connection.recv(65_536):
                answer += part
                if b"\r\n\r\n" in answer:
                    break
        except OSError:  # it does not read a request that it refuses
            pass
        return answer
