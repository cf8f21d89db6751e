"""What each statement returns, and what it leaves behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.sql.requests.support import BY_MINUTE, ORDERS, SPENDING, new_handler, refusal, rows_of

from millstream.sql.requests.effects import EFFECTS, effect_of
from millstream.sql.requests.errors import RequestError
from millstream.sql.requests.handler import RequestHandler
from millstream.sql.requests.properties import RequestSession
from millstream.sql.syntax import parse_script, tree
from millstream.sql.testing.rest import contains

SUCCESS = {"@type": "currentStatus", "commandStatus": {"status": "SUCCESS"}}
ORDERS_INFO = {
    "type": "STREAM",
    "name": "ORDERS",
    "topic": "orders",
    "keyFormat": "KAFKA",
    "valueFormat": "JSON",
    "isWindowed": False,
}
SPENDING_QUERY = {"id": "CTAS_SPENDING_1", "sinks": ["SPENDING"], "sinkKafkaTopics": ["SPENDING"], "state": "RUNNING"}


@pytest.fixture(scope="module")
def shared() -> RequestHandler:
    return new_handler(SPENDING, BY_MINUTE, rows=())


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "CREATE STREAM s (a INT) WITH (kafka_topic='s', value_format='JSON', partitions=2);",
            {**SUCCESS, "commandId": "stream/`S`/create"},
        ),
        ("CREATE STREAM c AS SELECT * FROM orders;", {**SUCCESS, "commandStatus": {"queryId": "CSAS_C_3"}}),
        ("INSERT INTO orders SELECT * FROM orders;", {**SUCCESS, "commandStatus": {"queryId": "INSERTQUERY_3"}}),
        ("CREATE STREAM IF NOT EXISTS orders (a INT) WITH (kafka_topic='o', value_format='JSON', partitions=1);",
         {"@type": "warning_entity"}),
        ("ALTER STREAM orders ADD COLUMN note STRING;", SUCCESS),
        ("CREATE TYPE point AS STRUCT<x INT>;", {**SUCCESS, "commandId": "type/`POINT`/create"}),
        ("DROP TYPE IF EXISTS nothing;", SUCCESS),
        ("DROP TABLE by_minute;", {**SUCCESS, "commandStatus": {"message": "Source `BY_MINUTE` was dropped."}}),
        ("DROP TABLE IF EXISTS nothing;", SUCCESS),
        ("TERMINATE CTAS_SPENDING_1;", {**SUCCESS, "commandStatus": {"message": "Query terminated."}}),
        ("TERMINATE ALL;", SUCCESS),
        ("PAUSE ctas_spending_1;", {**SUCCESS, "commandStatus": {"message": "Query paused."}}),
        ("RESUME ALL;", {**SUCCESS, "commandStatus": {"message": "Query resumed."}}),
        ("SHOW STREAMS;", {"@type": "streams", "streams": [ORDERS_INFO]}),
        ("LIST TABLES;", {"@type": "tables", "tables": [
            {"name": "BY_MINUTE", "isWindowed": True}, {"name": "SPENDING", "isWindowed": False}]}),
        ("SHOW TABLES EXTENDED;", {"@type": "source_descriptions", "sourceDescriptions": [
            {"name": "BY_MINUTE", "windowType": "TUMBLING"}, {"name": "SPENDING", "windowType": None}]}),
        ("SHOW QUERIES;", {"@type": "queries", "queries": [SPENDING_QUERY, {"id": "CTAS_BY_MINUTE_2"}]}),
        ("SHOW QUERIES EXTENDED;", {"@type": "query_descriptions", "queryDescriptions": [
            {"id": "CTAS_SPENDING_1", "sources": ["ORDERS"]}, {"windowType": "TUMBLING"}]}),
        ("SHOW TOPICS;", {"@type": "kafka_topics", "topics": [
            {"name": "BY_MINUTE"}, {"name": "SPENDING"}, {"name": "orders", "replicaInfo": [1]}]}),
        ("SHOW ALL TOPICS EXTENDED;", {"@type": "kafka_topics_extended", "topics": [
            {"consumerCount": 0}, {"consumerGroupCount": 0}, {"name": "orders"}]}),
        ("SHOW TYPES;", {"@type": "type_list", "types": {}}),
        ("SHOW CONNECTORS;", {"@type": "connector_list", "connectors": []}),
        ("SHOW CONNECTOR PLUGINS;", {"@type": "connector_plugins_list", "connectorsPlugins": []}),
        ("DESCRIBE orders;", {"@type": "sourceDescription", "sourceDescription": {
            "name": "ORDERS",
            "fields": [
                {"name": "BUYER", "type": "KEY"}, {"name": "CITY", "schema": {"type": "STRING"}}, {"name": "AMOUNT"}],
            "readQueries": [SPENDING_QUERY, {"id": "CTAS_BY_MINUTE_2"}],
            "writeQueries": [],
            "partitions": 0}}),
        ("DESCRIBE spending EXTENDED;", {"sourceDescription": {
            "writeQueries": [SPENDING_QUERY], "partitions": 1, "replication": 1, "extended": True}}),
        ("DESCRIBE STREAMS;", {"@type": "source_descriptions", "sourceDescriptions": [{"name": "ORDERS"}]}),
        ("DESCRIBE FUNCTION ucase;", {"@type": "describe_function", "name": "UCASE", "type": "SCALAR", "functions": [
            {"arguments": [{"type": "STRING", "isVariadic": False}], "returnType": "STRING"}]}),
        ("EXPLAIN ctas_spending_1;", {"@type": "queryDescription", "queryDescription": {
            "id": "CTAS_SPENDING_1", "sinks": ["SPENDING"], "queryType": "PERSISTENT", "state": "RUNNING"}}),
        ("EXPLAIN SELECT * FROM spending WHERE buyer = 'ann';", {"queryDescription": {
            "executionPlan": "read SPENDING\n  by key 'ann'\n  where (BUYER = 'ann')", "queryType": "PULL"}}),
        ("EXPLAIN SELECT city FROM orders EMIT CHANGES;", {"queryDescription": {
            "fields": [{"name": "CITY"}], "sinks": [], "queryType": "PUSH"}}),
        ("ASSERT TOPIC orders WITH (partitions=1);", {"@type": "assert_topic", "topicName": "orders", "exists": True}),
        ("ASSERT NOT EXISTS SCHEMA SUBJECT 'x' ID 3;", {"@type": "assert_schema", "subject": "x", "id": 3}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_statement_returns_its_entity(shared: RequestHandler, statement: str, expected: dict[str, Any]) -> None:
    reads = effect_of(parse_script(statement)[0]) == "reads"
    (entity,) = (shared if reads else new_handler(SPENDING, BY_MINUTE, rows=())).statements(statement)
    assert entity["statementText"] == statement
    assert contains(expected, entity, "entity") is None


def test_functions_and_properties_are_listed() -> None:
    functions, properties = new_handler(rows=()).statements("SHOW FUNCTIONS; SHOW PROPERTIES;")
    assert {"name": "SUM", "type": "AGGREGATE", "category": "AGGREGATE"}.items() <= next(
        item for item in functions["functions"] if item["name"] == "SUM"
    ).items()
    named = {item["name"]: item["value"] for item in properties["properties"]}
    assert named["ksql.query.pull.table.scan.enabled"] == "true"
    assert not any("sasl" in name or "ssl" in name or "password" in name for name in named)


def test_explain_shows_the_topology_before_and_after_optimisation() -> None:
    (entity,) = new_handler(rows=()).statements(f"EXPLAIN {SPENDING}")
    described = entity["queryDescription"]
    assert "Source: orders-source (topics: [orders])" in described["executionPlan"]
    assert "Sink: SPENDING-sink (topic: SPENDING)" in described["topology"]


def test_set_and_define_reach_the_statements_after_them_and_stay_in_the_request() -> None:
    handler, request = new_handler(rows=()), RequestSession()
    *_, properties, variables = handler.statements(
        "SET 'auto.offset.reset'='earliest'; DEFINE city='Rome'; SHOW PROPERTIES; SHOW VARIABLES;", request
    )
    assert properties["overwrittenProperties"] == ["ksql.streams.auto.offset.reset"]
    assert variables["variables"] == [{"name": "CITY", "value": "Rome"}]
    assert request.properties == {"auto.offset.reset": "earliest"}
    handler.statements("UNSET 'auto.offset.reset'; UNDEFINE city;", request)
    assert (request.properties, request.variables) == ({}, {})


def test_variable_of_the_request_is_replaced() -> None:
    request = RequestSession(variables={"who": "ann"})
    assert rows_of(new_handler(SPENDING), "SELECT total FROM spending WHERE buyer = '${who}';", request) == [[8]]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("SHOW NOTHING;", 40001, "line 1:6"),
        ("DESCRIBE order;", 40001, "Could not find STREAM/TABLE 'ORDER'"),
        ("DESCRIBE FUNCTION nothing;", 40001, "Can't find any functions"),
        ("SELECT * FROM nothing;", 40001, "NOTHING does not exist"),
        ("TERMINATE nothing;", 40001, "Unknown queryId: NOTHING"),
        ("EXPLAIN nothing;", 40001, "Query with id:NOTHING does not exist"),
        ("EXPLAIN SHOW STREAMS;", 40001, "does not run a ksql query"),
        ("DROP STREAM orders;", 40001, "Cannot drop ORDERS"),
        ("CREATE STREAM s (a INT) WITH (kafka_topic='absent', value_format='JSON');", 40001, "topic does not exist"),
        ("CREATE SINK CONNECTOR c WITH ('a'='b');", 40001, "Connectors are not supported"),
        ("SET 'sasl.jaas.config'='x';", 40001, "Unknown property: sasl.jaas.config"),
        ("SET 'auto.offset.reset'='middle';", 40001, "earliest or latest"),
        ("ASSERT TOPIC absent TIMEOUT 0 SECONDS;", 41700, "Topic absent does not exist"),
        ("ASSERT TOPIC orders WITH (partitions=7) TIMEOUT 0 SECONDS;", 41700, "expected 7 got 1"),
        ("ASSERT TOPIC absent TIMEOUT 2 HOURS;", 40001, "TIMEOUT is at most 1 HOUR"),
        ("ASSERT SCHEMA SUBJECT 'orders-value' TIMEOUT 0 SECONDS;", 41700, "does not exist"),
        ("ASSERT SCHEMA ID 5 TIMEOUT 0 SECONDS;", 41700, "Schema with id 5 does not exist"),
        ("INSERT INTO spending VALUES ('a', 'b', 1);", 40001, "Expected type INTEGER for field `TOTAL`"),
    ],
)
def test_refused_statement_has_its_code_and_message(shared: RequestHandler, text: str, code: int, message: str) -> None:
    error = refusal(shared, text)
    assert (error.error_code, error.status) == (code, code // 100)
    assert message in error.message
    assert error.entity["@type"] == "statement_error"
    assert error.entity["statementText"].startswith(text.split(maxsplit=1)[0])


def test_query_is_sent_to_the_other_route() -> None:
    handler = new_handler(SPENDING, rows=())
    with pytest.raises(RequestError) as caught:
        handler.statements("SELECT * FROM spending;")
    assert caught.value.error_code == 40002
    with pytest.raises(RequestError, match="one SELECT"):
        handler.query("SHOW STREAMS;")


def test_no_statement_runs_if_one_is_invalid() -> None:
    handler = new_handler(rows=())
    refused = refusal(handler, f"{SPENDING} CREATE STREAM c AS SELECT nope FROM orders;")
    assert refused.entity["entities"] == []
    tables, queries = handler.statements("SHOW TABLES; SHOW QUERIES;")
    assert (tables["tables"], queries["queries"]) == ([], [])


def test_statements_see_what_those_before_them_define() -> None:
    handler = new_handler(rows=())
    changes = "(buyer STRING KEY, total INT) WITH (kafka_topic='SPENDING', value_format='JSON')"
    entities = handler.statements(f"{SPENDING} CREATE STREAM changes {changes};")
    assert [entity["@type"] for entity in entities] == ["currentStatus", "currentStatus"]


def test_dropped_table_takes_its_query_and_topic_with_it() -> None:
    handler = new_handler(SPENDING)
    handler.statements("DROP TABLE spending DELETE TOPIC;")
    queries, topics = handler.statements("SHOW QUERIES; SHOW TOPICS;")
    assert queries["queries"] == []
    assert [topic["name"] for topic in topics["topics"]] == ["orders"]


def test_replaced_query_continues_with_its_state() -> None:
    handler = new_handler(SPENDING)
    more = "SELECT buyer, SUM(amount) AS total, COUNT(*) AS n, SUM(amount) * 2 AS twice FROM orders GROUP BY buyer"
    (entity,) = handler.statements(f"CREATE OR REPLACE TABLE spending AS {more};")
    assert entity["commandStatus"]["queryId"] == "CTAS_SPENDING_1"
    handler.statements("INSERT INTO orders (buyer, amount) VALUES ('ann', 1);")
    assert rows_of(handler, "SELECT * FROM spending WHERE buyer = 'ann';") == [["ann", 9, 3, 18]]
    (queries,) = handler.statements("SHOW QUERIES;")
    assert [query["id"] for query in queries["queries"]] == ["CTAS_SPENDING_1"]


def test_printed_topic_shows_time_key_and_value_in_order() -> None:
    handler = new_handler()
    printed = handler.print_topic("PRINT orders FROM BEGINNING INTERVAL 2 LIMIT 2;")
    assert list(printed.poll()) == [
        "Key format: KAFKA",
        "Value format: JSON",
        'rowtime: 1970/01/01 00:00:01.000 Z, key: "ann", value: {"CITY":"Rome","AMOUNT":5}, partition: 0',
        'rowtime: 1970/01/01 00:01:01.000 Z, key: "ann", value: {"CITY":"Oslo","AMOUNT":3}, partition: 0',
    ]
    assert printed.finished


def test_printed_topic_must_exist() -> None:
    with pytest.raises(RequestError, match="Could not find topic 'order'") as caught:
        new_handler().print_topic("PRINT 'order';")
    assert caught.value.hint is not None
    assert "orders" in caught.value.hint


def test_requests_of_several_threads_take_turns() -> None:
    handler = new_handler(rows=())
    names = [[f"S{thread}X{number}" for number in range(10)] for thread in range(4)]

    def create(own: list[str]) -> None:
        for name in own:
            handler.statements(f"CREATE STREAM {name} AS SELECT * FROM orders; SHOW STREAMS EXTENDED;")

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(create, names))
    (streams, queries) = handler.statements("SHOW STREAMS; SHOW QUERIES;")
    assert {stream["name"] for stream in streams["streams"]} == {"ORDERS", *(name for own in names for name in own)}
    assert len({query["id"] for query in queries["queries"]}) == 40


def test_assertion_that_waits_keeps_no_other_request_from_what_it_waits_for() -> None:
    handler = new_handler(rows=())
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(handler.statements, "ASSERT TOPIC later TIMEOUT 30 SECONDS;")
        handler.statements("CREATE STREAM later (a INT) WITH (kafka_topic='later', value_format='JSON', partitions=1);")
        (entity,) = waiting.result()
    assert entity["exists"]


def test_every_statement_has_an_effect() -> None:
    kinds = {kind for kind in vars(tree).values() if isinstance(kind, type) and issubclass(kind, tree.Statement)}
    assert set(EFFECTS) == kinds - {tree.Statement}
    effects = [effect_of(statement) for statement in parse_script(f"{ORDERS} SHOW STREAMS; TERMINATE ALL;")]
    assert effects == ["defines", "reads", "controls"]
