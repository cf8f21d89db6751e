"""The server without its process and its connections: requests go straight to the guard, with all of its routes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from fastapi import FastAPI
from tests.serve.client import Answer

from millstream.serve.access.audit import Audit
from millstream.serve.access.authorization import Access
from millstream.serve.access.guard import Guard
from millstream.serve.access.limits import Rates
from millstream.serve.access.roles import Role
from millstream.serve.access.sessions import Sessions
from millstream.serve.access.tokens import Tokens
from millstream.serve.data import ServedData
from millstream.serve.options import ServeOptions
from millstream.serve.services import Services
from millstream.serve.web import create_web

HOST = "127.0.0.1:8088"
SECONDS = 30.0


@dataclass
class InProcess:
    """A server in this process.

    Attributes:
        guard: The outermost layer.
        web: The application of the web framework.
        access: Tokens, sessions and limits.
        data: The data directory.
    """

    guard: Guard
    web: FastAPI
    access: Access
    data: Path
    runner: asyncio.Runner

    def request(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        body: bytes = b"",
        json_body: Any = None,
        headers: Mapping[str, str] | None = None,
        address: str = "127.0.0.1",
    ) -> Answer:
        """Sends a request, and returns the answer. Of an answer that goes on for ever, its beginning."""
        given = {"host": HOST, **({} if token is None else {"authorization": f"Bearer {token}"}), **(headers or {})}
        if json_body is not None:
            body, given = json.dumps(json_body).encode(), {"content-type": "application/json", **given}
        return self.runner.run(self._request(method, path, body, given, address))

    async def _request(self, method: str, path: str, body: bytes, headers: Mapping[str, str], address: str) -> Answer:
        began, parts, start = asyncio.Event(), [], {}
        is_sent = False

        async def receive() -> dict[str, Any]:
            nonlocal is_sent
            if not is_sent:
                is_sent = True
                return {"type": "http.request", "body": body, "more_body": False}
            await began.wait()
            await asyncio.sleep(0.05)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                parts.append(message.get("body", b""))
                began.set()

        raw, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": unquote(raw),
            "raw_path": raw.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
            "client": (address, 50_000),
            "server": ("127.0.0.1", 8088),
        }
        await asyncio.wait_for(self.guard(scope, receive, send), SECONDS)
        named = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
        return Answer(start["status"], named, b"".join(parts))


@contextmanager
def in_process(data: Path, **options: Any) -> Iterator[InProcess]:
    """Creates a server over a data directory.

    Args:
        data: The data directory.
        options: Fields of `ServeOptions`.
    """
    given = ServeOptions(data=str(data), **options)
    services = Services(ServedData(given))
    access = Access(Tokens(data), Sessions(), is_open=given.is_open)
    web = create_web(services, access)
    guard = Guard(web, given.hosts(8088), given.origins(8088), Audit(data))
    with asyncio.Runner() as runner:
        try:
            yield InProcess(guard, web, access, data, runner)
        finally:
            runner.run(services.end_streams())
            services.close()


class Senders:
    """Sends requests with the token of a role."""

    def __init__(self, server: InProcess) -> None:
        self.server = server
        server.access.rates = Rates(per_second=1e9, failures=1e9)
        self._tokens = {role: server.access.tokens.create(role.name.lower(), role) for role in Role}

    def get(self, path: str, role: Role = Role.VIEWER, **query: Any) -> Any:
        text = "&".join(f"{name}={quote(str(value))}" for name, value in query.items() if value is not None)
        answer = self.server.request("GET", f"{path}?{text}" if text else path, token=self._tokens[role])
        assert answer.status < 500, answer
        return answer.json()

    def post(self, path: str, body: Any = None, role: Role = Role.OPERATOR) -> tuple[int, Any]:
        answer = self.server.request("POST", path, token=self._tokens[role], json_body=body)
        return answer.status, answer.json()
