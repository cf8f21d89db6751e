"""A record that was written with another schema is read with the reader's: the cases of Avro's specification."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from typing import Any

import pytest

from millstream import avro
from millstream.errors import DeserializationError
from millstream.registry.api import Schema
from millstream.testing.registry import MemoryRegistry
from tests.schemas.confluent import bound


def resolved(writer: Any, reader: Any, value: Any) -> Any:
    registry = MemoryRegistry()
    return bound(avro(reader), registry).deserialize(bound(avro(writer), registry).serialize(value))


def resolved_bytes(writer: Any, reader: Any, data: bytes) -> Any:
    registry = MemoryRegistry()
    number = registry.register("orders-value", Schema(json.dumps(writer)))
    return bound(avro(reader), registry).deserialize(b"\x00" + number.to_bytes(4, "big") + data)


def record(*fields: dict[str, Any], name: str = "R", **options: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **options}


def field(name: str, kind: Any, **options: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **options}


@pytest.mark.parametrize(
    ("writer", "reader", "value", "expected"),
    [
        ("int", "long", 5, 5),
        ("int", "float", 5, 5.0),
        ("int", "double", 5, 5.0),
        ("long", "float", 5, 5.0),
        ("long", "double", 5, 5.0),
        ("float", "double", 0.5, 0.5),
        ("string", "bytes", "ä", "ä".encode()),
        ("bytes", "string", "ä".encode(), "ä"),
        ("int", ["null", "long"], 5, 5),
        (["null", "int"], "long", 5, 5),
        (["null", "int"], ["string", "long", "null"], 5, 5),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "double"}, [1], [1.0]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, {"a": 1}, {"a": 1}),
    ],
)
def test_types_are_promoted(writer: Any, reader: Any, value: Any, expected: Any) -> None:
    result = resolved(record(field("f", writer)), record(field("f", reader)), {"f": value})
    assert result == {"f": expected}
    assert type(result["f"]) is type(expected)


@pytest.mark.parametrize(
    ("writer", "reader", "value"),
    [
        ("long", "int", 5),
        ("double", "float", 0.5),
        ("string", "int", "5"),
        (["null", "string"], "string", None),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, {"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
        ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, b"ab"),
    ],
)
def test_other_differences_are_errors(writer: Any, reader: Any, value: Any) -> None:
    with pytest.raises(DeserializationError):
        resolved(record(field("f", writer)), record(field("f", reader)), {"f": value})


def test_fields_are_matched_by_name_and_unknown_ones_are_dropped() -> None:
    writer = record(field("a", "int"), field("gone", "string"), field("b", "int"))
    reader = record(field("b", "int"), field("a", "int"))
    assert resolved(writer, reader, {"a": 1, "gone": "x", "b": 2}) == {"a": 1, "b": 2}


def test_a_field_without_a_default_must_be_in_the_record() -> None:
    with pytest.raises(DeserializationError, match="new"):
        resolved(record(field("a", "int")), record(field("a", "int"), field("new", "int")), {"a": 1})


def test_aliases_find_renamed_fields_and_records() -> None:
    writer = record(field("old", "int"), field("inner", record(field("x", "int"), name="Before")))
    reader = record(
        field("new", "long", aliases=["old"]),
        field("inner", record(field("y", "int", aliases=["x"]), name="After", aliases=["Before"])),
    )
    assert resolved(writer, reader, {"old": 1, "inner": {"x": 2}}) == {"new": 1, "inner": {"y": 2}}


def test_an_unknown_symbol_becomes_the_default_of_the_enum() -> None:
    writer = record(field("f", {"type": "enum", "name": "E", "symbols": ["A", "B"]}))
    reader = record(field("f", {"type": "enum", "name": "E", "symbols": ["A", "OTHER"], "default": "OTHER"}))
    assert resolved(writer, reader, {"f": "B"}) == {"f": "OTHER"}


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("bytes", "\u00ff\u0001", b"\xff\x01"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u00ff\u0001", b"\xff\x01"),
        ({"type": "int", "logicalType": "date"}, 1, dt.date(1970, 1, 2)),
        ({"type": "int", "logicalType": "time-millis"}, 1500, dt.time(0, 0, 1, 500_000)),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            1000,
            dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC),
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\u0001", decimal.Decimal("0.01")),
        (["null", "string"], None, None),
        (["string", "null"], "x", "x"),
        ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"]),
        ({"type": "map", "values": "int"}, {"a": 1}, {"a": 1}),
        (record(field("x", "int"), field("y", "int", default=2), name="Inner"), {"x": 1}, {"x": 1, "y": 2}),
    ],
)
def test_defaults_are_values_of_their_types(kind: Any, default: Any, expected: Any) -> None:
    reader = record(field("a", "int"), field("f", kind, default=default))
    assert resolved(record(field("a", "int")), reader, {"a": 1}) == {"a": 1, "f": expected}


def test_each_value_has_its_own_default_list() -> None:
    registry = MemoryRegistry()
    data = bound(avro(record(field("a", "int"))), registry).serialize({"a": 1})
    read = bound(avro(record(field("a", "int"), field("f", {"type": "array", "items": "int"}, default=[]))), registry)
    read.deserialize(data)["f"].append(1)
    assert read.deserialize(data)["f"] == []


def test_a_recursive_record_is_resolved_at_every_level() -> None:
    def tree(*more: dict[str, Any]) -> dict[str, Any]:
        return record(field("n", "int"), *more, field("next", ["null", "Tree"]), name="Tree")

    value = {"n": 1, "next": {"n": 2, "next": None}}
    result = resolved(tree(), tree(field("new", "int", default=7)), value)
    assert result == {"n": 1, "new": 7, "next": {"n": 2, "new": 7, "next": None}}
