"""Values: what is written is what is read, and what cannot be written is refused by itself, with its reason."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.connect.postgres.sink.sinks import KEYED, query, types, write, writing

from millstream.connect.api import RefusedRecords
from millstream.connect.postgres.client import Server

SELECT = 'SELECT * FROM "orders" ORDER BY id'
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
HOSTILE = st.sampled_from(
    ["\\N", "\\.", "\\", "\t", "\n", "\r\n", "\\t", "'", '"', "%s", "$1", "{}", "\x01\x7f", "\u2028😀"]
)


def refused(server: Server, *pairs: tuple[Any, Any], config: dict[str, Any] | None = None) -> dict[int, str]:
    with writing(server, config or KEYED) as writer, pytest.raises(RefusedRecords) as error:
        write(writer, *pairs)
    return error.value.reasons


def test_each_type_of_value_has_a_column_and_comes_back(database: Server) -> None:
    row = {
        "boolean": True,
        "integer": -(2**63),
        "large": 2**80,
        "float": 0.1 + 0.2,
        "decimal": Decimal("12345678901234567890.123456789"),
        "text": "tab\there",
        "bytes": bytes(range(256)),
        "nested": {"a": [1, None, {"b": "ü\n"}]},
        "list": [1, 2.5, "x"],
        "zoned": datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2))),
        "naive": datetime(2024, 2, 29, 12),  # noqa: DTZ001
        "date": date(1, 1, 1),
        "time": time(23, 59, 59, 999999),
        "span": timedelta(days=-1, microseconds=5),
        "uuid": UUID("12345678-1234-5678-1234-567812345678"),
    }
    with writing(database) as writer:
        write(writer, (1, row))
    [(_id, *values)] = query(database, SELECT)
    read = dict(zip(row, values, strict=True))
    assert bytes(read.pop("bytes")) == row.pop("bytes")
    assert UUID(read.pop("uuid")) == row.pop("uuid")
    assert read.pop("zoned") == row.pop("zoned")
    assert read == row
    assert types(database) == {
        "id": "bigint",
        "boolean": "boolean",
        "integer": "bigint",
        "large": "numeric",
        "float": "double precision",
        "decimal": "numeric",
        "text": "text",
        "bytes": "bytea",
        "nested": "jsonb",
        "list": "jsonb",
        "zoned": "timestamp with time zone",
        "naive": "timestamp without time zone",
        "date": "date",
        "time": "time without time zone",
        "span": "interval",
        "uuid": "uuid",
    }


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(TEXT, HOSTILE, st.none()), min_size=1, max_size=20))
def test_any_text_comes_back(database: Server, texts: list[str | None]) -> None:
    query(database, 'DROP TABLE IF EXISTS "orders"')
    with writing(database, {**KEYED, "column.types": "text:text"}) as writer:
        write(writer, *((place, {"text": text, "json": [text]}) for place, text in enumerate(texts)))
    columns = 'SELECT text, json FROM "orders" ORDER BY id' if any(t is not None for t in texts) else None
    if columns:
        assert query(database, columns) == [(text, [text]) for text in texts]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(st.integers(), st.floats(), st.decimals(places=3, allow_nan=False), st.none()),
        min_size=1,
        max_size=10,
    )
)
def test_any_numbers_share_a_column_without_a_loss(database: Server, numbers: list[Any]) -> None:
    query(database, 'DROP TABLE IF EXISTS "orders"')
    with writing(database) as writer:
        for place, number in enumerate(numbers):  # each in a batch of its own: the column is widened step by step
            write(writer, (place, {"n": number, "x": "x"}), start=place)
    has_numbers = any(number is not None for number in numbers)
    read = query(database, 'SELECT n::text FROM "orders" ORDER BY id') if has_numbers else []
    for number, (text,) in zip(numbers, read, strict=False):
        if number is None:
            assert text is None
        elif math.isnan(number) or math.isinf(number):
            assert str(float(text)) == str(float(number))
        elif isinstance(number, float):
            assert float(text) == number
        else:
            assert Decimal(text) == number


def test_hostile_names_are_only_names(database: Server) -> None:
    name = 'x"; DROP TABLE "keep"; --%s%(a)s\\'
    query(database, "CREATE TABLE keep (id int)")
    config = {**KEYED, "collection.name.format": 'the "${topic}" of % $1', "primary.key.fields": "select"}
    for insert_mode in ("upsert", "changelog"):
        with writing(
            database, {**config, "insert.mode": insert_mode, "delete.enabled": insert_mode == "upsert"}
        ) as writer:
            write(writer, (1, {name: 1, "Größe": 2, "a b": 3}), (2, {name: 5}), topic=insert_mode)
            write(writer, (2, None), start=2, topic=insert_mode)
    quoted = name.replace('"', '""')
    assert query(database, f'SELECT "select", "{quoted}", "Größe", "a b" FROM "the ""upsert"" of % $1"') == [
        (1, 1, 2, 3)
    ]
    assert query(database, "SELECT * FROM keep") == []


def test_names_that_postgresql_would_change_are_refused(database: Server) -> None:
    reasons = refused(database, (1, {"a" * 64: 1}), (2, {"": 1}), (3, {"a\0b": 1}), (4, {"ok": 1}), (5, {"\ud800": 1}))
    assert sorted(reasons) == [0, 1, 2, 4]
    assert "64 bytes" in reasons[0]
    assert "NUL" in reasons[2]


def test_each_bad_record_is_named_with_its_reason_and_the_others_can_be_written(database: Server) -> None:
    query(
        database,
        "CREATE DOMAIN short AS text CHECK (length(value) < 4);"
        "CREATE TABLE orders (id bigint PRIMARY KEY, a smallint NOT NULL, b varchar(3), c short, d numeric(4, 1), "
        "e timestamptz, f jsonb, g boolean, h bytea, i integer[], j inet, k bigint CHECK (k > 0) UNIQUE)",
    )
    good = {"a": 1, "b": "abc", "c": "abc", "d": 1.5, "e": "2024-01-01T00:00:00Z", "f": {"x": [1]}, "g": True}
    good |= {"h": b"\0", "i": [1, None, 3], "j": "10.0.0.1"}
    bad: list[tuple[Any, str]] = [
        ({**good, "a": None}, "refuses nulls"),
        ({"b": "abc"}, "null value in column"),
        ({**good, "a": 40_000}, "type smallint"),
        ({**good, "a": "1"}, "type smallint, the value is text"),
        ({**good, "b": "abcd"}, "too long"),
        ({**good, "b": "a\0"}, "NUL"),
        ({**good, "b": "\ud800"}, "not valid Unicode"),
        ({**good, "c": "abcd"}, "violates check constraint"),
        ({**good, "d": 1e9}, "numeric field overflow"),
        ({**good, "e": "yesterday evening"}, "invalid input syntax for type timestamp"),
        ({**good, "e": 2**62}, "cannot be written"),
        ({**good, "f": "{"}, "invalid input syntax for type json"),
        ({**good, "f": {"x": math.nan}}, "cannot be written"),
        ({**good, "f": {"x": "\0"}}, "unsupported Unicode escape sequence"),
        ({**good, "g": 1}, "type boolean, the value is an integer"),
        ({**good, "h": "text"}, "type bytea, the value is text"),
        ({**good, "i": ["x"]}, "invalid input syntax for type integer"),
        ({**good, "i": 5}, "the value is an integer"),
        ({**good, "j": "10.0.0.0.1"}, "invalid input syntax for type inet"),
        ({**good, "k": 0}, "violates check constraint"),
        ({**good, "k": 5}, "duplicate key value"),
        ({**good, "unknown": 5}, "no column 'unknown'"),
        ({**good, "a": {1, 2}}, "a value of the class set"),
    ]
    query(database, "INSERT INTO orders (id, a, k) VALUES (0, 0, 5)")
    pairs: list[tuple[int, Any]] = []
    expected: dict[int, str] = {}
    for place, (value, reason) in enumerate(bad):
        pairs += [(3 * place + 1, good), (3 * place + 2, value), (3 * place + 3, good)]
        expected[3 * place + 1] = reason
    found: dict[int, str] = {}
    with writing(database, {**KEYED, "schema.evolution": "none"}) as writer:
        left = list(enumerate(pairs))
        while True:
            try:
                write(writer, *(pair for _place, pair in left))
                break
            except RefusedRecords as error:
                assert query(database, "SELECT count(*) FROM orders") == [(1,)]
                found |= {left[place][0]: reason for place, reason in error.reasons.items()}
                left = [item for place, item in enumerate(left) if place not in error.reasons]
    assert found.keys() == expected.keys()
    assert {place: reason for place, reason in found.items() if expected[place] not in reason} == {}
    assert query(database, "SELECT count(*) FROM orders") == [(1 + 2 * len(bad),)]


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_a_batch_full_of_bad_records_is_refused_in_few_rounds(database: Server, mode: str) -> None:
    query(database, "CREATE TABLE orders (id bigint PRIMARY KEY, a text CHECK (a <> 'bad'), b varchar(2))")
    config = {**KEYED, "insert.mode": mode, "delete.enabled": mode == "upsert"}
    values = [{"a": "bad" if n % 2 else "good", "b": "abc" if n % 3 == 0 else "ab"} for n in range(1_000)]
    assert sorted(refused(database, *enumerate(values), config=config)) == [
        n for n in range(1_000) if n % 2 or n % 3 == 0
    ]


def test_the_line_that_copy_names_is_that_of_the_record(database: Server) -> None:
    """Rows without a value for a column with a default are copied by themselves; names can look like a line."""
    query(database, "CREATE TABLE \"a, line 2\" (id bigint PRIMARY KEY, a varchar(3), state text DEFAULT 'open')")
    values = [{"a": "1"}, {"a": "2", "state": "x"}, {"a": "long"}, {"a": "long", "state": "x"}, {"a": "3"}, {"a": "4"}]
    config = {**KEYED, "collection.name.format": "a, line 2"}
    for mode in ("insert", "upsert"):
        named = {**config, "insert.mode": mode, "delete.enabled": mode == "upsert"}
        assert sorted(refused(database, *enumerate(values), config=named)) == [2, 3]


def test_records_without_any_value_are_refused(database: Server) -> None:
    config = {"schema.evolution": "basic"}
    assert list(refused(database, (1, {}), (2, {"a": None}), config=config)) == [0, 1]
    query(database, "CREATE TABLE orders (a bigint)")
    assert list(refused(database, (1, {}), config=config)) == [0]


def test_refused_rows_of_deferred_constraints_are_found(database: Server) -> None:
    query(
        database,
        "CREATE TABLE customers (id bigint PRIMARY KEY); INSERT INTO customers VALUES (1);"
        "CREATE TABLE orders (id bigint PRIMARY KEY, c bigint REFERENCES customers DEFERRABLE INITIALLY DEFERRED)",
    )
    pairs = [(n, {"c": 2 if n in {3, 50, 149} else 1}) for n in range(200)]
    assert sorted(refused(database, *pairs)) == [3, 50, 149]
    insert = {**KEYED, "insert.mode": "insert", "delete.enabled": False}
    assert sorted(refused(database, *pairs, config=insert)) == [3, 50, 149]


def test_rows_that_triggers_refuse_are_found(database: Server) -> None:
    query(
        database,
        "CREATE TABLE orders (id bigint PRIMARY KEY, a bigint);"
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF new.a = 7 THEN RAISE EXCEPTION 'not seven'; END IF; RETURN new; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION refuse()",
    )
    assert refused(database, (1, {"a": 1}), (2, {"a": 7}), (3, {"a": 3})) == {1: "not seven"}


def test_keys_that_only_the_server_takes_for_equal_keep_their_order(database: Server) -> None:
    query(database, "CREATE TABLE orders (id uuid PRIMARY KEY, a bigint, b bigint)")
    low = "a0000000-0000-4000-8000-00000000000a"
    with writing(database) as writer:
        write(writer, (low, {"a": 1, "b": 1}), (low.upper(), None), (low, {"a": 2}))
    assert query(database, SELECT) == [(low, 2, None)]
    with writing(database) as writer:
        write(writer, (low, {"a": 3}), (low.upper(), {"b": 3}), start=3)
        assert query(database, SELECT) == [(low, 3, 3)]
        write(writer, (low, {"a": 4}), (low.upper(), None), start=5)
    assert query(database, SELECT) == []


def test_refused_rows_among_keys_that_only_the_server_takes_for_equal_are_found(database: Server) -> None:
    query(database, "CREATE TABLE orders (id uuid PRIMARY KEY, a bigint CHECK (a < 5))")
    low = "a0000000-0000-4000-8000-00000000000a"
    reasons = refused(database, ("no", {"a": 1}), (low, {"a": 1}), (low.upper(), {"a": 2}), (low, {"a": 7}))
    assert sorted(reasons) == [0, 3]


def test_keys_with_other_columns_than_those_of_the_table_are_refused(database: Server) -> None:
    config = {**KEYED, "primary.key.fields": ()}
    with writing(database, config) as writer:
        write(writer, ({"a": 1, "b": 2}, {"x": 1}), ({"b": 2, "a": 1}, {"x": 2}))
        assert query(database, 'SELECT a, b, x FROM "orders"') == [(1, 2, 2)]
    reasons = refused(database, ({"a": 1, "b": 2}, {"x": 1}), ({"a": 1}, {"x": 1}), config=config)
    assert list(reasons) == [1]


def test_records_without_a_key_or_with_a_null_in_it_are_refused(database: Server) -> None:
    reasons = refused(
        database, (None, {"a": 1}), (("a", "b"), {"a": 1}), ({"no": 1}, {"a": 1}), ({"id": None}, {}), (1, {})
    )
    assert sorted(reasons) == [0, 1, 2, 3]


def test_generated_identities_take_the_values_of_records(database: Server) -> None:
    query(database, "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a bigint)")
    with writing(database) as writer:
        write(writer, (7, {"a": 1}), (7, {"a": 2}))
    assert query(database, SELECT) == [(7, 2)]


def test_a_value_of_100_mb_is_written(database: Server) -> None:
    text = "0123456789\t" * 9_500_000
    with writing(database) as writer:
        write(writer, (1, {"text": text}), (2, {"text": "small"}))
    assert query(database, 'SELECT id, length(text), md5(left(text, 11)) FROM "orders" ORDER BY id')[0][:2] == (
        1,
        len(text),
    )


def test_integers_are_times_in_columns_of_times(database: Server) -> None:
    told = {"column.types": {"at": "timestamptz", "day": "date", "price": "numeric(8,2)"}}
    with writing(database, {**KEYED, **told}) as writer:
        write(writer, (1, {"at": 1_709_208_000_123, "day": 19_782, "price": 5}))
    assert types(database)["price"] == "numeric(8,2)"
    [(_id, at, day, price)] = query(database, SELECT)
    assert (at, day, str(price)) == (datetime(2024, 2, 29, 12, 0, 0, 123000, tzinfo=UTC), date(2024, 2, 29), "5.00")


def test_the_zone_of_a_time_is_not_lost_in_a_column_without_zone(database: Server) -> None:
    query(database, "CREATE TABLE orders (id bigint PRIMARY KEY, at timestamp)")
    zone = timezone(timedelta(hours=2))
    with writing(database) as writer:
        write(writer, (1, {"at": "2024-01-01T12:00:00+02:00"}), (2, {"at": datetime(2024, 1, 1, 12, tzinfo=zone)}))
    assert query(database, "SELECT at::text FROM orders") == [("2024-01-01 10:00:00",), ("2024-01-01 10:00:00",)]


def test_values_with_the_schema_of_connect_have_their_types(database: Server) -> None:
    fields = [
        {
            "field": "paid",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2"},
        },
        {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        {"field": "zoned", "type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
        {"field": "never", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        {"field": "data", "type": "string", "name": "io.debezium.data.Json"},
        {"field": "raw", "type": "bytes"},
        {"field": "whole", "type": "double"},
    ]
    payload = {
        "paid": "BNI=",
        "at": 1_709_208_000_123_456,
        "zoned": "2024-02-29T12:00:00.5Z",
        "day": 19_782,
        "never": 2**63 - 1,
        "data": '{"a": 1}',
        "raw": "AAE=",
        "whole": 5,
    }
    with writing(database) as writer:
        key = {"schema": {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}, "payload": {"id": 1}}
        write(writer, (key, {"schema": {"type": "struct", "fields": fields}, "payload": payload}))
    assert list(types(database).values()) == [
        "bigint",
        "numeric",
        "timestamp without time zone",
        "timestamp with time zone",
        "date",
        "text",
        "jsonb",
        "bytea",
        "double precision",
    ]
    [row] = query(database, 'SELECT paid, "at", zoned, day, data FROM "orders"')
    assert row == (
        Decimal("12.34"),
        datetime(2024, 2, 29, 12, 0, 0, 123456),  # noqa: DTZ001  (it has no zone)
        datetime(2024, 2, 29, 12, 0, 0, 500000, tzinfo=UTC),
        date(2024, 2, 29),
        {"a": 1},
    )
