"""ksqlDB's API over HTTP/1.1 and HTTP/2: paths, content types, rows and errors."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.serve.servers import Server, start_server, wait_until
from tests.serve.sql_server import EARLIEST, Sql, sql_server

from millstream.serve.ksql.formats import DELIMITED, JSON, KSQL_JSON, PROTOBUF

pytestmark = pytest.mark.timeout(120)  # the first test of a worker starts a server and its SQL process
PULL = "SELECT * FROM spending WHERE buyer = 'ann';"
PUSH = "SELECT buyer, city, amount FROM orders EMIT CHANGES LIMIT 2;"
COLUMNS = {"columnNames": ["BUYER", "CITY", "AMOUNT"], "columnTypes": ["STRING", "STRING", "INTEGER"]}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Sql]]:
    with sql_server(tmp_path_factory.mktemp("ksql") / "data", most_streams=5) as opened:
        yield opened


@pytest.fixture(scope="module")
def server(running: tuple[Server, Sql]) -> Server:
    return running[0]


@pytest.fixture(scope="module", params=[1, 2], ids=["HTTP/1.1", "HTTP/2"])
def sql(request: pytest.FixtureRequest, server: Server) -> Iterator[Sql]:
    opened = Sql(server, version=request.param)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def http1(running: tuple[Server, Sql]) -> Sql:
    return running[1]


# ----- /ksql ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, KSQL_JSON),
        ("*/*", KSQL_JSON),
        (KSQL_JSON, KSQL_JSON),
        (JSON, JSON),
        ("application/vnd.ksql.v1+json; q=0.2, application/json; q=0.9", JSON),
    ],
)
def test_statements_return_an_entity_each_in_the_content_type_that_is_preferred(
    sql: Sql, accept: str | None, content_type: str
) -> None:
    answer = sql.post("/ksql", {"ksql": "SHOW STREAMS; LIST TABLES;"}, accept)
    assert (answer.status_code, answer.headers["content-type"]) == (200, content_type)
    streams, tables = answer.json()
    assert (streams["@type"], streams["statementText"]) == ("streams", "SHOW STREAMS;")
    assert streams["streams"][0]["name"] == "ORDERS"
    assert [table["name"] for table in tables["tables"]] == ["SPENDING"]


@pytest.mark.parametrize(("version", "spoken"), [(1, "HTTP/1.1"), (2, "HTTP/2")])
def test_both_versions_of_http_are_spoken_without_tls(server: Server, version: int, spoken: str) -> None:
    sql = Sql(server, version=version)
    assert sql.post("/ksql", {"ksql": "SHOW TABLES;"}).http_version == spoken
    sql.close()


@pytest.mark.parametrize(
    ("body", "error_code", "message"),
    [
        ({"ksql": "SELECT * FROM spending;"}, 40002, "should be issued to the websocket endpoint '/query'"),
        ({"ksql": "CREATE STREAM o AS SELECT nope FROM orders;"}, 40001, "'NOPE' cannot be resolved"),
        ({"ksql": "DROP STREAM order;"}, 40001, "ORDER"),
        ({"ksql": "RUN SCRIPT 'x.sql';"}, 40001, "only the shell runs scripts"),
        ({"ksql": "SHOW STREAMS; SHOW"}, 40001, "line 1:"),
        ({"ksql": "SHOW TABLES;", "streamsProperties": {"ksql.service.id": "x"}}, 40000, "Unknown property"),
        ({"ksql": "SHOW TABLES;", "streamsProperties": {"bootstrap.servers": "evil:1"}}, 40000, "Unknown property"),
        ({"ksql": "SHOW TABLES;", "streamsProperties": {"auto.offset.reset": "x"}}, 40000, "earliest or latest"),
        ({"ksql": "SHOW TABLES;", "streamsProperties": ["x"]}, 40000, "not valid"),
        ({"ksql": 5}, 40000, "not valid"),
        ({}, 40000, "needs the statements"),
        ("{", 40000, "not valid"),
        ('{"ksql": "\\ud800"}', 40000, "not valid"),
        (b"\xff", 40000, "not valid"),
        ("", 40000, "not valid"),
        ("[" * 10_000, 40000, "not valid"),
    ],
)
def test_an_invalid_request_is_refused_with_the_error_of_the_api(
    http1: Sql, body: Any, error_code: int, message: str
) -> None:
    answer = http1.post("/ksql", body)
    error = answer.json()
    assert (answer.status_code, error["error_code"]) == (400, error_code)
    assert message in error["message"]
    assert error["@type"] == ("generic_error" if error_code == 40000 else "statement_error")
    assert ("statementText" in error) == (error_code != 40000)


def test_an_invalid_statement_keeps_those_before_it_from_being_executed(http1: Sql) -> None:
    answer = http1.ksql("CREATE TYPE point AS STRUCT<x INT>; CREATE STREAM y (p pont) WITH (kafka_topic='orders');")
    assert answer.status_code == 400
    assert answer.json()["statementText"].startswith("CREATE STREAM y")
    assert http1.run("SHOW TYPES;")[0]["types"] == {}


def test_variables_and_properties_hold_for_one_request(http1: Sql) -> None:
    answer = http1.ksql("DESCRIBE ${name};", sessionVariables={"name": "orders"})
    assert answer.json()[0]["sourceDescription"]["name"] == "ORDERS"
    assert http1.ksql("DESCRIBE ${name};").status_code == 400
    listed = http1.run("SHOW PROPERTIES;", EARLIEST)[0]
    assert listed["overwrittenProperties"] == ["ksql.streams.auto.offset.reset"]
    assert http1.run("SHOW PROPERTIES;")[0]["overwrittenProperties"] == []


def test_a_failed_assertion_has_its_own_status(http1: Sql) -> None:
    answer = http1.ksql("ASSERT TOPIC nowhere TIMEOUT 1 MILLISECOND;")
    assert (answer.status_code, answer.json()["error_code"]) == (417, 41700)
    assert http1.ksql("ASSERT TOPIC nowhere TIMEOUT 1 HOUR;").status_code == 400


# ----- queries -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/query", "/query-stream"])
@pytest.mark.parametrize("accept", [None, KSQL_JSON, JSON, DELIMITED, PROTOBUF])
def test_a_pull_query_returns_its_rows_in_each_content_type(sql: Sql, path: str, accept: str | None) -> None:
    answer = sql.post(path, {"ksql" if path == "/query" else "sql": PULL}, accept)
    kind = accept or (KSQL_JSON if path == "/query" else DELIMITED)
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind), answer.text
    if kind == DELIMITED:
        head, *rows = [json.loads(line) for line in answer.text.splitlines()]
    else:
        head, *rows = answer.json()
    if kind == DELIMITED or (kind == JSON and path == "/query-stream"):
        assert head.pop("queryId").startswith("query_")
        assert head == {"columnNames": ["BUYER", "TOTAL"], "columnTypes": ["STRING", "INTEGER"]}
        assert rows == [["ann", 8]]
        return
    assert head["header"]["schema"] == "`BUYER` STRING KEY, `TOTAL` INTEGER"
    if kind == PROTOBUF:
        assert "string BUYER = 1;" in head["header"]["protoSchema"]
        assert rows == [{"row": {"protobufBytes": base64.b64encode(b"\x0a\x03ann\x10\x08").decode()}}]
    else:
        assert rows == [{"row": {"columns": ["ann", 8]}}]


def test_a_push_query_with_a_limit_says_why_it_ends(sql: Sql) -> None:
    request = {"ksql": PUSH, "streamsProperties": EARLIEST}
    head, *rows = sql.post("/query", request).json()
    assert head["header"]["schema"] == "`BUYER` STRING, `CITY` STRING, `AMOUNT` INTEGER"
    assert rows == [
        {"row": {"columns": ["ann", "Rome", 5]}},
        {"row": {"columns": ["bob", None, 7]}},
        {"finalMessage": "Limit Reached"},
    ]
    lines = sql.post("/query-stream", {"sql": PUSH, "properties": EARLIEST}).text.splitlines()
    first = json.loads(lines[0])
    assert first.pop("queryId").startswith("transient_ORDERS_")
    assert first == COLUMNS
    assert list(map(json.loads, lines[1:])) == [["ann", "Rome", 5], ["bob", None, 7]]


def test_a_pull_query_on_a_stream_returns_what_is_there(sql: Sql) -> None:
    answer = sql.post("/query", {"ksql": "SELECT amount FROM orders WHERE buyer = 'bob';"}).json()
    assert answer[1:] == [{"row": {"columns": [7]}}, {"finalMessage": "Query Completed"}]


def test_print_returns_lines_of_text(sql: Sql) -> None:
    answer = sql.post("/query", {"ksql": "PRINT 'orders' FROM BEGINNING LIMIT 2;"})
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    assert lines[:2] == ["Key format: KAFKA", "Value format: JSON"]
    assert [line.split(", ")[1] for line in lines[2:]] == ['key: "ann"', 'key: "bob"']


@pytest.mark.parametrize("path", ["/ksql", "/query", "/query-stream", "/inserts-stream", "/info"])
def test_a_content_type_that_no_answer_has_is_refused(http1: Sql, path: str) -> None:
    if path == "/info":
        answer = http1.http.get(path, headers={"Accept": "text/html"})
    else:
        answer = http1.post(path, {"ksql": "SHOW TABLES;"}, "text/html")
    assert (answer.status_code, answer.json()["error_code"]) == (406, 40600)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * FROM nowhere;", "NOWHERE does not exist"),
        ("SELECT * FROM spending; SELECT * FROM spending;", "has one SELECT"),
        ("SHOW TABLES;", "has one SELECT"),
        ("PRINT 'nowhere';", "Could not find topic"),
        ("SELECT nope FROM orders EMIT CHANGES;", "Hint: did you mean"),
        ("", "has one SELECT"),
    ],
)
def test_an_invalid_query_is_refused_before_the_answer_begins(http1: Sql, text: str, message: str) -> None:
    text = text.replace("nope", "buyr")
    answer = http1.post("/query-stream", {"sql": text})
    assert answer.status_code == 400
    assert message in answer.json()["message"]


def test_a_push_query_sends_rows_as_they_come_until_it_is_closed(sql: Sql, http1: Sql) -> None:
    with sql.push("SELECT buyer, amount FROM orders WHERE city = 'Lima' EMIT CHANGES;") as (query, rows):
        http1.run("INSERT INTO orders VALUES ('eve', 'Lima', 11);")
        assert next(rows) == ["eve", 11]
        assert sql.post("/close-query", {"queryId": query}).status_code == 200
        assert list(rows) == []
    answer = sql.post("/close-query", {"queryId": query})
    assert (answer.status_code, answer.json()["message"]) == (400, f"No query with id {query}")


def test_a_row_of_an_array_is_a_whole_line_as_soon_as_it_comes(sql: Sql, http1: Sql) -> None:
    body = {"ksql": "SELECT buyer FROM orders WHERE city = 'Bonn' EMIT CHANGES;"}
    with sql.http.stream("POST", "/query", json=body, headers={"Accept": KSQL_JSON}) as answer:
        lines = answer.iter_lines()
        first = next(lines)
        head = json.loads(first.removeprefix("[").removesuffix(","))
        http1.run("INSERT INTO orders VALUES ('kim', 'Bonn', 1);")
        row = next(lines)
        assert row == '{"row":{"columns":["kim"]}},'
        assert sql.post("/close-query", {"queryId": head["header"]["queryId"]}).status_code == 200
        rest = list(lines)
    assert json.loads(first + row + "".join(rest))[-1] == {"finalMessage": "Query Completed"}


def test_push_queries_are_limited_and_end_when_their_clients_go_away(server: Server, http1: Sql) -> None:
    text = {"sql": "SELECT * FROM orders EMIT CHANGES;"}
    clients = [Sql(server, version=1 + number % 2) for number in range(5)]
    for client in clients:
        client.opened = client.http.stream("POST", "/query-stream", json=text)  # type: ignore[attr-defined]
        assert client.opened.__enter__().status_code == 200  # type: ignore[attr-defined]
    refused = http1.post("/query-stream", text)
    assert (refused.status_code, refused.json()["error_code"], refused.headers["retry-after"]) == (429, 42900, "1")
    assert http1.rows(PULL) == [["ann", 8]]
    for client in clients:
        client.opened.__exit__(None, None, None)  # type: ignore[attr-defined]
        client.close()

    def is_admitted() -> bool:
        with http1.http.stream("POST", "/query-stream", json=text) as answer:
            return answer.status_code == 200

    wait_until(is_admitted, "the end of the queries")


def test_a_row_that_leaves_a_table_is_a_tombstone_where_the_format_has_one(http1: Sql) -> None:
    text = "SELECT buyer, total FROM spending WHERE total < 50 EMIT CHANGES LIMIT 2;"
    http1.run("INSERT INTO orders VALUES ('fay', 'Rome', 49);")
    wait_until(lambda: http1.rows("SELECT * FROM spending WHERE buyer = 'fay';"))
    http1.run("INSERT INTO orders VALUES ('fay', 'Rome', 49);")
    answer = http1.post(
        "/query", {"ksql": text.replace("WHERE", "WHERE buyer = 'fay' AND"), "streamsProperties": EARLIEST}
    )
    assert answer.json()[1:3] == [
        {"row": {"columns": ["fay", 49]}},
        {"row": {"columns": ["fay", None], "tombstone": True}},
    ]


# ----- /inserts-stream -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accept", [None, DELIMITED, JSON, KSQL_JSON])
def test_inserted_rows_are_acknowledged_in_order(sql: Sql, accept: str | None) -> None:
    lines = ['{"target": "ORDERS"}', '{"buyer": "gil", "AMOUNT": 1}', "", '{"`BUYER`": "gil", "city": "Bern"}']
    answer = sql.post("/inserts-stream", "\n".join(lines), accept)
    acknowledged = [{"status": "ok", "seq": 0}, {"status": "ok", "seq": 1}]
    assert answer.headers["content-type"] == (accept or DELIMITED)
    if accept in (None, DELIMITED):
        assert list(map(json.loads, answer.text.splitlines())) == acknowledged
    else:
        assert answer.json() == acknowledged
    rows = sql.rows("SELECT city, amount FROM orders WHERE buyer = 'gil';")
    assert rows[-2:] == [[None, 1], ["Bern", None]]


@pytest.mark.parametrize("accept", [DELIMITED, JSON])
@pytest.mark.parametrize(
    "bad",
    [
        '{"nope": 1}',
        "{",
        '{"rowtime": -1}',
        '{"windowstart": 1}',
        '{"buyer": "\\ud800"}',
        "[1]",
        '{"amount": "x"}',
        '{"amount": 1.5}',
        '{"amount": 2147483648}',
        "[" * 20_000,
    ],
)
def test_the_first_invalid_row_ends_the_inserts_with_an_error(http1: Sql, bad: str, accept: str) -> None:
    good = '{"buyer": "hal", "amount": 1}'
    before = len(http1.rows("SELECT amount FROM orders WHERE buyer = 'hal';"))
    answer = http1.post("/inserts-stream", f'{{"target": "orders"}}\n{good}\n{bad}\n{good}', accept)
    items = answer.json() if accept == JSON else list(map(json.loads, answer.text.splitlines()))
    assert items[0] == {"status": "ok", "seq": 0}
    assert (items[1]["status"], items[1]["seq"], items[1]["error_code"]) == ("error", 1, 40000)
    assert len(items) == 2
    assert len(http1.rows("SELECT amount FROM orders WHERE buyer = 'hal';")) == before + 1


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("", "names the target"),
        ("[]", "not valid"),
        ('{"target": "nowhere"}', "NOWHERE does not exist"),
        ('{"target": "orders", "properties": {"x": 1}}', "Unknown property"),
    ],
)
def test_inserts_need_a_target_that_exists(http1: Sql, first: str, message: str) -> None:
    answer = http1.post("/inserts-stream", first)
    assert answer.status_code == 400
    assert message in answer.json()["message"]


def test_values_of_all_types_are_inserted_as_json_has_them(http1: Sql) -> None:
    columns = (
        "b BOOLEAN, i INT, l BIGINT, d DOUBLE, n DECIMAL(5, 2), s STRING, y BYTES, da DATE, ti TIME, ts TIMESTAMP, "
        "a ARRAY<INT>, m MAP<STRING, DOUBLE>, o STRUCT<x INT, `y` ARRAY<STRING>>"
    )
    http1.run(f"CREATE STREAM every ({columns}) WITH (kafka_topic='every', value_format='JSON', partitions=1);")
    rows: list[dict[str, Any]] = [
        {"b": True, "i": -1, "l": 2**63 - 1, "d": 1, "n": 1.5, "s": "é", "y": "YQ==", "da": "2020-01-02"},
        {"ti": "10:15", "ts": "2020-01-02T10:15:30", "a": [1, None], "m": {"k": 0.5}, "o": {"X": 1, "`y`": ["z"]}},
        {"d": "NaN", "n": "12.30", "a": [], "m": {}, "o": {}},
    ]
    body = "\n".join(map(json.dumps, [{"target": "every"}, *rows]))
    assert '"error"' not in http1.post("/inserts-stream", body).text
    none = [None] * 5
    assert http1.rows("SELECT * FROM every;") == [
        [True, -1, 2**63 - 1, 1.0, 1.5, "é", "YQ==", "2020-01-02", *none],
        [*none, None, None, None, "10:15", "2020-01-02T10:15:30.000", [1, None], {"k": 0.5}, {"X": 1, "y": ["z"]}],
        [None, None, None, "NaN", 12.3, *none, [], {}, {"X": None, "y": None}],
    ]
    wrong = {
        "b": 1,
        "i": True,
        "l": 2**63,
        "d": "x",
        "n": 1000,
        "s": 5,
        "y": "?",
        "da": "2020-02-30",
        "ti": "25:00",
        "ts": "x",
        "a": {},
        "m": {"k": "v"},
        "o": {"nope": 1},
    }
    for name, value in wrong.items():
        answer = http1.post("/inserts-stream", "\n".join(map(json.dumps, [{"target": "every"}, {name: value}])))
        assert json.loads(answer.text)["status"] == "error", (name, answer.text)


def test_rows_are_acknowledged_while_the_request_goes_on(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:

        def chunk(text: str) -> bytes:
            return b"%x\r\n%s\r\n" % (len(text), text.encode())

        def until(text: bytes) -> bytes:
            came = b""
            while text not in came:
                piece = connection.recv(4096)
                assert piece, came
                came += piece
            return came

        head = f"POST /inserts-stream HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode() + chunk('{"target": "orders"}\n{"buyer": "ida"}\n'))
        assert b"200 OK" in until(b'{"status":"ok","seq":0}')
        connection.sendall(chunk('{"buyer":') + chunk(' "ida"}\n'))
        until(b'{"status":"ok","seq":1}')
        connection.sendall(b"0\r\n\r\n")
        until(b"0\r\n\r\n")


# ----- the server ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accept", [None, KSQL_JSON, JSON])
def test_the_server_tells_its_state(sql: Sql, accept: str | None) -> None:
    headers = {"Accept": accept or "*/*"}
    answers = {path: sql.http.get(path, headers=headers) for path in ("/info", "/healthcheck", "/clusterStatus")}
    for answer in answers.values():
        assert (answer.status_code, answer.headers["content-type"]) == (200, accept or KSQL_JSON)
    assert answers["/info"].json()["KsqlServerInfo"]["serverStatus"] == "RUNNING"
    health = answers["/healthcheck"].json()
    assert (health["isHealthy"], health["details"]["metastore"]) == (True, {"isHealthy": True})
    (host,) = answers["/clusterStatus"].json()["clusterStatus"].values()
    assert host["hostAlive"]
    assert list(host["activeStandbyPerQuery"]) == ["CTAS_SPENDING_1"]


def test_a_server_of_one_application_runs_no_sql(shop_data: Any) -> None:
    with start_server(shop_data, is_open=True, application="shop") as server:
        sql = Sql(server)
        for path, body in (
            ("/ksql", {"ksql": "SHOW TABLES;"}),
            ("/query", {"ksql": PULL}),
            ("/query-stream", {"sql": PULL}),
        ):
            answer = sql.post(path, body)
            assert (answer.status_code, answer.json()["error_code"]) == (404, 40400)
            assert "runs no SQL" in answer.json()["message"]
        assert sql.http.get("/healthcheck").status_code == 404
        assert sql.http.get("/api/v1/sql/catalog").status_code == 404
        sql.close()
