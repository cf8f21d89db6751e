"""What each mode of the sink does with records, on a real server."""

from __future__ import annotations

import pytest
from tests.connect.postgres.sink.sinks import KEYED, UPSERT, Task, orders, query, sink_of, types, write, writing

from millstream.connect.api import RefusedRecords
from millstream.connect.postgres.client import Server
from millstream.core.records import Windowed
from millstream.errors import ConfigError

COLUMNS = 'SELECT * FROM "orders" ORDER BY 1'


def test_an_upsert_writes_the_last_value_of_each_key(database: Server) -> None:
    with writing(database) as writer:
        write(writer, (1, {"total": 5}), (2, {"total": 7}), (1, {"total": 6}))
        write(writer, (2, {"total": 8}), start=3)
    assert query(database, COLUMNS) == [(1, 6), (2, 8)]
    assert query(database, "SELECT topic, partition, next_offset FROM millstream_offsets") == [("orders", 0, 4)]


def test_a_null_value_deletes_the_row_and_a_later_value_writes_it_anew(database: Server) -> None:
    with writing(database) as writer:
        write(writer, (1, {"a": 1, "b": 1}), (2, {"a": 2, "b": 2}), (3, {"a": 3, "b": 3}))
        # The row of 2 is deleted and written in one batch: b is not that of the deleted row.
        write(writer, (1, None), (2, None), (2, {"a": 9}), (4, {"a": 4}), (4, None), start=3)
    assert query(database, COLUMNS) == [(2, 9, None), (3, 3, 3)]


def test_an_upsert_keeps_columns_that_the_value_lacks(database: Server) -> None:
    with writing(database) as writer:
        write(writer, (1, {"a": 1, "b": 1}), (2, {"a": 1, "b": 1}))
        write(writer, (1, {"a": 2}), (2, {"b": 3}), (1, {"b": 4}), start=2)
    assert query(database, COLUMNS) == [(1, 2, 4), (2, 1, 3)]


def test_missing_fields_can_become_null(database: Server) -> None:
    query(database, "CREATE TABLE orders (id bigint PRIMARY KEY, a bigint, b bigint, made text DEFAULT 'now')")
    with writing(database, {**KEYED, "missing.fields": "null"}) as writer:
        write(writer, (1, {"a": 1, "b": 1}), (2, {"a": 1}))
        write(writer, (1, {"a": 2}), start=2)
    assert query(database, COLUMNS) == [(1, 2, None, "now"), (2, 1, None, "now")]


def test_nulls_are_skipped_without_deletes(database: Server) -> None:
    with writing(database, {**KEYED, "delete.enabled": False}) as writer:
        write(writer, (1, {"a": 1}), (1, None))
    assert query(database, COLUMNS) == [(1, 1)]


def test_an_insert_appends_each_record(database: Server) -> None:
    with writing(database, {"schema.evolution": "basic"}) as writer:
        write(writer, ("a", {"x": 1}), ("a", {"x": 1}), ("b", {"x": 2}), ("b", None))
    assert query(database, 'SELECT x FROM "orders" ORDER BY x') == [(1,), (1,), (2,)]


def test_values_that_are_no_structs_have_a_column(database: Server) -> None:
    with writing(database, KEYED) as writer:
        write(writer, (1, 5), (2, 6))
    assert query(database, COLUMNS) == [(1, 5), (2, 6)]
    assert list(types(database)) == ["id", "value"]


def test_an_insert_uses_defaults_for_columns_that_a_value_lacks(database: Server) -> None:
    query(database, "CREATE TABLE orders (id bigint PRIMARY KEY, state text DEFAULT 'open', note text)")
    with writing(database, {"primary.key.mode": "record_key", "primary.key.fields": "id"}) as writer:
        write(writer, (1, {"note": "a"}), (2, {"state": None}), (3, {"state": "paid", "note": "b"}))
    assert query(database, COLUMNS) == [(1, "open", "a"), (2, None, None), (3, "paid", "b")]


def test_an_update_changes_existing_rows_only(database: Server) -> None:
    query(
        database, "CREATE TABLE orders (id bigint PRIMARY KEY, a bigint, b bigint); INSERT INTO orders VALUES (1, 1, 1)"
    )
    with writing(database, {**KEYED, "insert.mode": "update", "delete.enabled": False}) as writer:
        write(writer, (1, {"a": 2}), (2, {"a": 2}), (1, {"b": 3}))
    assert query(database, COLUMNS) == [(1, 2, 3)]


def test_a_changelog_has_every_record(database: Server) -> None:
    with writing(database, {"insert.mode": "changelog", "schema.evolution": "basic"}) as writer:
        write(writer, ({"id": 1}, {"a": 5}), ({"id": 1}, None), ({"id": 1}, {"a": 6}))
    rows = query(
        database,
        "SELECT __connect_topic, __connect_partition, __connect_offset, __op, id, a, "
        'extract(epoch FROM __ts)::bigint FROM "orders" ORDER BY __connect_offset',
    )
    assert rows == [
        ("orders", 0, 0, "u", 1, 5, 1_700_000_000),
        ("orders", 0, 1, "d", 1, None, 1_700_000_000),
        ("orders", 0, 2, "u", 1, 6, 1_700_000_000),
    ]


def test_envelopes_of_debezium_are_unwrapped(database: Server) -> None:
    source = {"db": "shop", "schema": "public", "table": "orders", "lsn": 5}

    def event(op: str, before: object, now: object) -> dict[str, object]:
        return {"op": op, "before": before, "after": now, "source": source, "ts_ms": 5, "transaction": None}

    settings = {**UPSERT, "schema.evolution": "basic", "collection.name.format": "${source.schema}_${source.table}"}
    with writing(database, settings) as writer:
        write(
            writer,
            ({"id": 1}, event("r", None, {"id": 1, "a": 1})),
            ({"id": 2}, event("c", None, {"id": 2, "a": 2})),
            ({"id": 1}, event("u", {"id": 1, "a": 1}, {"id": 1, "a": 3})),
            ({"id": 2}, event("d", {"id": 2, "a": 2}, None)),
            topic="shop.public.orders",
        )
    assert query(database, 'SELECT * FROM "public_orders"') == [(1, 3)]


def test_the_key_can_come_from_the_value(database: Server) -> None:
    settings = {
        "insert.mode": "upsert",
        "primary.key.mode": "record_value",
        "primary.key.fields": "shop,number",
        "schema.evolution": "basic",
    }
    with writing(database, settings) as writer:
        write(writer, (None, {"number": 1, "shop": "a", "x": 1}), (None, {"number": 1, "shop": "a", "x": 2}))
    assert query(database, 'SELECT shop, number, x FROM "orders"') == [("a", 1, 2)]


def test_tuples_and_windowed_keys_are_columns(database: Server) -> None:
    with writing(database, {**KEYED, "primary.key.fields": "shop,number"}) as writer:
        write(writer, (Windowed(("a", 1), 0, 60_000), {"count": 3}), (Windowed(("a", 1), 0, 60_000), {"count": 4}))
    rows = query(database, 'SELECT shop, number, window_start, window_end, count FROM "orders"')
    assert rows == [("a", 1, 0, 60_000, 4)]


def test_dots_of_a_topic_become_underscores_and_a_format_can_name_a_schema(database: Server) -> None:
    query(database, "CREATE SCHEMA reports")
    with writing(database, {**KEYED, "collection.name.format": "reports.${topic}_now"}) as writer:
        write(writer, (1, {"a": 1}), topic="eu.orders")
    assert query(database, "SELECT * FROM reports.eu_orders_now") == [(1, 1)]


def test_a_batch_of_several_tables_is_one_transaction(database: Server) -> None:
    query(database, "CREATE TABLE b (id bigint PRIMARY KEY, a bigint CHECK (a < 5))")
    with writing(database, partitions=[("a", 0), ("b", 0)]) as writer:
        records = orders((1, {"a": 1}), topic="a") + orders((1, {"a": 7}), topic="b")
        with pytest.raises(RefusedRecords) as refused:
            writer.write(records, {("a", 0): 1, ("b", 0): 1})
        assert list(refused.value.reasons) == [1]
        assert query(database, "SELECT * FROM a") == []
        writer.write(records[:1], {("a", 0): 1, ("b", 0): 1})
    assert query(database, "SELECT * FROM a") == [(1, 1)]


def test_offsets_are_recorded_without_records(database: Server) -> None:
    with writing(database) as writer:
        writer.write([], {("orders", 0): 17})
    with writing(database, task=Task(epoch=2)) as writer:
        assert writer.positions([("orders", 0), ("orders", 1)]) == {("orders", 0): 17}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"insert.mode": "upsert"}, "needs a primary key"),
        ({"delete.enabled": True}, "delete.enabled needs the key"),
        ({"primary.key.mode": "record_value"}, "names no columns"),
        ({"insert.mod": "upsert"}, "unknown setting 'insert.mod'"),
        ({"collection.name.format": "a.b.c"}, "is not the name of a table"),
        ({"collection.name.format": "${tpoic}"}, "is not allowed"),
        ({"column.types": "a:drop table"}, None),
        ({"column.types": "a:text; drop"}, "is not a type"),
        ({"pk.mode": "kafka", "primary.key.mode": "none"}, "are the same setting"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    database: Server, settings: dict[str, object], message: str | None
) -> None:
    if message is None:
        sink_of(database, settings)
        return
    with pytest.raises(ConfigError, match=message):
        sink_of(database, settings)


def test_the_password_is_never_shown(database: Server) -> None:
    sink = sink_of(database, {"connection.password": "hunter2"})
    assert "hunter2" not in repr(sink.server) + repr(sink.config) + repr(vars(sink))
