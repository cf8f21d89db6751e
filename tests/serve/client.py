"""A plain HTTP client for tests: it sends exactly what a test says, and reads event streams."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import urlencode

SECONDS = 30.0
"""The longest wait for a byte of an answer."""


class Answer(NamedTuple):
    """An answer of a server. The names of its headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """The message of an error."""
        return str(self.json()["error"]["message"])


class Event(NamedTuple):
    """A server-sent event."""

    kind: str
    data: Any
    id: str | None


@dataclass(frozen=True)
class Client:
    """A client of a server.

    Attributes:
        host: The host of the server.
        port: Its port.
        token: The token that it sends, if any.
        headers: Further headers of each request.
        tls: The settings of TLS, if the server speaks it.
    """

    host: str
    port: int
    token: str | None = None
    headers: Mapping[str, str] | None = None
    tls: ssl.SSLContext | None = None

    def using(self, **changes: Any) -> Client:
        """A client that differs in some attributes, such as the token."""
        return replace(self, **changes)

    def get(self, path: str, **query: Any) -> Answer:
        """Sends GET; parameters of the query that are None are left out, those that are lists are repeated."""
        return self.request("GET", with_query(path, query))

    def post(self, path: str, body: Any = None, **query: Any) -> Answer:
        """Sends POST with a body in JSON."""
        return self.request("POST", with_query(path, query), json_body=body)

    def delete(self, path: str) -> Answer:
        """Sends DELETE."""
        return self.request("DELETE", path)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        json_body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Sends a request, and returns the answer."""
        connection = self.connect()
        try:
            given = {**(headers or {})}
            if json_body is not None:
                body, given = json.dumps(json_body).encode(), {"Content-Type": "application/json", **given}
            connection.request(method, path, body, self._headers(given))
            response = connection.getresponse()
            return Answer(response.status, _lower(response), response.read())
        finally:
            connection.close()

    def connect(self) -> http.client.HTTPConnection:
        """A connection of its own, for a request that no method of this class can send."""
        if self.tls is not None:
            return http.client.HTTPSConnection(self.host, self.port, timeout=SECONDS, context=self.tls)
        return http.client.HTTPConnection(self.host, self.port, timeout=SECONDS)

    @contextmanager
    def events(self, path: str, *, last_event_id: str | None = None, **query: Any) -> Iterator[Iterator[Event]]:
        """Opens an event stream. It yields the events as they arrive; comments are left out."""
        connection = self.connect()
        try:
            given = {"Accept": "text/event-stream"}
            if last_event_id is not None:
                given["Last-Event-ID"] = last_event_id
            connection.request("GET", with_query(path, query), headers=self._headers(given))
            response = connection.getresponse()
            assert response.status == 200, (response.status, response.read())
            yield _events(response)
        finally:
            connection.close()

    def _headers(self, given: Mapping[str, str]) -> dict[str, str]:
        token = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        return {**token, **(self.headers or {}), **given}


def with_query(path: str, query: Mapping[str, Any]) -> str:
    """A path with a query."""
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def _lower(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _events(response: http.client.HTTPResponse) -> Iterator[Event]:
    kind, data, number = "message", [], None
    while line := response.readline().decode():
        name, _, value = line.rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif name == "id":
            number = value
        elif not line.strip():
            if data:
                yield Event(kind, json.loads("\n".join(data)), number)
            kind, data = "message", []
