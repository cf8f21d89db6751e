"""Values of all types, as rows of a snapshot and as changes."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from tests.connect.postgres.cdc.host import Host
from tests.connect.postgres.server import Database

from millstream.errors import ConnectorError

Hosts = Callable[..., Host]

INFINITY = float("inf")

# Type, literal, type of the schema, name of the schema, value.
CASES: list[tuple[str, str, str, str | None, Any]] = [
    ("bool", "true", "boolean", None, True),
    ("int2", "-32768", "int16", None, -32768),
    ("int4", "2147483647", "int32", None, 2147483647),
    ("int8", "-9223372036854775808", "int64", None, -(2**63)),
    ("oid", "4294967295", "int64", None, 4294967295),
    ("float4", "1.1", "float32", None, 1.1),
    ("float8", "0.1", "float64", None, 0.1),
    ("float8", "'-Infinity'", "float64", None, -INFINITY),
    ("numeric(10,2)", "12345678.90", "bytes", "org.apache.kafka.connect.data.Decimal", Decimal("12345678.90")),
    ("numeric(3,-2)", "12345", "bytes", "org.apache.kafka.connect.data.Decimal", Decimal(12300)),
    ("numeric", "-1.5", "struct", "io.debezium.data.VariableScaleDecimal", {"scale": 1, "value": b"\xf1"}),
    ("money", "'-1234.5'", "bytes", "org.apache.kafka.connect.data.Decimal", Decimal("-1234.50")),
    ("char(5)", "'ab'", "string", None, "ab   "),
    ("varchar(5)", "'a''b'", "string", None, "a'b"),
    ("text", "E'\\\\N\\t\\n\"{}ü€😀'", "string", None, '\\N\t\n"{}ü€😀'),
    ("name", "'n'", "string", None, "n"),
    ('"char"', "'c'", "string", None, "c"),
    ("bytea", "'\\x00ff5c'", "bytes", None, b"\x00\xff\x5c"),
    ("date", "'1969-12-31'", "int32", "io.debezium.time.Date", -1),
    ("date", "'0044-03-15 BC'", "int32", "io.debezium.time.Date", -735160),
    ("date", "'infinity'", "int32", "io.debezium.time.Date", 2**31 - 1),
    ("time", "'24:00:00'", "int64", "io.debezium.time.MicroTime", 86_400_000_000),
    ("time(3)", "'00:00:01.5'", "int32", "io.debezium.time.Time", 1500),
    ("timetz", "'13:51:30.123789+02'", "string", "io.debezium.time.ZonedTime", "11:51:30.123789Z"),
    ("timestamp", "'2026-01-01 00:00:00.000001'", "int64", "io.debezium.time.MicroTimestamp", 1_767_225_600_000_001),
    ("timestamp", "'12026-01-01'", "int64", "io.debezium.time.MicroTimestamp", 317_336_745_600_000_000),
    ("timestamp", "'-infinity'", "int64", "io.debezium.time.MicroTimestamp", -9_223_372_036_832_400_000),
    ("timestamp(3)", "'1970-01-01 00:00:00.5'", "int64", "io.debezium.time.Timestamp", 500),
    ("timestamptz", "'2026-01-01 02:00:00.5+02'", "string", "io.debezium.time.ZonedTimestamp",
     "2026-01-01T00:00:00.5Z"),
    ("timestamptz", "'infinity'", "string", "io.debezium.time.ZonedTimestamp", "infinity"),
    ("interval", "'1 mon -1 day 00:00:00.5'", "int64", "io.debezium.time.MicroDuration", 2_543_400_500_000),
    ("uuid", "'A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11'", "string", "io.debezium.data.Uuid",
     "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("json", "'{\"a\":  1}'", "string", "io.debezium.data.Json", '{"a":  1}'),
    ("jsonb", "'{\"a\":  1}'", "string", "io.debezium.data.Json", '{"a": 1}'),
    ("xml", "'<a/>'", "string", "io.debezium.data.Xml", "<a/>"),
    ("inet", "'10.0.0.1'", "string", None, "10.0.0.1"),
    ("cidr", "'10.0.0.0/8'", "string", None, "10.0.0.0/8"),
    ("macaddr", "'08:00:2B:01:02:03'", "string", None, "08:00:2b:01:02:03"),
    ("bit", "B'1'", "boolean", None, True),
    ("bit(9)", "B'100000001'", "bytes", "io.debezium.data.Bits", b"\x01\x01"),
    ("varbit", "B'101'", "bytes", "io.debezium.data.Bits", b"\x05"),
    ("mood", "'so-so'", "string", "io.debezium.data.Enum", "so-so"),
    ("positive", "7", "int32", None, 7),
    ("pair", "(1,'a b')", "string", None, '(1,"a b")'),
    ("int4range", "'[1,5]'", "string", None, "[1,6)"),
    ("tstzrange", "'[2026-01-01 00:00+00,)'", "string", None, '["2026-01-01 00:00:00+00",)'),
    ("point", "'(1,-2.5)'", "struct", "io.debezium.data.geometry.Point", None),
    ("tsvector", "'a:1 b:2'", "string", "io.debezium.data.TsVector", "'a':1 'b':2"),
    ("hstore", "'a=>1, \"b\\\"\"=>NULL'", "map", None, {"a": "1", 'b"': None}),
    ("int4[]", "'{1,NULL,3}'", "array", None, [1, None, 3]),
    ("int4[][]", "'{{1,2},{3,4}}'", "array", None, [[1, 2], [3, 4]]),
    ("int4[]", "'[0:1]={1,2}'", "array", None, [1, 2]),
    ("text[]", "array['', 'NULL', null, 'a,b', '\"', '\\', '{}']", "array", None,
     ["", "NULL", None, "a,b", '"', "\\", "{}"]),
    ("numeric(5,1)[]", "'{1.5,2}'", "array", None, [Decimal("1.5"), Decimal("2.0")]),
    ("bytea[]", "array['\\x00'::bytea]", "array", None, [b"\0"]),
    ("timestamptz[]", "'{\"2026-01-01 00:00+00\"}'", "array", None, ["2026-01-01T00:00:00Z"]),
    ("mood[]", "'{happy}'", "array", None, ["happy"]),
    ("box[]", "'{(1,1),(0,0);(2,2),(0,0)}'", "array", None, ["(1,1),(0,0)", "(2,2),(0,0)"]),
    ("date[]", "'{1970-01-02}'", "array", None, [1]),
]  # fmt: skip


def test_a_row_of_a_snapshot_and_a_change_have_the_same_values(database: Database, host: Hosts) -> None:
    database.execute("create extension hstore; create type mood as enum ('happy', 'so-so')")
    database.execute("create domain positive as int check (value > 0); create type pair as (a int, b text)")
    columns = ", ".join(f"c{i} {case[0]}" for i, case in enumerate(CASES))
    literals = ", ".join(case[1] for case in CASES)
    database.execute(
        f"create table t (id int primary key, {columns}); alter database {database.name} set datestyle = sql"
    )
    database.execute(f"insert into t values (1, {literals}); insert into t values (2)")
    capture = host()
    capture.run_to_end(database)
    database.execute(f"insert into t values (3, {literals}); insert into t values (4)")
    capture.run_to_end(database)
    rows = {record.key["id"]: record.value["after"] for record in capture.records}
    schemas = {record.value_schema for record in capture.records}
    assert len(schemas) == 1
    (schema,) = schemas
    assert schema is not None
    fields = dict(schema.fields[1].schema.fields)
    for i, (kind, _, type_, name, value) in enumerate(CASES):
        column = f"c{i}"
        assert (fields[column].type, fields[column].name) == (type_, name), kind
        if value is not None:
            assert rows[1][column] == value, kind
        assert rows[1][column] == rows[3][column], kind
        assert rows[2][column] is rows[4][column] is None, kind
        assert fields[column].optional


def value_of(database: Database, host: Hosts, kind: str, literal: str, **settings: Any) -> Any:
    database.execute(f"create table v (id int primary key, v {kind}); insert into v values (1, {literal})")
    capture = host(**settings)
    capture.run_to_end(database)
    ((_, row),) = capture.values()
    return row["v"]


@pytest.mark.parametrize(
    ("kind", "literal", "settings", "value"),
    [
        ("numeric", "'NaN'", {"decimal_handling_mode": "string"}, "NaN"),
        ("numeric", "'Infinity'", {"decimal_handling_mode": "double"}, INFINITY),
        ("numeric(4,2)", "1.5", {"decimal_handling_mode": "string"}, "1.50"),
        ("money", "1234.5", {"decimal_handling_mode": "string"}, "1234.50"),
        ("date", "'1970-01-02'", {"time_precision_mode": "connect"}, 1),
        ("time", "'00:00:01.5'", {"time_precision_mode": "connect"}, 1500),
        ("timestamp", "'1970-01-01 00:00:01.5'", {"time_precision_mode": "connect"}, 1500),
        ("time(0)", "'00:00:01'", {"time_precision_mode": "adaptive_time_microseconds"}, 1_000_000),
        ("bytea", "'\\xfb'", {"binary_handling_mode": "base64"}, "+w=="),
        ("bytea", "'\\xfb'", {"binary_handling_mode": "base64-url-safe"}, "-w=="),
        ("bytea", "'\\xfb'", {"binary_handling_mode": "hex"}, "fb"),
        ("interval", "'1 year -2 days 03:00'", {"interval_handling_mode": "string"}, "P1Y0M-2DT3H0M0S"),
    ],
)
def test_settings_choose_the_form_of_values(
    database: Database, host: Hosts, kind: str, literal: str, settings: dict[str, Any], value: Any
) -> None:
    assert value_of(database, host, kind, literal, **settings) == value


@pytest.mark.parametrize(
    ("kind", "literal", "message"),
    [
        ("numeric", "'NaN'", "decimal.handling.mode"),
        ("int4[]", "'{{1}}'", "more than 1 dimensions"),
        ("int4[][]", "'{1}'", "fewer than 2 dimensions"),
    ],
)
def test_a_value_that_cannot_be_converted_is_an_error_with_its_column(
    database: Database, host: Hosts, kind: str, literal: str, message: str
) -> None:
    with pytest.raises(ConnectorError, match=f"table public.v, column v: .*{message}") as caught:
        value_of(database, host, kind, literal)
    assert not caught.value.may_pass


def test_nan_is_kept_in_floats(database: Database, host: Hosts) -> None:
    number = value_of(database, host, "float8", "'NaN'")
    assert number != number  # noqa: PLR0124  (NaN)
