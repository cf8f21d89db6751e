"""Pull queries: the rows that they find, how they find them, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tests.sql.requests.support import BY_MINUTE, SPENDING, new_handler, refusal, rows_of

from millstream.sql.queries.lookups import Bounds, FullScan, KeyLookup, KeyRange
from millstream.sql.queries.pull import plan_pull
from millstream.sql.requests.deployment import TableRow
from millstream.sql.requests.handler import RequestHandler
from millstream.sql.requests.properties import RequestSession
from millstream.sql.syntax import parse_statement, tree

PAIRS = """
CREATE TABLE pairs WITH (key_format='JSON') AS SELECT buyer, city, COUNT(*) AS n FROM orders GROUP BY buyer, city;
"""
SESSIONS = """
CREATE TABLE sessions AS SELECT buyer, COUNT(*) AS n FROM orders WINDOW SESSION (10 SECONDS) GROUP BY buyer;
"""
SCANS_OFF = {"ksql.query.pull.table.scan.enabled": "false"}


@pytest.fixture(scope="module")
def handler() -> RequestHandler:
    return new_handler(SPENDING, BY_MINUTE, PAIRS, SESSIONS)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM spending;", [["ann", 8, 2], ["bob", 7, 1], ["cat", 1, 1]]),
        ("SELECT * FROM spending WHERE buyer = 'ann';", [["ann", 8, 2]]),
        ("SELECT * FROM spending WHERE buyer = 'dan';", []),
        ("SELECT n, total * 2 AS twice, ROWTIME FROM spending WHERE buyer = CONCAT('a', 'nn');", [[2, 16, 61_000]]),
        ("SELECT buyer FROM spending WHERE buyer IN ('bob', 'ann', 'bob');", [["bob"], ["ann"]]),
        ("SELECT buyer FROM spending WHERE buyer = 'ann' AND total > 100 OR buyer = 'cat';", [["cat"]]),
        ("SELECT buyer FROM spending WHERE buyer > 'ann' AND buyer < 'cat';", [["bob"]]),
        ("SELECT buyer FROM spending WHERE buyer BETWEEN 'b' AND 'c';", [["bob"]]),
        ("SELECT buyer FROM spending WHERE total IS NOT NULL AND NOT (buyer = 'ann' OR n > 5);", [["bob"], ["cat"]]),
        ("SELECT buyer FROM spending WHERE buyer LIKE '%b';", [["bob"]]),
        ("SELECT buyer FROM spending WHERE ROWTIME >= '1970-01-01T00:01';", [["ann"], ["cat"]]),
        ("SELECT buyer FROM spending LIMIT 2;", [["ann"], ["bob"]]),
        ("SELECT buyer FROM spending LIMIT 0;", []),
        ("SELECT * FROM pairs WHERE city = 'Oslo' AND buyer = 'ann';", [["ann", "Oslo", 1]]),
        ("SELECT n FROM pairs WHERE buyer = 'ann';", [[1], [1]]),
        (
            "SELECT * FROM by_minute WHERE buyer = 'ann';",
            [["ann", 0, 60_000, 1], ["ann", 60_000, 120_000, 1]],
        ),
        ("SELECT WINDOWEND FROM by_minute WHERE buyer = 'ann' AND WINDOWSTART = 0;", [[60_000]]),
        ("SELECT n FROM by_minute WHERE buyer = 'ann' AND 0 < WINDOWSTART AND WINDOWEND <= 120000;", [[1]]),
        ("SELECT n FROM by_minute WHERE buyer = 'ann' AND WINDOWSTART >= '1970-01-01T00:01:00';", [[1]]),
        ("SELECT buyer FROM by_minute WHERE WINDOWSTART = 60000;", [["ann"], ["cat"]]),
        ("SELECT * FROM sessions WHERE buyer = 'bob';", [["bob", 2_000, 2_000, 1]]),
        ("SELECT * FROM orders WHERE amount < 5;", [["ann", "Oslo", 3], ["cat", "Rome", 1]]),
        ("SELECT city, ROWTIME FROM orders LIMIT 1;", [["Rome", 1_000]]),
    ],
)  # fmt: skip
def test_pull_query_returns_rows(handler: RequestHandler, query: str, expected: list[list[Any]]) -> None:
    assert rows_of(handler, query) == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM spending s JOIN pairs p ON s.buyer = p.buyer;", "JOIN"),
        ("SELECT COUNT(*) FROM spending WINDOW TUMBLING (SIZE 1 DAY);", "WINDOW"),
        ("SELECT buyer FROM spending GROUP BY buyer;", "GROUP BY"),
        ("SELECT buyer FROM orders PARTITION BY city;", "PARTITION BY"),
        ("SELECT buyer FROM spending HAVING n > 1;", "HAVING"),
        ("SELECT SUM(n) FROM spending;", "aggregate functions"),
        ("SELECT EXPLODE(ARRAY[n]) FROM spending;", "table functions"),
        ("SELECT ROWOFFSET FROM spending;", "columns in SELECT clauses: `ROWOFFSET`"),
        ("SELECT n FROM orders WHERE ROWPARTITION = 0;", "columns in WHERE clauses: `ROWPARTITION`"),
        ("SELECT n FROM spending LIMIT -1;", "negative integers"),
    ],
)
def test_clause_of_other_queries_is_refused(handler: RequestHandler, query: str, message: str) -> None:
    error = refusal(handler, query)
    assert error.message.splitlines()[0].split(": ", 1)[1].startswith("Pull queries don't support")
    assert message in error.message
    assert "Add EMIT CHANGES if you intended to issue a push query." in error.message


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT *, ROWTIME FROM spending;", "only support wildcards"),
        (
            "SELECT * FROM spending WHERE buyer = 5;",
            "Error in WHERE expression: Cannot compare BUYER (STRING) to 5 (INTEGER)",
        ),
        ("SELECT * FROM spending WHERE buyer = NULL;", "NULL"),
        ("SELECT * FROM spending WHERE buyer = CAST(NULL AS STRING);", "Primary key columns can not be NULL"),
        ("SELECT * FROM spending WHERE WINDOWSTART = 5;", "WHERE column 'WINDOWSTART' cannot be resolved"),
        ("SELECT * FROM by_minute WHERE WINDOWSTART <> 5;", "Unsupported WINDOWSTART bounds: NOT_EQUAL"),
        (
            "SELECT * FROM by_minute WHERE buyer = 'a' AND WINDOWEND > 5 AND 6 <= WINDOWEND;",
            "Duplicate WINDOWEND bounds on: GREATER_THAN",
        ),
        (
            "SELECT * FROM by_minute WHERE buyer = 'a' AND WINDOWEND = 5 AND WINDOWEND > 6;",
            "cannot be combined with other WINDOWEND bounds",
        ),
        ("SELECT * FROM by_minute WHERE buyer = 'a' AND WINDOWEND = 'monday';", "Failed to parse timestamp 'monday'"),
        ("SELECT * FROM by_minute WHERE buyer = 'a' AND WINDOWEND = 1.5;", "Window bounds must resolve to"),
        ("SELECT * FROM spending WHERE n LIKE '1%';", "Like condition must be VARCHAR. The column type is BIGINT"),
        ("SELECT * FROM sessions;", "Table scan unsupported on session tables"),
    ],
)
def test_wrong_condition_is_refused(handler: RequestHandler, query: str, message: str) -> None:
    assert message in refusal(handler, query).message


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM spending;", "Missing WHERE clause"),
        ("SELECT * FROM spending WHERE n = 1;", "clause missing key column for disjunct: (N = 1)"),
        ("SELECT * FROM spending WHERE buyer = 'a' OR n = 1;", "clause missing key column for disjunct: (N = 1)"),
        ("SELECT * FROM spending WHERE buyer <> 'a';", "key columns '[`BUYER` STRING KEY]' must currently be '='"),
        ("SELECT * FROM spending WHERE UCASE(buyer) = 'A';", "A comparison must directly reference a key column"),
        ("SELECT * FROM pairs WHERE buyer = city;", "between a key column and a resolvable expression"),
        ("SELECT * FROM spending WHERE buyer = 'a' AND buyer = 'b';", "cannot be combined with other comparisons"),
        ("SELECT * FROM pairs WHERE buyer = 'a';", "Multi-column sources must specify every key in the WHERE clause."),
        ("SELECT * FROM pairs WHERE buyer = 'a' AND city > 'b';", "Query requires table scan to be enabled"),
        ("SELECT * FROM by_minute WHERE buyer > 'a';", "Query requires table scan to be enabled"),
        ("SELECT * FROM spending WHERE buyer IS NULL;", "Unsupported expression in WHERE clause: (BUYER IS NULL)"),
    ],
)  # fmt: skip
def test_condition_that_needs_a_disabled_scan_is_refused(handler: RequestHandler, query: str, message: str) -> None:
    error = refusal(handler, query, RequestSession(SCANS_OFF))
    assert message in error.message
    assert error.hint is not None
    assert "ksql.query.pull.table.scan.enabled=true" in error.hint


def test_disabled_features_are_refused(handler: RequestHandler) -> None:
    limit = RequestSession({"ksql.query.pull.limit.clause.enabled": False})
    assert (
        "LIMIT clause in pull queries is currently disabled"
        in refusal(handler, "SELECT * FROM spending LIMIT 1;", limit).message
    )
    streams = RequestSession({"ksql.query.pull.stream.enabled": "false"})
    assert "Pull queries on streams are disabled" in refusal(handler, "SELECT * FROM orders;", streams).message


def test_table_that_nothing_materializes_is_not_queryable() -> None:
    users = "(id STRING PRIMARY KEY) WITH (kafka_topic='users', value_format='NONE', partitions=1)"
    handler = new_handler(f"CREATE TABLE users {users};", SPENDING)
    assert "The USERS table isn't queryable" in refusal(handler, "SELECT * FROM users;").message
    handler.statements("TERMINATE CTAS_SPENDING_1;")
    assert "The SPENDING table isn't queryable" in refusal(handler, "SELECT * FROM spending;").message


def test_source_table_is_queryable_and_keeps_the_last_row_of_a_key() -> None:
    users = "(id STRING PRIMARY KEY, name STRING) WITH (kafka_topic='users', value_format='JSON'"
    handler = new_handler(f"CREATE TABLE writes {users}, partitions=1); CREATE SOURCE TABLE users {users});")
    handler.statements("INSERT INTO writes VALUES ('1', 'Ann'); INSERT INTO writes VALUES ('1', 'Anna');")
    assert rows_of(handler, "SELECT * FROM users WHERE id = '1';") == [["1", "Anna"]]


def test_row_of_a_source_table_has_the_time_of_its_timestamp_column() -> None:
    users = "(id STRING PRIMARY KEY, seen BIGINT) WITH (kafka_topic='users', value_format='JSON', timestamp='seen'"
    handler = new_handler(f"CREATE TABLE writes {users}, partitions=1); CREATE SOURCE TABLE users {users});")
    handler.statements("INSERT INTO writes VALUES ('1', 77); INSERT INTO writes VALUES ('2', -1);")
    assert rows_of(handler, "SELECT id, ROWTIME FROM users;") == [["1", 77]]


# ----- how rows are found --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "lookups"),
    [
        ("SELECT * FROM spending WHERE buyer = 'a';", (KeyLookup(("a",)),)),
        ("SELECT * FROM spending WHERE buyer IN ('a', 'b') AND n > 1;", (KeyLookup(("a",)), KeyLookup(("b",)))),
        ("SELECT * FROM spending WHERE buyer > 'a' AND buyer = 'b';", (KeyLookup(("b",)),)),
        ("SELECT * FROM spending WHERE buyer >= 'a';", (KeyRange(low="a"),)),
        ("SELECT * FROM spending WHERE 'm' > buyer AND n = 1;", (KeyRange(high="m"),)),
        ("SELECT * FROM spending WHERE buyer = 'a' OR n = 1;", (FullScan(),)),
        ("SELECT * FROM spending;", (FullScan(),)),
        ("SELECT * FROM pairs WHERE city = 'c' AND buyer = 'b';", (KeyLookup(("b", "c")),)),
        ("SELECT * FROM pairs WHERE city = 'c';", (FullScan(),)),
        (
            "SELECT * FROM by_minute WHERE buyer = 'a' AND WINDOWSTART >= 5 AND WINDOWSTART < 9 AND WINDOWEND > 7;",
            (KeyLookup(("a",), Bounds(5, 8), Bounds(8)),),
        ),
        (
            "SELECT * FROM by_minute WHERE buyer = 'a' AND (WINDOWSTART = 5 OR WINDOWEND <= 9);",
            (KeyLookup(("a",), Bounds(5, 5)), KeyLookup(("a",), end=Bounds(high=9))),
        ),
    ],
)
def test_condition_becomes_lookups(handler: RequestHandler, query: str, lookups: tuple[Any, ...]) -> None:
    statement = parse_statement(query)
    assert isinstance(statement, tree.Select)
    plan = plan_pull(statement.query, handler.session.environment, handler.session.catalog)
    assert plan.lookups == lookups


class _OnlyKeys:
    """A table that allows no access but by key."""

    def get(self, key: tuple[Any, ...]) -> TableRow | None:
        return TableRow(key, {"TOTAL": 1, "N": 2}, 3)

    def windows(self, key: tuple[Any, ...], start: Bounds, end: Bounds) -> Iterable[TableRow]:
        raise AssertionError("the table has no windows")

    def between(self, low: Any, high: Any) -> Iterable[TableRow]:
        raise AssertionError("the condition names the key")

    def scan(self) -> Iterable[TableRow]:
        raise AssertionError("the condition names the key")


def test_rows_of_a_key_are_not_searched_in_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = new_handler(SPENDING)
    monkeypatch.setattr(handler.deployment, "table", lambda _source: _OnlyKeys())
    assert rows_of(handler, "SELECT * FROM spending WHERE buyer = 'zoe';") == [["zoe", 1, 2]]
