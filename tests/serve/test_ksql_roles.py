"""Which role executes which statement, on every way to SQL; tokens as Bearer and as the password of Basic."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.serve.servers import Server, start_server, wait_until
from tests.serve.sql_server import EARLIEST, INSERTS, ORDERS, SPENDING, Sql

from millstream.serve.access.roles import Role
from millstream.serve.access.tokens import Tokens

pytestmark = pytest.mark.timeout(120)  # the first test of a worker starts a server and its SQL process
VIEWER, OPERATOR, ADMIN = Role.VIEWER, Role.OPERATOR, Role.ADMIN

STATEMENTS = {
    "SHOW STREAMS;": VIEWER,
    "LIST TABLES EXTENDED;": VIEWER,
    "SHOW QUERIES;": VIEWER,
    "SHOW TOPICS;": VIEWER,
    "SHOW PROPERTIES;": VIEWER,
    "SHOW FUNCTIONS;": VIEWER,
    "DESCRIBE orders EXTENDED;": VIEWER,
    "DESCRIBE FUNCTION sum;": VIEWER,
    "EXPLAIN CTAS_SPENDING_1;": VIEWER,
    "EXPLAIN CREATE STREAM n AS SELECT * FROM orders;": VIEWER,
    "ASSERT TOPIC orders;": VIEWER,
    "SET 'auto.offset.reset' = 'earliest';": VIEWER,
    "DEFINE x = 'y';": VIEWER,
    "INSERT INTO orders (buyer) VALUES ('ann');": OPERATOR,
    "PAUSE CTAS_SPENDING_1;": OPERATOR,
    "RESUME CTAS_SPENDING_1;": OPERATOR,
    "PAUSE ALL;": OPERATOR,
    "RESUME ALL;": OPERATOR,
    "CREATE TYPE {name} AS STRUCT<x INT>;": ADMIN,
    "DROP TYPE IF EXISTS {name};": ADMIN,
    "CREATE STREAM {name} (x INT) WITH (kafka_topic='{name}', value_format='JSON', partitions=1);": ADMIN,
    "ALTER STREAM {name} ADD COLUMN y INT;": ADMIN,
    "CREATE STREAM {name}_2 AS SELECT * FROM {name};": ADMIN,
    "INSERT INTO {name}_2 SELECT * FROM {name};": ADMIN,
    "TERMINATE ALL;": ADMIN,
    "DROP STREAM {name}_2 DELETE TOPIC;": ADMIN,
    "DROP STREAM {name};": ADMIN,
}
"""The lowest role of each statement, in an order in which an admin can execute them."""

REFUSED_FOR_ALL = (
    "RUN SCRIPT 'x.sql';",
    "ALTER SYSTEM 'ksql.service.id' = 'x';",
    "TERMINATE CLUSTER;",
    "CREATE SOURCE CONNECTOR c WITH ('connector.class'='x');",
    "ADD JAR '/tmp/x.jar';",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_server(tmp_path_factory.mktemp("roles") / "data") as opened:
        admin = Sql(opened, opened.token(ADMIN))
        admin.wait()
        admin.run(ORDERS)
        admin.run(SPENDING, EARLIEST)
        admin.run(INSERTS)
        wait_until(lambda: admin.rows("SELECT * FROM spending WHERE buyer = 'ann';"), "the query of the table")
        admin.close()
        yield opened


@pytest.fixture(scope="module")
def clients(server: Server) -> Iterator[dict[Role, Sql]]:
    opened = {role: Sql(server, server.token(role)) for role in Role}
    yield opened
    for client in opened.values():
        client.close()


def test_each_statement_requires_its_role(clients: dict[Role, Sql]) -> None:
    restored = SPENDING.replace("CREATE TABLE", "CREATE OR REPLACE TABLE")
    for text, lowest in STATEMENTS.items():
        statement = text.format(name="fresh")
        for role, client in clients.items():
            if role < lowest:
                answer = client.ksql(statement)
                error = answer.json()
                assert (answer.status_code, error["error_code"]) == (403, 40300), (statement, role)
                needed = Role.VIEWER if role == Role.SCRAPER else lowest  # a scraper may not send statements at all
                assert f"needs the role {needed.name.lower()}" in error["message"]
                assert error.get("statementText") == (None if role == Role.SCRAPER else statement)
        for role in (lowest, ADMIN) if lowest < ADMIN else (ADMIN,):
            answer = clients[role].ksql(statement)
            assert answer.status_code == 200, (statement, role, answer.text)
    clients[ADMIN].run("DROP TABLE spending;" + restored.replace("CREATE OR REPLACE", "CREATE"), EARLIEST)
    assert len(STATEMENTS) == 27


def test_a_statement_that_is_not_permitted_keeps_all_others_from_being_executed(clients: dict[Role, Sql]) -> None:
    before = clients[VIEWER].rows("SELECT COUNT FROM orders;".replace("COUNT", "buyer"))
    text = "INSERT INTO orders (buyer) VALUES ('nobody'); DROP STREAM orders;"
    assert clients[OPERATOR].ksql(text).status_code == 403
    assert clients[VIEWER].rows("SELECT buyer FROM orders;") == before
    assert clients[VIEWER].ksql("SHOW TABLES; PAUSE ALL;").status_code == 403
    (queries,) = clients[VIEWER].run("SHOW QUERIES;")
    assert {query["state"] for query in queries["queries"]} == {"RUNNING"}


@pytest.mark.parametrize("text", REFUSED_FOR_ALL)
def test_some_statements_are_refused_for_admins_too(clients: dict[Role, Sql], text: str) -> None:
    assert clients[ADMIN].ksql(text).status_code == 400
    assert clients[VIEWER].ksql(text).status_code in (400, 403)


def test_viewers_query_and_print(clients: dict[Role, Sql]) -> None:
    viewer = clients[VIEWER]
    for text in ("SELECT * FROM orders EMIT CHANGES LIMIT 1;", "PRINT 'orders' FROM BEGINNING LIMIT 1;"):
        assert viewer.post("/query", {"ksql": text, "streamsProperties": EARLIEST}).status_code == 200
    for path in ("/info", "/healthcheck", "/clusterStatus", "/api/v1/sql/catalog"):
        assert viewer.http.get(path).status_code == 200


def test_a_statement_does_not_hide_in_a_request_for_a_query(clients: dict[Role, Sql]) -> None:
    for text in ("DROP STREAM orders;", "SELECT * FROM spending; DROP STREAM orders;"):
        for path in ("/query", "/query-stream"):
            assert clients[VIEWER].post(path, {"sql": text}).status_code == 403
            assert clients[ADMIN].post(path, {"sql": text}).status_code == 400
    assert clients[VIEWER].run("DESCRIBE orders;")


def test_operators_insert_rows_and_viewers_do_not(clients: dict[Role, Sql]) -> None:
    body = '{"target": "orders"}\n{"buyer": "tim"}\n'
    refused = clients[VIEWER].post("/inserts-stream", body)
    assert (refused.status_code, refused.json()["error_code"]) == (403, 40300)
    assert clients[OPERATOR].post("/inserts-stream", body).text == '{"status":"ok","seq":0}\n'


def test_a_push_query_is_closed_by_its_sender_and_by_admins_only(clients: dict[Role, Sql]) -> None:
    for closes in (VIEWER, ADMIN):
        with clients[VIEWER].push("SELECT * FROM orders EMIT CHANGES;") as (query, rows):
            refused = clients[OPERATOR].post("/close-query", {"queryId": query})
            assert (refused.status_code, refused.json()["error_code"]) == (403, 40300)
            assert clients[closes].post("/close-query", {"queryId": query}).status_code == 200
            assert list(rows) == []


@pytest.mark.parametrize("user", ["", "anyone", "ä:"])
def test_a_token_is_accepted_as_the_password_of_basic(server: Server, user: str) -> None:
    secret = server.token(VIEWER)
    password = base64.b64encode(f"{user.replace(':', '')}:{secret}".encode()).decode()
    sql = Sql(server)
    sql.http.headers["Authorization"] = f"Basic {password}"
    assert sql.run("SHOW TABLES;")
    sql.close()


ROUTES = [
    ("POST", "/ksql", {"ksql": "SHOW TABLES;"}),
    ("POST", "/query", {"ksql": "SELECT * FROM spending;"}),
    ("POST", "/query-stream", {"sql": "SELECT * FROM spending;"}),
    ("POST", "/inserts-stream", {"target": "orders"}),
    ("POST", "/close-query", {"queryId": "x"}),
    ("GET", "/info", None),
    ("GET", "/healthcheck", None),
    ("GET", "/clusterStatus", None),
]


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
def test_a_request_without_a_valid_token_is_refused_in_the_form_of_the_api(
    server: Server, method: str, path: str, body: Any
) -> None:
    headers = {"Authorization": "Bearer ms_00000000_" + "x" * 43}
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as http:
        answer = http.request(method, path, json=body, headers=headers)
    assert (answer.status_code, answer.json()["error_code"]) == (401, 40100)
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_changes_are_in_the_audit_log_without_their_values(server: Server, clients: dict[Role, Sql]) -> None:
    clients[OPERATOR].run("INSERT INTO orders (buyer, city) VALUES ('uma', 'secret-city');")
    clients[VIEWER].ksql("DROP STREAM orders;")
    lines = [json.loads(line) for line in (server.data / "access" / "audit.log").read_text().splitlines()]
    assert {(line["role"], line["path"], line["status"]) for line in lines} >= {
        ("operator", "/ksql", 200),
        ("viewer", "/ksql", 403),
    }
    assert "secret-city" not in json.dumps(lines)


def test_a_token_of_some_stores_reads_their_tables_only(server: Server, clients: dict[Role, Sql]) -> None:
    clients[ADMIN].run("CREATE TABLE hidden AS SELECT city, COUNT(*) AS n FROM orders GROUP BY city;", EARLIEST)
    wait_until(lambda: clients[ADMIN].rows("SELECT * FROM hidden;"), "the query of the table")
    token = Tokens(server.data).create("limited", ADMIN, stores=("sql-as-SPENDING/*",))
    limited = Sql(server, token)
    answer = limited.post("/query", {"ksql": "SELECT * FROM spending WHERE buyer = 'bob';"})
    assert answer.json()[1:] == [{"row": {"columns": ["bob", 7]}}]
    for path, text in (
        ("/query", "SELECT * FROM hidden;"),
        ("/query", "SELECT * FROM spending EMIT CHANGES;"),
        ("/query", "SELECT * FROM orders;"),
        ("/query-stream", "PRINT 'orders' FROM BEGINNING;"),
        ("/ksql", "CREATE STREAM copied AS SELECT * FROM orders;"),
    ):
        answer = limited.post(path, {"ksql": text})
        assert (answer.status_code, answer.json()["error_code"]) == (403, 40300), text
    limited.close()


@pytest.mark.slow
def test_a_push_query_ends_when_its_token_is_revoked(server: Server) -> None:
    sql = Sql(server, Tokens(server.data).create("leaver", VIEWER))
    with sql.push("SELECT * FROM orders EMIT CHANGES;") as (_query, rows):
        Tokens(server.data).revoke("leaver")
        assert list(rows) == []
    sql.close()
