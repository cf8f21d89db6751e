"""A handler over test drivers, in which inserted records flow through all queries at once."""

from __future__ import annotations

from typing import Any

from millstream.sql.requests.errors import RequestError
from millstream.sql.requests.handler import RequestHandler
from millstream.sql.requests.properties import RequestSession
from millstream.sql.requests.rows import row_entity
from millstream.sql.testing.local import LocalEngine

ORDERS = """
CREATE STREAM orders (buyer STRING KEY, city STRING, amount INT)
    WITH (kafka_topic='orders', value_format='JSON', partitions=1);
"""
SPENDING = "CREATE TABLE spending AS SELECT buyer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY buyer;"
BY_MINUTE = """
CREATE TABLE by_minute AS SELECT buyer, COUNT(*) AS n FROM orders WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY buyer;
"""
ROWS = (
    ("ann", "Rome", 5, 1_000),
    ("bob", "Oslo", 7, 2_000),
    ("ann", "Oslo", 3, 61_000),
    ("cat", "Rome", 1, 62_000),
)


def new_handler(*scripts: str, rows: tuple[tuple[str, str, int, int], ...] = ROWS) -> RequestHandler:
    """Returns a handler that has executed scripts, after them with orders."""
    handler = LocalEngine({}).handler
    for script in (ORDERS, *scripts):
        handler.statements(script)
    inserts = [
        f"INSERT INTO orders (buyer, city, amount, ROWTIME) VALUES ('{buyer}', '{city}', {amount}, {time});"
        for buyer, city, amount, time in rows
    ]
    handler.statements("\n".join(inserts))
    return handler


def rows_of(handler: RequestHandler, query: str, request: RequestSession | None = None) -> list[list[Any]]:
    """Returns the columns of all rows of a query that ends, or that has read all records."""
    answer = handler.query(query, request)
    rows = []
    while not answer.finished:
        rows += [row_entity(answer, row)["row"]["columns"] for row in answer.poll()]
    answer.close()
    return rows


def refusal(handler: RequestHandler, text: str, request: RequestSession | None = None) -> RequestError:
    """Returns the error of a request, which must be refused."""
    try:
        if text.startswith("SELECT"):
            handler.query(text, request)
        else:
            handler.statements(text, request)
    except RequestError as error:
        return error
    raise AssertionError(f"{text} was not refused")
