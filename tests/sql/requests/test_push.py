"""Push queries: rows as they come, tombstones, limits, and where they begin to read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sql.requests.support import BY_MINUTE, SPENDING, new_handler, refusal, rows_of

from millstream.errors import DeserializationError
from millstream.sql.requests.handler import RequestHandler
from millstream.sql.requests.properties import RequestSession
from millstream.sql.requests.rows import error_row, final_row, header, row_entity

EARLIEST = {"auto.offset.reset": "earliest"}
RICH = "CREATE TABLE rich AS SELECT buyer, SUM(amount) AS total FROM orders GROUP BY buyer HAVING SUM(amount) > 5;"


@pytest.fixture(scope="module")
def handler() -> RequestHandler:
    return new_handler(SPENDING, BY_MINUTE)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT city FROM orders EMIT CHANGES LIMIT 2;", [["Rome"], ["Oslo"]]),
        ("SELECT ROWTIME, ROWOFFSET FROM orders WHERE amount > 4 EMIT CHANGES;", [[1_000, 0], [2_000, 1]]),
        ("SELECT * FROM orders EMIT CHANGES LIMIT 1;", [["ann", "Rome", 5]]),
        ("SELECT COUNT(*) AS n, SUM(amount) FROM orders EMIT CHANGES;", [[1, 5], [2, 12], [3, 15], [4, 16]]),
        ("SELECT SUM(amount) AS s FROM orders GROUP BY city EMIT CHANGES;", [[5], [7], [10], [6]]),
        (
            "SELECT city, WINDOWSTART, COUNT(*) FROM orders WINDOW TUMBLING (SIZE 1 DAY) GROUP BY city EMIT CHANGES;",
            [["Rome", 0, 1], ["Oslo", 0, 1], ["Oslo", 0, 2], ["Rome", 0, 2]],
        ),
        (
            "SELECT COUNT(*) FROM orders WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 0 DAYS) GROUP BY 1 EMIT FINAL;",
            [[2]],
        ),
        ("SELECT buyer, EXPLODE(ARRAY[1, 2]) AS x FROM orders EMIT CHANGES LIMIT 2;", [["ann", 1], ["ann", 2]]),
        ("SELECT amount FROM orders PARTITION BY city EMIT CHANGES LIMIT 1;", [[5]]),
        ("SELECT city, total FROM orders o JOIN spending s ON o.buyer = s.buyer EMIT CHANGES;", [["Oslo", 5]]),
        ("SELECT total FROM spending EMIT CHANGES;", [[5], [7], [8], [1]]),
        ("SELECT WINDOWSTART, n FROM by_minute EMIT CHANGES LIMIT 1;", [[0, 1]]),
        ("SELECT * FROM orders EMIT CHANGES LIMIT 0;", []),
    ],
)  # fmt: skip
def test_push_query_returns_rows(handler: RequestHandler, query: str, expected: list[list[Any]]) -> None:
    assert sorted(rows_of(handler, query, RequestSession(EARLIEST)), key=repr) == sorted(expected, key=repr)


def test_row_that_vanishes_is_a_tombstone_with_its_key() -> None:
    handler = new_handler(RICH, rows=(("ann", "Rome", 9, 1), ("ann", "Rome", -8, 2), ("ann", "Rome", 8, 3)))
    answer = handler.query("SELECT total, buyer FROM rich EMIT CHANGES;", RequestSession(EARLIEST))
    rows = []
    while not answer.finished:
        rows += [row_entity(answer, row) for row in answer.poll()]
    assert rows == [
        {"row": {"columns": [9, "ann"]}},
        {"row": {"columns": [None, "ann"], "tombstone": True}},
        {"row": {"columns": [9, "ann"]}},
    ]


def test_query_reads_what_comes_after_its_start() -> None:
    handler = new_handler()
    latest = RequestSession({"auto.offset.reset": "latest"})
    answer = handler.query("SELECT buyer FROM orders EMIT CHANGES LIMIT 2;", latest)
    assert answer.poll(0) == []
    assert answer.final_message is None
    handler.statements("INSERT INTO orders (buyer) VALUES ('dan'); INSERT INTO orders (buyer) VALUES ('eve');")
    rows = []
    while not answer.finished:
        rows += [row.values for row in answer.poll(0)]
    assert rows == [("dan",), ("eve",)]
    assert answer.final_message == "Limit Reached"


def test_header_names_query_and_columns(handler: RequestHandler) -> None:
    pull = header(handler.query("SELECT * FROM by_minute WHERE buyer = 'ann';"))["header"]
    assert pull["schema"] == "`BUYER` STRING KEY, `WINDOWSTART` BIGINT KEY, `WINDOWEND` BIGINT KEY, `N` BIGINT"
    push = header(handler.query("SELECT *, amount * 2 FROM orders EMIT CHANGES LIMIT 1;"))["header"]
    assert push["schema"] == "`BUYER` STRING, `CITY` STRING, `AMOUNT` INTEGER, `KSQL_COL_0` INTEGER"
    assert push["queryId"].startswith("transient_ORDERS_")


def test_answer_says_why_it_ended(handler: RequestHandler) -> None:
    answers = [
        handler.query("SELECT * FROM orders;"),
        handler.query("SELECT * FROM orders LIMIT 1;"),
        handler.query("SELECT * FROM spending LIMIT 1;"),
    ]
    for answer in answers:
        while not answer.finished:
            answer.poll()
    assert [final_row(answer) for answer in answers] == [
        {"finalMessage": "Query Completed"},
        {"finalMessage": "Limit Reached"},
        None,
    ]


def test_failure_after_the_first_row_is_a_row() -> None:
    row = error_row(DeserializationError("no JSON"))
    assert row == {"errorMessage": {"@type": "generic_error", "error_code": 50000, "message": "no JSON"}}


def test_query_on_the_tip_of_a_persistent_query_has_the_id_of_one(handler: RequestHandler) -> None:
    scalable = {"ksql.query.push.v2.enabled": True, "auto.offset.reset": "latest"}

    def is_scalable(query: str, **properties: Any) -> bool:
        return handler.query(query, RequestSession({**scalable, **properties})).query_id.startswith(
            "SCALABLE_PUSH_QUERY"
        )

    assert is_scalable("SELECT total FROM spending EMIT CHANGES;")
    assert not is_scalable("SELECT ROWOFFSET FROM spending EMIT CHANGES;")
    assert not is_scalable("SELECT * FROM orders EMIT CHANGES;")
    assert not is_scalable("SELECT total FROM spending EMIT CHANGES;", **{"auto.offset.reset": "earliest"})
    assert not is_scalable("SELECT total FROM spending EMIT CHANGES;", **{"ksql.query.push.v2.enabled": False})


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT nope FROM orders EMIT CHANGES;", "SELECT column 'NOPE' cannot be resolved"),
        ("SELECT 1.5 / NULL FROM orders EMIT CHANGES;", "Arithmetic on types DECIMAL(2, 1) and null are not supported"),
        ("SELECT * FROM orders EMIT FINAL;", "EMIT FINAL is only supported for windowed aggregations"),
        ("SELECT * FROM orders EMIT CHANGES LIMIT -1;", "Push queries don't support negative integers"),
        ("SELECT * FROM orders EMIT CHANGES LIMIT 1.5;", "Value must be integer for command: LIMIT"),
    ],
)
def test_invalid_push_query_is_refused(handler: RequestHandler, query: str, message: str) -> None:
    assert message in refusal(handler, query).message
