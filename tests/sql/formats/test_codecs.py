"""Columns to bytes and back, in every format."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from millstream.errors import DeserializationError, SerializationError, SqlStatementError
from millstream.registry.api import Schema
from millstream.schemas.registries import registry_for
from millstream.sql.formats import (
    Column,
    FormatInfo,
    FormatSerde,
    RowSerde,
    check_columns,
    check_wrapping,
    codec,
    format_of,
    inferred_columns,
)
from millstream.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)
from millstream.testing.registry import MemoryRegistry

WITH_SCHEMAS = ("AVRO", "JSON_SR", "PROTOBUF")
COLUMNS = (
    Column("I", INTEGER),
    Column("L", BIGINT),
    Column("D", DOUBLE),
    Column("B", BOOLEAN),
    Column("S", STRING),
    Column("X", BYTES),
    Column("N", DecimalType(6, 2)),
    Column("DT", DATE),
    Column("TM", TIME),
    Column("TS", TIMESTAMP),
    Column("A", ArrayType(STRING)),
    Column("M", MapType(STRING, BIGINT)),
    Column("R", StructType((("P", INTEGER), ("Q", DecimalType(4, 1))))),
)
ROWS = st.fixed_dictionaries(
    {
        "I": st.integers(-(2**31), 2**31 - 1),
        "L": st.integers(-(2**63), 2**63 - 1),
        "D": st.floats(allow_nan=False),
        "B": st.booleans(),
        "S": st.text(st.characters(codec="utf-8")),
        "X": st.binary(),
        "N": st.decimals("-9999.99", "9999.99", places=2),
        "DT": st.integers(-700_000, 2_000_000),
        "TM": st.integers(0, 86_399_999),
        "TS": st.integers(-(10**15), 10**15),
        "A": st.lists(st.text(st.characters(codec="utf-8")), max_size=3),
        "M": st.dictionaries(st.text(st.characters(codec="utf-8")), st.integers(-(2**63), 2**63 - 1), max_size=3),
        "R": st.fixed_dictionaries({"P": st.integers(0, 9), "Q": st.decimals("-999.9", "999.9", places=1)}),
    }
)


def values(format_: str, *columns: tuple[str, SqlType], **options: Any) -> Any:
    return codec(FormatInfo(format_, **options), [Column(*column) for column in columns], is_key=False)


@settings(max_examples=30, deadline=None)
@given(ROWS)
def test_every_format_returns_the_row_that_it_wrote(row: dict[str, Any]) -> None:
    registry = registry_for(MemoryRegistry())
    for name in ("JSON", "PROTOBUF_NOSR", *WITH_SCHEMAS):
        made = codec(FormatInfo(name), COLUMNS, is_key=False, topic="t", registry=registry)
        assert made.decode(made.encode(row)) == row, name
    serde = pickle.loads(pickle.dumps(RowSerde(COLUMNS, is_key=False)))
    assert serde.deserialize(serde.serialize(row)) == row


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=40))
def test_hostile_bytes_raise_only_deserialization_errors(data: bytes) -> None:
    memory = MemoryRegistry()
    registry = registry_for(memory)
    for name in ("JSON", "DELIMITED", "PROTOBUF_NOSR", *WITH_SCHEMAS):
        columns = COLUMNS[:10] if name == "DELIMITED" else COLUMNS
        made = codec(FormatInfo(name), columns, is_key=False, topic=name, registry=registry)
        made.encode(dict.fromkeys(column.name for column in columns))  # the schema has an id
        for hostile in (data, b"\x00\x00\x00\x00\x01" + data, b"\x00\x00\x00\x00\x03\x00" + data):
            try:
                made.decode(hostile)
            except DeserializationError:
                continue


def test_json_writes_every_column_with_the_numbers_of_java() -> None:
    made = values("JSON", ("A", DOUBLE), ("B", DecimalType(4, 2)), ("C", STRING), ("D", ArrayType(DOUBLE)))
    row = {"A": 1e7, "B": Decimal("1.10"), "C": None, "D": [float("nan"), float("-inf"), 1e-4]}
    assert made.encode(row) == b'{"A":1.0E7,"B":1.10,"C":null,"D":["NaN","-Infinity",1.0E-4]}'


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        (INTEGER, "1.9", 1),
        (INTEGER, '"12"', 12),
        (BIGINT, "-2.5", -2),
        (DOUBLE, '"1.5"', 1.5),
        (STRING, "1.50", "1.50"),
        (STRING, "true", "true"),
        (STRING, '{"b": 1, "a": [1, 2.0]}', '{"b":1,"a":[1,2.0]}'),
        (STRING, '[1, "a", {"b": null}]', '[1, a, {"b":null}]'),
        (DecimalType(4, 2), "1.5", Decimal("1.50")),
        (BYTES, '"YWI="', b"ab"),
        (MapType(STRING, INTEGER), '{"a": null}', {"a": None}),
        (StructType((("F", INTEGER),)), '{"f": 1, "g": 2}', {"F": 1}),
    ],
)
def test_json_reads_leniently(type_: SqlType, text: str, expected: object) -> None:
    assert values("JSON", ("V", type_)).decode(f'{{"v": {text}}}'.encode()) == {"V": expected}


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (BOOLEAN, '"true"'),
        (INTEGER, "true"),
        (INTEGER, '"x"'),
        (DecimalType(4, 2), "1.555"),
        (DecimalType(4, 2), "1e999999999"),
        (INTEGER, "1e999999999"),
        (TIME, "86400001"),
        (BYTES, '"?"'),
        (ArrayType(INTEGER), "{}"),
        (StructType((("F", INTEGER),)), "[]"),
    ],
)
def test_json_of_another_kind_fails_the_record(type_: SqlType, text: str) -> None:
    with pytest.raises(DeserializationError):
        values("JSON", ("V", type_)).decode(f'{{"V": {text}}}'.encode())


def test_a_name_is_matched_exactly_before_its_upper_case() -> None:
    assert values("JSON", ("V", INTEGER)).decode(b'{"v": 1, "V": null}') == {"V": None}
    assert values("JSON", ("v", INTEGER)).decode(b'{"V": 1}') == {"v": None}


def test_a_bare_null_is_a_tombstone() -> None:
    made = values("JSON", ("V", INTEGER), wrap=False)
    assert (made.encode({"V": None}), made.encode({"V": 5}), made.decode(b"5")) == (None, b"5", {"V": 5})


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (("-10", "-10"), b'"-10",-10'),
        (("", ""), b'"",'),
        ((None, None), b","),
        (("a", "#b"), b'a,"#b"'),
        (("a ", "b\t"), b'"a ","b\t"'),
        (('a"b', "c,d"), b'"a""b","c,d"'),
        (("é", "é"), '"é",é'.encode()),
        (("a\nb", "$"), b'"a\nb",$'),
    ],
)
def test_delimited_quotes_as_commons_csv_does(fields: tuple[str | None, ...], line: bytes) -> None:
    made = values("DELIMITED", ("A", STRING), ("B", STRING))
    assert made.encode(dict(zip("AB", fields, strict=True))) == line
    assert list(made.decode(line).values()) == [field or None for field in fields]


@pytest.mark.parametrize("line", [b"", b"\n", b"1", b"1,2,3", b'"1,2', b'"1"x,2', b" 1,2"])
def test_delimited_refuses_a_line_that_does_not_fit(line: bytes) -> None:
    with pytest.raises(DeserializationError):
        values("DELIMITED", ("A", INTEGER), ("B", INTEGER)).decode(line)


def test_delimited_with_another_delimiter_and_all_primitives() -> None:
    spec = FormatInfo("DELIMITED", (("delimiter", "|"),))
    made = codec(spec, COLUMNS[:10], is_key=False)
    row = dict(
        zip(
            ["I", "L", "D", "B", "S", "X", "N", "DT", "TM", "TS"],
            (1, 2, 4.9e-324, True, "a|b", b"x", Decimal("1.50"), 3, 4, 5),
            strict=True,
        )
    )
    assert made.encode(row) == b'1|2|4.9E-324|true|"a|b"|eA==|1.50|3|4|5'
    assert made.decode(made.encode(row)) == row


def test_kafka_writes_one_column_and_checks_the_length() -> None:
    key = codec(FormatInfo("KAFKA"), [Column("K", BIGINT)], is_key=True)
    assert (key.encode(1), key.decode(b"\xff" * 8), key.encode(None)) == (b"\x00" * 7 + b"\x01", -1, None)
    with pytest.raises(DeserializationError):
        key.decode(b"abc")
    with pytest.raises(SerializationError):
        key.encode("x")
    assert codec(FormatInfo("NONE"), [], is_key=True).decode(b"ignored") is None


def test_keys_are_bare_values_or_tuples() -> None:
    two = codec(FormatInfo("JSON"), [Column("A", INTEGER), Column("B", STRING)], is_key=True)
    assert two.encode((1, None)) == b'{"A":1,"B":null}'
    assert two.decode(b'{"A": 1}') == (1, None)
    assert codec(FormatInfo("JSON"), [Column("A", STRING)], is_key=True).encode("x") == b'"x"'


def test_protobuf_writes_null_as_default_unless_it_is_told_otherwise() -> None:
    registry, null = registry_for(MemoryRegistry()), dict.fromkeys("IS")
    columns = [Column("I", INTEGER), Column("S", STRING)]
    plain = codec(FormatInfo("PROTOBUF"), columns, is_key=False, topic="a", registry=registry)
    assert plain.decode(plain.encode(null)) == {"I": 0, "S": ""}
    for kept in ("OPTIONAL", "WRAPPER"):
        spec = FormatInfo("PROTOBUF", (("nullableRepresentation", kept),))
        made = codec(spec, columns, is_key=False, topic=kept, registry=registry)
        assert made.decode(made.encode(null)) == null


@pytest.mark.parametrize("name", WITH_SCHEMAS)
def test_columns_are_inferred_from_the_schema_that_was_derived(name: str) -> None:
    memory = MemoryRegistry()
    made = codec(FormatInfo(name), COLUMNS, is_key=False, topic="t", registry=registry_for(memory))
    made.encode(dict.fromkeys(column.name for column in COLUMNS))
    assert inferred_columns(FormatInfo(name), "t", memory, is_key=False) == COLUMNS
    with pytest.raises(SqlStatementError, match="does not exist"):
        inferred_columns(FormatInfo(name), "other", memory, is_key=False)


def doubling(name: str, levels: int = 40) -> str:
    """A schema in which every record contains two of the next one: 2^levels parts."""
    if name == "AVRO":
        inner: Any = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}
        for level in range(1, levels):
            fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"R{level - 1}"}]
            inner = {"type": "record", "name": f"R{level}", "fields": fields}
        return json.dumps(inner)
    if name == "JSON_SR":
        kinds = {
            f"R{level}": {
                "type": "object",
                "properties": {part: {"$ref": f"#/definitions/R{level - 1}"} for part in "ab"},
            }
            for level in range(1, levels)
        }
        kinds["R0"] = {"type": "object", "properties": {"x": {"type": "integer"}}}
        return json.dumps({**kinds[f"R{levels - 1}"], "definitions": kinds})
    messages = [f"message R{level} {{ R{level - 1} a = 1; R{level - 1} b = 2; }}" for level in range(levels - 1, 0, -1)]
    return "\n".join(['syntax = "proto3";', *messages, "message R0 { int32 x = 1; }"])


@pytest.mark.parametrize("name", WITH_SCHEMAS)
def test_a_schema_whose_type_is_exponentially_large_is_refused(name: str) -> None:
    memory, type_ = MemoryRegistry(), format_of(name).schema_type
    assert type_ is not None
    memory.register("t-value", Schema(doubling(name), type_))
    with pytest.raises(SqlStatementError, match="more than 10,000 parts"):
        inferred_columns(FormatInfo(name), "t", memory, is_key=False)


def test_a_recursive_part_of_a_schema_is_no_column() -> None:
    memory = MemoryRegistry()
    node = {"type": "object", "properties": {"value": {"type": "string"}, "next": {"$ref": "#/definitions/node"}}}
    text = json.dumps({**node, "definitions": {"node": node}})
    memory.register("t-value", Schema(text, "JSON"))
    columns = inferred_columns(FormatInfo("JSON_SR"), "t", memory, is_key=False)
    assert [(column.name, str(column.type)) for column in columns] == [
        ("VALUE", "STRING"),
        ("NEXT", "STRUCT<`VALUE` STRING>"),
    ]


def test_a_source_reads_with_the_schema_of_the_writer() -> None:
    registry = registry_for(MemoryRegistry())
    wide = codec(
        FormatInfo("AVRO"), [Column("a", INTEGER), Column("B", DOUBLE)], is_key=False, topic="t", registry=registry
    )
    narrow = codec(
        FormatInfo("AVRO"), [Column("A", STRING), Column("C", INTEGER)], is_key=False, topic="t", registry=registry
    )
    assert narrow.decode(wide.encode({"a": 7, "B": 1.0})) == {"A": "7", "C": None}
    wrong = codec(FormatInfo("AVRO"), [Column("B", INTEGER)], is_key=False, topic="t", registry=registry)
    with pytest.raises(DeserializationError, match="DOUBLE"):
        wrong.decode(wide.encode({"a": 7, "B": 1.0}))


@pytest.mark.parametrize(
    ("name", "columns", "is_key", "message"),
    [
        ("KAFKA", [Column("A", INTEGER), Column("B", STRING)], False, "only supports a single field"),
        ("KAFKA", [Column("A", BOOLEAN)], True, "does not support type 'BOOLEAN'"),
        ("DELIMITED", [Column("A", ArrayType(INTEGER))], False, "does not support type 'ARRAY'"),
        ("JSON", [Column("A", MapType(INTEGER, STRING))], False, "MAP types with STRING keys"),
        ("JSON", [Column("A", MapType(STRING, STRING))], True, "Map keys"),
        ("NONE", [Column("K", STRING)], True, r"Got: \[`K` STRING KEY\]"),
        ("AVRO", [Column("1A", STRING)], False, "Illegal initial character: 1A"),
        ("JSN", [], False, "Unknown format: JSN"),
    ],
)
def test_columns_that_a_format_cannot_carry(name: str, columns: list[Column], is_key: bool, message: str) -> None:
    with pytest.raises(SqlStatementError, match=message):
        check_columns(FormatInfo(name), columns, is_key=is_key)


def test_wrapping_needs_one_column_and_a_format_that_can() -> None:
    one, two = COLUMNS[:1], COLUMNS[:2]
    with pytest.raises(SqlStatementError, match="single-field"):
        check_wrapping(format_of("JSON"), two, True)
    for name, wrap in (("PROTOBUF", False), ("DELIMITED", True)):
        with pytest.raises(SqlStatementError, match="does not support"):
            check_wrapping(format_of(name), one, wrap)


def test_a_serde_is_equal_to_its_copy_and_has_a_name() -> None:
    serde = FormatSerde(FormatInfo("JSON", wrap=False), COLUMNS[:1], is_key=False)
    assert pickle.loads(pickle.dumps(serde)) == serde
    assert serde.name == "sql-json-value<`I` INTEGER; wrap=False>"
