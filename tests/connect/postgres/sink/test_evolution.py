"""Tables that the sink creates, extends and widens, and what it refuses to change."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.connect.postgres.sink.sinks import KEYED, Task, after, orders, query, types, write, writing

from millstream.connect.api import RefusedRecords
from millstream.connect.postgres.client import Server
from millstream.errors import ConnectorError

FIXED = {**KEYED, "schema.evolution": "none"}
SELECT = 'SELECT * FROM "orders" ORDER BY id'


def test_columns_are_added_when_fields_appear(database: Server) -> None:
    with writing(database) as writer:
        write(writer, (1, {"a": 1, "later": None}))
        assert list(types(database)) == ["id", "a"]
        write(writer, (2, {"a": 2, "later": "x"}), (3, {"more": True}), start=1)
    assert query(database, SELECT) == [(1, 1, None, None), (2, 2, "x", None), (3, None, None, True)]


def test_columns_of_numbers_are_widened_and_keep_their_values(database: Server) -> None:
    query(
        database,
        "CREATE TABLE orders (id int PRIMARY KEY, a smallint, b int, c double precision, d bigint NOT NULL DEFAULT 5);"
        "INSERT INTO orders VALUES (1, 5, 5, 0.1, 7)",
    )
    with writing(database) as writer:
        write(
            writer,
            (2, {"a": 100_000, "b": 2.5, "c": 2**60 + 1, "d": 2**64}),
            (3, {"a": 2.0, "d": 1}),
            (2**40, {"a": 1}),
        )
    assert types(database) == {"id": "bigint", "a": "bigint", "b": "numeric", "c": "numeric", "d": "numeric"}
    rows = [tuple(map(str, row)) for row in query(database, SELECT)]
    assert rows == [
        ("1", "5", "5", "0.1", "7"),
        ("2", "100000", "2.5", str(2**60 + 1), str(2**64)),
        ("3", "2", "None", "None", "1"),
        (str(2**40), "1", "None", "None", "5"),
    ]


@pytest.mark.parametrize(
    ("settings", "creates", "evolves"),
    [
        ({"schema.evolution": "basic"}, True, True),
        ({"schema.evolution": "none"}, False, False),
        ({"schema.evolution": "none", "auto.create": True}, True, False),
        ({"schema.evolution": "basic", "auto.evolve": "false"}, True, False),
    ],
)
def test_each_kind_of_change_can_be_switched(
    database: Server, settings: dict[str, Any], creates: bool, evolves: bool
) -> None:
    with writing(database, {**KEYED, **settings}) as writer:
        if not creates:
            with pytest.raises(RefusedRecords, match="there is no table orders"):
                write(writer, (1, {"a": 1}))
            query(database, "CREATE TABLE orders (id bigint PRIMARY KEY, a bigint)")
        write(writer, (1, {"a": 1}))
        for value, reason in (({"b": 1}, "no column 'b'"), ({"a": 0.5}, "has the type bigint, the value is a float")):
            if evolves:
                write(writer, (2, value), start=1)
            else:
                with pytest.raises(RefusedRecords, match=reason):
                    write(writer, (2, value), start=1)
        write(writer, (2, {"a": 1, "b": None}), start=2)
    assert query(database, "SELECT next_offset FROM millstream_offsets") == [(3,)]


def test_a_column_that_a_view_uses_cannot_be_widened_and_the_record_is_refused(database: Server) -> None:
    query(database, "CREATE TABLE orders (id bigint PRIMARY KEY, a int); CREATE VIEW v AS SELECT a FROM orders")
    with writing(database) as writer, pytest.raises(RefusedRecords, match="used by a view") as refused:
        write(writer, (1, {"a": 1}), (2, {"a": 2**40}))
    assert list(refused.value.reasons) == [1]


def test_too_many_columns_are_refused(database: Server) -> None:
    with writing(database) as writer:
        write(writer, (1, {"a": 1}))
        with pytest.raises(RefusedRecords, match="at most 1600 columns") as refused:
            write(writer, (2, {f"c{n}": n for n in range(1_700)}), (3, {"a": 3}), start=1)
        assert list(refused.value.reasons) == [0]


def test_a_table_that_changes_under_the_sink_is_read_again(database: Server) -> None:
    with writing(database) as writer:
        write(writer, (1, {"a": 1, "b": 1}))
        query(database, "ALTER TABLE orders DROP COLUMN b")
        write(writer, (2, {"a": 2, "b": 2}), start=1)
        query(database, "ALTER TABLE orders ALTER COLUMN a TYPE boolean USING true")
        with pytest.raises(RefusedRecords, match="has the type boolean"):
            write(writer, (3, {"a": 3}), start=2)
        query(database, "DROP TABLE orders")
        write(writer, (3, {"a": 3}), start=2)
    assert query(database, SELECT) == [(3, 3)]


def test_a_table_without_a_unique_key_is_an_error_with_a_remedy(database: Server) -> None:
    query(database, "CREATE TABLE orders (id bigint, a bigint)")
    with writing(database) as writer, pytest.raises(ConnectorError, match="no unique") as error:
        write(writer, (1, {"a": 1}))
    assert error.value.hint is not None
    assert "create a unique index" in error.value.hint
    assert not error.value.may_pass


def test_missing_rights_are_an_error_with_a_remedy(database: Server) -> None:
    query(
        database,
        "DO $$ BEGIN CREATE ROLE writer LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
        "CREATE TABLE orders (id bigint PRIMARY KEY, a bigint); GRANT CREATE ON SCHEMA public TO writer",
    )
    with writing(database, {**KEYED, "connection.username": "writer"}) as writer:
        with pytest.raises(ConnectorError, match="permission denied for table orders") as error:
            write(writer, (1, {"a": 1}))
        assert (error.value.hint, error.value.may_pass) == ("grant the right to the user of the sink", False)


def test_tasks_that_create_and_extend_the_same_table_at_once_succeed(database: Server) -> None:
    errors: list[BaseException] = []

    def run(task: int) -> None:
        try:
            with writing(database, task=Task(task=task), partitions=[("orders", task)]) as writer:
                for batch in range(8):
                    records = orders((f"{task}-{batch}", {f"c{batch}": 1}), start=batch, partition=task)
                    writer.write(records, after(records))
        except Exception as error:  # noqa: BLE001  (the test looks at it)
            errors.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert query(database, "SELECT count(*) FROM orders") == [(32,)]
    assert len(types(database)) == 9


def test_a_writer_that_waits_too_long_for_a_lock_may_try_again(database: Server) -> None:
    query(database, "CREATE TABLE orders (id bigint PRIMARY KEY, a bigint)")
    other = database.connect()
    other.autocommit = False
    with other.cursor() as cursor, writing(database, {**KEYED, "lock.timeout.ms": 50}) as writer:
        cursor.execute("LOCK TABLE orders")
        with pytest.raises(ConnectorError, match="lock timeout") as error:
            write(writer, (1, {"a": 1}))
        assert error.value.may_pass
        other.rollback()
        write(writer, (1, {"a": 1}))
    other.close()
