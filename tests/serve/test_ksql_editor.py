"""What the SQL editor of the console asks: completions, mistakes, the catalog, and topologies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.serve.sql_server import Sql, sql_server

pytestmark = pytest.mark.timeout(120)  # the first test of a worker starts a server and its SQL process


@pytest.fixture(scope="module")
def sql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sql]:
    with sql_server(tmp_path_factory.mktemp("editor") / "data") as (_server, opened):
        opened.run("CREATE TYPE money AS STRUCT<amount DECIMAL(9, 2), currency STRING>;")
        yield opened


def ask(sql: Sql, question: str, **body: Any) -> Any:
    answer = sql.http.post(f"/api/v1/sql/{question}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("text", "expected", "start"),
    [
        ("SELECT * FROM ord", {"text": "ORDERS", "kind": "stream"}, 14),
        ("SELECT * FROM spe", {"text": "SPENDING", "kind": "table"}, 14),
        ("SELECT bu", {"text": "BUYER", "kind": "column"}, 7),
        ("SELECT coun", {"text": "count", "kind": "function"}, 7),
        ("SEL", {"text": "SELECT", "kind": "keyword"}, 0),
        ("TERMINATE ", {"text": "CTAS_SPENDING_1", "kind": "query"}, 10),
        ("PRINT ", {"text": "'orders'", "kind": "topic"}, 6),
        ("CREATE STREAM x (m mon", {"text": "MONEY", "kind": "type"}, 19),
    ],
)
def test_the_word_before_the_cursor_is_completed(sql: Sql, text: str, expected: Any, start: int) -> None:
    answer = ask(sql, "complete", text=text + " behind the cursor", position=len(text))
    assert expected in answer["items"]
    assert answer["start"] == start
    assert len(answer["items"]) <= 200


def test_words_of_the_terminal_are_not_offered(sql: Sql) -> None:
    assert ask(sql, "complete", text="QUI", position=3)["items"] == []


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        ("", []),
        ("  -- only a comment\n", []),
        ("SELECT * FROM orders EMIT CHANGES;", []),
        ("CREATE STREAM a AS SELECT * FROM orders;\nCREATE STREAM b AS SELECT * FROM a;", []),
        ("SELECT *\n  FORM orders;", [(2, 3, 4)]),
        ("SELECT *\n  FROM nope;", [(2, 8, 4)]),
        ("SELECT buyr FROM spending;\nSELECT\n  total, x FROM spending;", [(1, 8, 4), (3, 10, 1)]),
        ("SELECT 'x FROM orders;", [(1, 8, 1)]),
        ("SET 'bootstrap.servers' = 'x'; DROP STREAM nope;", [(1, 1, 3), (1, 32, 4)]),
        ("EXPLAIN SELECT nope FROM orders;", [(1, 16, 4)]),
        ("INSERT INTO orders (buyer) VALUES (1);", [(1, 36, 1)]),
        ("TERMINATE nope;", [(1, 1, 9)]),
    ],
)
def test_mistakes_have_their_places(sql: Sql, text: str, mistakes: list[tuple[int, int, int]]) -> None:
    errors = ask(sql, "check", text=text)["errors"]
    assert [(error["line"], error["column"], error["length"]) for error in errors] == mistakes, errors
    assert all(error["message"] for error in errors)


def test_a_mistake_has_a_hint(sql: Sql) -> None:
    (error,) = ask(sql, "check", text="SELECT buyr FROM spending;")["errors"]
    assert error["hint"] == "did you mean 'BUYER'?"


def test_a_check_changes_nothing(sql: Sql) -> None:
    before = ask_catalog(sql)
    text = (
        "DROP TABLE spending; TERMINATE ALL; INSERT INTO orders (buyer) VALUES ('x'); DROP STREAM orders DELETE TOPIC;"
    )
    assert ask(sql, "check", text=text)["errors"] == []
    assert ask_catalog(sql) == before
    assert [row for row in sql.rows("SELECT buyer FROM orders;") if row == ["x"]] == []


def ask_catalog(sql: Sql) -> Any:
    return sql.http.get("/api/v1/sql/catalog").json()


def test_the_catalog_has_columns_with_types_and_queries_with_states(sql: Sql) -> None:
    catalog = ask_catalog(sql)
    (stream,), (table,), (query,) = catalog["streams"], catalog["tables"], catalog["queries"]
    assert (stream["name"], stream["topic"], stream["value_format"]) == ("ORDERS", "orders", "JSON")
    assert stream["columns"] == [
        {"name": "BUYER", "type": "STRING", "role": "KEY"},
        {"name": "CITY", "type": "STRING", "role": None},
        {"name": "AMOUNT", "type": "INTEGER", "role": None},
    ]
    assert table["columns"][0] == {"name": "BUYER", "type": "STRING", "role": "PRIMARY KEY"}
    assert (table["query"], table["application"]) == ("CTAS_SPENDING_1", "sql-as-SPENDING")
    assert (query["id"], query["state"], query["sink"]) == ("CTAS_SPENDING_1", "RUNNING", "SPENDING")
    assert catalog["types"] == [{"name": "MONEY", "type": "STRUCT<`AMOUNT` DECIMAL(9, 2), `CURRENCY` STRING>"}]


@pytest.mark.parametrize(
    ("text", "kind", "application"),
    [
        ("SELECT city, COUNT(*) FROM orders GROUP BY city EMIT CHANGES;", "PUSH", "explain"),
        ("EXPLAIN SELECT * FROM orders;", "PULL", "explain"),
        ("CREATE TABLE by_city AS SELECT city, COUNT(*) FROM orders GROUP BY city;", "PERSISTENT", "explain"),
        ("CTAS_SPENDING_1", "PERSISTENT", "sql-as-SPENDING"),
        ("EXPLAIN ctas_spending_1;", "PERSISTENT", "sql-as-SPENDING"),
    ],
)
def test_the_topology_of_a_query_is_a_graph(sql: Sql, text: str, kind: str, application: str) -> None:
    explained = ask(sql, "explain", text=text)
    assert (explained["kind"], explained["application_id"]) == (kind, application)
    nodes = [node for part in explained["sub_topologies"] for node in part["nodes"]]
    assert {"source"} <= {node["type"] for node in nodes}
    assert {"orders"} <= {topic for node in nodes for topic in node["topics"]}
    assert explained["columns"][0]["type"] == "STRING"


def test_a_pull_query_on_a_table_has_a_plan_instead_of_a_topology(sql: Sql) -> None:
    explained = ask(sql, "explain", text="SELECT total FROM spending WHERE buyer = 'ann';")
    assert (explained["kind"], explained["sub_topologies"]) == ("PULL", [])
    assert explained["plan"].startswith("read SPENDING\n  by key 'ann'")
    assert explained["columns"] == [{"name": "TOTAL", "type": "INTEGER"}]


@pytest.mark.parametrize(
    "text", ["", "SHOW TABLES;", "SELECT * FROM nope;", "EXPLAIN nope;", "SHOW TABLES; SHOW TABLES;"]
)
def test_what_has_no_topology_is_refused(sql: Sql, text: str) -> None:
    answer = sql.http.post("/api/v1/sql/explain", json={"text": text})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
