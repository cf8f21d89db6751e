"""The package `ksqldb` of PyPI, unchanged, against the server."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest
from ksqldb import KSQLdbClient  # type: ignore[import-untyped]
from tests.serve.sql_server import EARLIEST, sql_server

# The package does not close its connections.
pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with sql_server(tmp_path_factory.mktemp("clients") / "data") as (server, _sql):
        yield KSQLdbClient(f"http://127.0.0.1:{server.port}")


def test_statements_and_properties(client: Any) -> None:
    (streams,) = client.ksql("SHOW STREAMS;")
    assert [stream["name"] for stream in streams["streams"]] == ["ORDERS"]
    names = {listed["name"] for listed in client.get_properties()}
    assert "ksql.streams.auto.offset.reset" in names


def test_a_pull_query(client: Any) -> None:
    head, *rows = client.query_sync("SELECT * FROM spending WHERE buyer = 'ann';")
    assert head["columnNames"] == ["BUYER", "TOTAL"]
    assert rows == [["ann", 8]]


def test_inserts_and_a_push_query_that_is_closed(client: Any) -> None:
    acknowledged = client.inserts_stream("orders", [{"BUYER": "zoe", "AMOUNT": 1}, {"BUYER": "zoe", "AMOUNT": 2}])
    assert acknowledged == [{"status": "ok", "seq": 0}, {"status": "ok", "seq": 1}]

    async def amounts() -> list[Any]:
        rows: list[Any] = []
        text = "SELECT amount FROM orders WHERE buyer = 'zoe' EMIT CHANGES;"
        query = ""
        async for row in client.query_async(text, stream_properties=EARLIEST, timeout=30):
            if isinstance(row, dict):
                query = row["queryId"]
                continue
            rows.append(row)
            if len(rows) == 2:
                assert await asyncio.to_thread(client.close_query, query)
        return rows

    assert asyncio.run(amounts()) == [[1], [2]]
