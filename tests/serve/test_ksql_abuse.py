"""Hostile statements over HTTP: each is executed or refused, never with a failure of the server."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import httpx
import pytest
from tests.serve.servers import Server
from tests.serve.sql_server import Sql, sql_server
from tests.sql.hostile import Hostile

pytestmark = pytest.mark.timeout(120)  # the first test of a worker starts a server and its SQL process
DEEP = 10_000


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Sql]]:
    with sql_server(tmp_path_factory.mktemp("abuse") / "data") as opened:
        yield opened


@pytest.fixture
def sql(running: tuple[Server, Sql]) -> Sql:
    return running[1]


@pytest.fixture(autouse=True)
def _no_traceback(running: tuple[Server, Sql]) -> Iterator[None]:
    yield
    assert "Traceback" not in running[0].text()


def refused(sql: Sql, text: str, path: str = "/ksql") -> str:
    """Sends a statement that must be refused; returns the message."""
    answer = sql.post(path, {"ksql": text})
    assert answer.status_code == 400, answer.text[:500]
    assert "Traceback" not in answer.text
    return str(answer.json()["message"])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM spending WHERE buyer = 'x' OR '1' = '1'; DROP TABLE spending; --",
        "SELECT * FROM spending WHERE buyer = 'x' UNION SELECT * FROM orders;",
        "SELECT * FROM (SELECT * FROM orders);",
        "SELECT * FROM file.`/etc/passwd`;",
        "SELECT * FROM jdbc.orders;",
        "SELECT java_method('java.lang.Runtime', 'exec', 'id') FROM spending;",
        "SELECT reflect('os', 'system', 'id') FROM spending;",
        "SELECT TRANSFORM(buyer) USING 'cat' FROM spending;",
        "SELECT __import__('os') FROM spending;",
        "SELECT buyer->__class__ FROM spending;",
        "SELECT `__class__` FROM spending;",
    ],
)
def test_injected_statements_are_refused_as_queries(sql: Sql, text: str) -> None:
    assert refused(sql, text, "/query")
    assert sql.run("DESCRIBE spending;")


@pytest.mark.parametrize(
    "text",
    [
        "ADD JAR '/tmp/evil.jar';",
        "CREATE FUNCTION f AS 'os.system';",
        "CREATE STREAM x (a INT) WITH (path='/etc/passwd', value_format='JSON');",
        "CREATE STREAM x (a INT) WITH (kafka_topic='../../etc/passwd', value_format='JSON', partitions=1);",
        "CREATE STREAM x (a INT) WITH (kafka_topic='a\nb', value_format='JSON', partitions=1);",
        "CREATE STREAM x (a INT) WITH (kafka_topic='%2e%2e%2f', value_format='JSON', partitions=1);",
        "CREATE STREAM x (a INT) WITH (kafka_topic='orders', value_format='PICKLE');",
        "CREATE STREAM `../x` (a INT) WITH (kafka_topic='orders', value_format='JSON');",
        "CREATE STREAM x (a INT) WITH (kafka_topic='many', value_format='JSON', partitions=2147483648);",
        "CREATE STREAM x (a INT) WITH (kafka_topic='many', value_format='JSON', partitions=1000000000);",
        "SET 'sasl.jaas.config' = 'com.sun.security.auth.module.JndiLoginModule required;';",
        "SET 'state.dir' = '/etc';",
        "CREATE STREAM x (a INT) WITH (kafka_topic='" + "t" * 250 + "', value_format='JSON', partitions=1);",
    ],
)
def test_statements_reach_nothing_outside_of_the_log(sql: Sql, text: str) -> None:
    assert refused(sql, text)
    assert [stream["name"] for stream in sql.run("SHOW STREAMS;")[0]["streams"]] == ["ORDERS"]


@pytest.mark.parametrize(
    "expression",
    [
        "(" * DEEP + "1" + ")" * DEEP,
        "ABS(" * DEEP + "amount" + ")" * DEEP,
        "amount" + " + 1" * DEEP,
        "NOT " * DEEP + "TRUE",
        "ARRAY[" * DEEP + "1" + "]" * DEEP,
        "CASE WHEN TRUE THEN " * DEEP + "1" + " END" * DEEP,
    ],
    ids=lambda text: text[:10],
)
def test_deep_expressions_are_refused_everywhere(sql: Sql, expression: str) -> None:
    query = f"SELECT {expression} AS e FROM orders EMIT CHANGES;"
    for path in ("/query", "/query-stream"):
        assert "nested more than" in refused(sql, query, path)
    assert "nested more than" in refused(sql, f"CREATE STREAM x AS {query}")
    for question in ("check", "explain"):
        answer = sql.http.post(f"/api/v1/sql/{question}", json={"text": query})
        assert answer.status_code in (200, 400), answer.text
        assert "nested more than" in answer.text


def test_large_requests_are_refused_and_others_are_answered_in_between(sql: Sql) -> None:
    text = "SELECT '" + "x" * 10_000_000 + "' FROM orders;"
    # The server closes the connection, maybe before it has received everything: the answer is lost then. A client of
    # its own sends each large request: a later one would meet the connection that is being closed.
    for path in ("/ksql", "/query", "/query-stream", "/close-query", "/api/v1/sql/check"):
        with suppress(httpx.TransportError), sql.again() as large:
            assert large.post(path, {"ksql": text}).status_code == 413
    with suppress(httpx.TransportError), sql.again() as large:
        answer = large.post("/inserts-stream", json.dumps({"target": "orders"}) + "\n" + "x" * 2_000_000)
        assert "exceeds 1000000 bytes" in answer.text
    assert sql.rows("SELECT * FROM spending WHERE buyer = 'bob';") == [["bob", 7]]


def test_results_that_would_be_large_are_null_or_refused(sql: Sql) -> None:
    for call in (
        "GENERATE_SERIES(1, 2147483647)",
        "GENERATE_SERIES(1, 9000000000000000000)",
        "LPAD('x', 2147483647, 'y')",
        "SPLIT(LPAD('x', 2000000000, ','), ',')",
        "REGEXP_EXTRACT('(a+)+$', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!')",
    ):
        answer = sql.post("/query", {"ksql": f"SELECT {call} AS c FROM spending WHERE buyer = 'bob';"})
        assert answer.status_code in (200, 400), (call, answer.text[:300])
        if answer.status_code == 200:
            (row,) = [item for item in answer.json() if "row" in item]
            assert row["row"]["columns"] == [None], call


def test_random_and_mutated_statements_never_fail_the_server(sql: Sql) -> None:
    chance = random.Random(5)
    for text in islice(Hostile(seed=5).statements(), 150):
        path = chance.choice(["/ksql", "/query", "/query-stream", "/api/v1/sql/check", "/api/v1/sql/explain"])
        body = {"ksql": text} if not path.startswith("/api") else {"text": text}
        if path == "/query" and "EMIT" in text:
            continue
        answer = sql.http.post(path, json=body)
        assert answer.status_code < 500, (path, text, answer.text)
    assert sql.rows("SELECT * FROM spending WHERE buyer = 'bob';") == [["bob", 7]]


@pytest.mark.parametrize("position", [0, 5, 10**5])
def test_hostile_texts_are_completed(sql: Sql, position: int) -> None:
    lone = sql.http.post("/api/v1/sql/complete", content=b'{"text": "\\ud800", "position": 1}')
    assert lone.status_code in (400, 422)
    for text in ("\x00" * 20, "'" * 50, "SELECT 'é\U0001f600 `" * 50, "-- " * 5000):
        answer = sql.http.post("/api/v1/sql/complete", json={"text": text, "position": position})
        assert answer.status_code == 200
