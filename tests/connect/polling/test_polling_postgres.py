"""Polling PostgreSQL: rows of transactions that commit in another order than they took their numbers."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest
from tests.connect.postgres.server import Database
from tests.connect.recording import Recording

from millstream.connect.polling import PollingSource
from millstream.errors import ConnectorError

CREATE = (
    "CREATE TABLE orders (id bigserial PRIMARY KEY, item text, at timestamptz NOT NULL DEFAULT now(), price numeric)"
)
INCREMENTING = {"mode": "incrementing", "incrementing.column.name": "id"}
TIMESTAMP = {"mode": "timestamp", "timestamp.column.name": "at"}
BOTH = {"mode": "timestamp+incrementing", "timestamp.column.name": "at", "incrementing.column.name": "id"}

modes = pytest.mark.parametrize("mode", [INCREMENTING, TIMESTAMP, BOTH], ids=lambda mode: mode["mode"])


def source(database: Database, mode: dict[str, Any], **settings: Any) -> PollingSource:
    url = f"postgresql://postgres@127.0.0.1:{database.server.port}/{database.name}"
    base = {"connection.url": url, "topic.prefix": "", "poll.interval.ms": 1, "table.whitelist": "orders"}
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return PollingSource({**base, **mode, **named})


def items(recording: Recording) -> list[str]:
    return [value["item"] for value in recording.values()]


@modes
def test_rows_are_read_with_their_types(database: Database, mode: dict[str, Any]) -> None:
    database.execute(CREATE)
    database.execute("INSERT INTO orders (item, price) VALUES ('a', 12.50), ('100%', NULL)")
    recording = Recording()
    recording.run(source(database, mode), "orders", until=lambda: len(recording.records) == 2)
    by_item = {value["item"]: value for value in recording.values()}
    assert by_item["a"]["price"] == Decimal("12.50")
    assert by_item["100%"]["price"] is None


@modes
def test_a_transaction_that_commits_late_is_not_missed(database: Database, mode: dict[str, Any]) -> None:
    database.execute(CREATE)
    slow = database.connect()
    slow.autocommit = False
    recording, orders = Recording(), source(database, mode)
    with slow.cursor() as cursor:
        cursor.execute("INSERT INTO orders (item) VALUES ('slow')")
        database.execute("INSERT INTO orders (item) VALUES ('quick')")  # a greater number and time, and visible
        polls = iter(range(50))
        recording.run(orders, "orders", until=lambda: next(polls, None) is None)
        assert items(recording) == []
        slow.commit()
    slow.close()
    recording.run(orders, "orders", until=lambda: len(recording.records) == 2)
    assert items(recording) == ["slow", "quick"]


@modes
def test_a_transaction_that_is_rolled_back_does_not_hold_others_back(database: Database, mode: dict[str, Any]) -> None:
    database.execute(CREATE)
    slow = database.connect()
    slow.autocommit = False
    with slow.cursor() as cursor:
        cursor.execute("INSERT INTO orders (item) VALUES ('never')")
        database.execute("INSERT INTO orders (item) VALUES ('quick')")
        slow.rollback()
    slow.close()
    recording = Recording()
    recording.run(source(database, mode), "orders", until=lambda: bool(recording.records))
    assert items(recording) == ["quick"]


@modes
def test_concurrent_transactions_and_stops_at_any_point_lose_and_double_nothing(
    database: Database, mode: dict[str, Any]
) -> None:
    database.execute(CREATE)
    draw = random.Random(5)
    recording, orders = Recording(), source(database, mode, batch_max_rows=3)
    writers = [database.connect() for _writer in range(4)]
    for writer in writers:
        writer.autocommit = False
    expected: list[str] = []
    pending: dict[int, list[str]] = {number: [] for number in range(4)}
    for step in range(90):
        number = draw.randrange(4)
        action = draw.choice(["insert", "insert", "insert", "commit", "rollback"])
        if action == "insert":
            with writers[number].cursor() as cursor:
                cursor.execute("INSERT INTO orders (item, at) VALUES (%s, clock_timestamp())", (str(step),))
            pending[number].append(str(step))
        else:
            getattr(writers[number], action)()
            expected += pending[number] if action == "commit" else []
            pending[number] = []
        if draw.random() < 0.3:
            polls = iter(range(10))
            recording.run(orders, "orders", until=lambda polls=polls: next(polls, None) is None, draw=draw)  # type: ignore[misc]
    for writer in writers:
        writer.rollback()
        writer.close()
    recording.run(orders, "orders", until=lambda: len(recording.records) >= len(expected))
    assert sorted(items(recording)) == sorted(expected)


def test_a_large_result_is_read_in_batches_of_the_server(database: Database) -> None:
    database.execute(CREATE)
    database.execute(
        "INSERT INTO orders (item, at) "
        "SELECT n::text, '2024-01-01'::timestamptz + n * interval '1 s' FROM generate_series(1, 5000) n"
    )
    recording = Recording()
    recording.run(
        source(database, TIMESTAMP, batch_max_rows=700), "orders", until=lambda: len(recording.records) == 5_000
    )
    assert items(recording) == [str(n) for n in range(1, 5_001)]


def test_a_server_that_restarts_is_an_error_that_may_pass(database: Database) -> None:
    database.execute(CREATE)
    recording, orders = Recording(), source(database, INCREMENTING)

    def restart() -> bool:
        database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'millstream'")
        return False

    with pytest.raises(ConnectorError, match="polling orders") as error:
        recording.run(orders, "orders", until=restart)
    assert error.value.may_pass
