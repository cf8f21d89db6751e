"""A server with streams and tables for tests of SQL over HTTP, and clients that speak HTTP/1.1 and HTTP/2."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.serve.servers import Server, start_server, wait_until

ORDERS = """
CREATE STREAM orders (buyer STRING KEY, city STRING, amount INT)
    WITH (kafka_topic='orders', value_format='JSON', partitions=1);
"""
SPENDING = "CREATE TABLE spending AS SELECT buyer, SUM(amount) AS total FROM orders GROUP BY buyer;"
INSERTS = """
INSERT INTO orders (buyer, city, amount) VALUES ('ann', 'Rome', 5);
INSERT INTO orders (buyer, city, amount) VALUES ('bob', NULL, 7);
INSERT INTO orders (buyer, city, amount) VALUES ('ann', 'Oslo', 3);
"""
EARLIEST = {"auto.offset.reset": "earliest"}


class Sql:
    """Sends statements to a server.

    Args:
        server: The server.
        token: The token that it sends.
        version: The version of HTTP: 1 or 2, without TLS.
    """

    def __init__(self, server: Server, token: str | None = None, version: int = 1) -> None:
        self._arguments = server, token, version
        address = f"http://127.0.0.1:{server.port}"
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(
            base_url=address, headers=headers, http1=version == 1, http2=version == 2, timeout=60.0, trust_env=False
        )

    @contextmanager
    def again(self) -> Iterator[Sql]:
        """Another client of the same kind, with connections of its own."""
        other = Sql(*self._arguments)
        try:
            yield other
        finally:
            other.close()

    def post(self, path: str, body: Any, accept: str | None = None) -> httpx.Response:
        """Sends POST."""
        headers = {"Accept": accept} if accept is not None else {"Accept": ""}
        content = body if isinstance(body, (str, bytes)) else json.dumps(body)
        return self.http.post(path, content=content, headers=headers)

    def ksql(self, text: str, **members: Any) -> httpx.Response:
        """Executes statements."""
        return self.post("/ksql", {"ksql": text, **members})

    def wait(self) -> None:
        """Waits until the server executes statements."""
        wait_until(lambda: self.ksql("SHOW TABLES;").status_code == 200, "the start of SQL", 100)

    def run(self, text: str, properties: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Executes statements, which must succeed; returns their entities."""
        answer = self.ksql(text, streamsProperties=dict(properties or {}))
        assert answer.status_code == 200, answer.text
        entities: list[dict[str, Any]] = answer.json()
        return entities

    def rows(self, text: str, properties: Mapping[str, Any] | None = None) -> list[list[Any]]:
        """Returns the rows of a query that ends."""
        answer = self.post("/query-stream", {"sql": text, "properties": dict(properties or {})})
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()][1:]

    @contextmanager
    def push(self, text: str, properties: Mapping[str, Any] | None = None) -> Iterator[tuple[str, Iterator[Any]]]:
        """Opens a push query; yields its id, and its rows as they come."""
        body = {"sql": text, "properties": dict(properties or {})}
        with self.http.stream("POST", "/query-stream", json=body) as answer:
            assert answer.status_code == 200, answer.read()
            lines = (json.loads(line) for line in answer.iter_lines())
            yield next(lines)["queryId"], lines

    def close(self) -> None:
        """Closes the connections."""
        self.http.close()


@contextmanager
def sql_server(data: Path, **options: Any) -> Iterator[tuple[Server, Sql]]:
    """Starts a server that needs no token, and creates ``ORDERS`` and ``SPENDING`` with some rows."""
    with start_server(data, is_open=True, **options) as server:
        sql = Sql(server)
        try:
            sql.wait()
            sql.run(ORDERS)
            sql.run(SPENDING, EARLIEST)
            sql.run(INSERTS)
            wait_until(lambda: ["ann", 8] in sql.rows("SELECT * FROM spending;"), "the query of the table")
            yield server, sql
        finally:
            sql.close()
