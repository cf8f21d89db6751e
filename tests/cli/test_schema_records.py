"""`produce` and `consume` with Avro, Protobuf and JSON Schema."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.cli.conftest import Run
from tests.registry.http_server import Answer, Server, serving
from tests.schemas.avro_schemas import schemas

from millstream import avro
from millstream.errors import SerializationError
from millstream.log import ProducerRecord, open_log
from millstream.schemas.json_values import to_json_value

pytestmark = pytest.mark.usefixtures("embedded_registry")

ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "amount", "type": "long"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": 0},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}],
         "default": None},
        {"name": "lines", "default": [], "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [{"name": "sku", "type": ["int", "string"]}]}}},
    ],
}  # fmt: skip
PROTO = """syntax = "proto3";
message Key { int64 id = 1; }
message Order { string id = 1; int64 amount = 2; repeated string tags = 3; }
"""
EVENT = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"], "additionalProperties": False}
FULL = '{"id": "o1", "amount": 3, "day": "2026-01-31", "price": "12.50", "lines": [{"sku": 7}, {"sku": "x"}]}'


@pytest.fixture
def orders(millstream: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER), encoding="utf-8")
    (tmp_path / "order.proto").write_text(PROTO, encoding="utf-8")
    (tmp_path / "event.json").write_text(json.dumps(EVENT), encoding="utf-8")
    millstream("topics", "create", "orders")
    return millstream


AVRO = ("produce", "orders", "--value", "avro", "--schema", "order.avsc")
READ = ("consume", "orders", "--from-beginning")


def test_json_lines_are_written_as_avro_and_decoded_by_their_id(orders: Run) -> None:
    assert orders(*AVRO, given=f'{FULL}\n{{"id": "o2", "amount": 4}}\nnull\n').code == 0
    (subject,) = orders("schemas", "list", "-o", "json").lines
    assert (subject["subject"], subject["id"], subject["latest"]) == ("orders-value", 1, 1)
    first, second, third = orders(*READ, "-o", "json").lines
    assert first["value"] == json.loads(FULL)
    assert first["value_schema_id"] == 1
    assert base64.b64decode(first["value_base64"])[:5] == b"\x00\x00\x00\x00\x01"
    assert second["value"] == {"id": "o2", "amount": 4, "day": "1970-01-01", "price": None, "lines": []}
    assert third["value"] is None
    assert orders(*READ).out.splitlines() == [f"null\t{FULL}", f"null\t{json.dumps(second['value'])}", "null\tnull"]
    assert orders(*READ, "--value", "avro").out == orders(*READ).out
    assert orders(*READ, "--value", "text").out.startswith("null\t\\x00\\x00\\x00\\x00\\x01\\x04o1")


def test_what_consume_prints_is_written_again_with_the_same_bytes(orders: Run) -> None:
    orders(*AVRO, given=FULL)
    (shown,) = orders(*READ, "-o", "json").lines
    orders("topics", "create", "copy")
    assert orders("produce", "copy", "--format", "json", given=json.dumps(shown)).code == 0
    decoded = json.dumps({"value": shown["value"]})
    again = orders("produce", "copy", "--format", "json", "--value", "avro", "--schema", "order.avsc", given=decoded)
    assert again.code == 0
    copies = orders("consume", "copy", "--from-beginning", "-o", "json").lines
    assert [copy["value_base64"] for copy in copies] == [shown["value_base64"]] * 2


def test_protobuf_and_json_schema_for_values_and_keys(orders: Run) -> None:
    protobuf = ("--value", "protobuf", "--schema", "order.proto", "--message", "Order")
    keys = ("--key", "json_schema", "--key-schema", "event.json", "--key-separator", "|")
    written = orders("produce", "orders", *protobuf, *keys, given='{"id": 7}|{"id": "o1", "amount": "3"}\n')
    assert written.code == 0, written.err
    (shown,) = orders(*READ, "-o", "json").lines
    assert (shown["key"], shown["value"]) == ({"id": 7}, {"id": "o1", "amount": "3"})
    assert base64.b64decode(shown["value_base64"])[5:7] == b"\x02\x02"  # the indexes of the message: one, the second
    assert {each["subject"]: each["type"] for each in orders("schemas", "list", "-o", "json").lines} == {
        "orders-key": "JSON",
        "orders-value": "PROTOBUF",
    }
    assert orders(*READ).out == '{"id": 7}\t{"id": "o1", "amount": "3"}\n'
    explicit = orders(*READ, "--key", "json_schema", "--value", "protobuf")
    assert explicit.out == orders(*READ).out


def test_the_latest_version_of_the_subject_is_used_without_a_file(orders: Run) -> None:
    refused = orders("produce", "orders", "--value", "avro", given=FULL)
    assert refused.code == 1
    assert refused.err.splitlines() == [
        "error: avro serde: there is no schema to write with: subject 'orders-value' has none",
        "hint: add --schema FILE, or: millstream schemas register orders-value FILE",
    ]
    orders("schemas", "register", "orders-value", "order.avsc")
    assert orders("produce", "orders", "--value", "avro", given=FULL).code == 0
    assert orders(*READ).out == f"null\t{FULL}\n"


GOOD_LINE = '{"id": "o1", "amount": 1}\n'


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": "o1", "amount": "3"}', "amount: '3' is not a long"),
        ('{"id": "o1", "amount": true}', "amount: true is not a long"),
        ('{"id": "o1", "amount": 9223372036854775808}', "amount: 9223372036854775808 is not a long"),
        ('{"id": "o1"}', "amount: it is missing, and the field has no default"),
        ('{"id": "o1", "amuont": 1}', "amuont: the schema has no such field; did you mean 'amount'?"),
        ('{"id": "o1", "amount": 1, "day": "31.1."}', "day: '31.1.' is not a date: 2026-01-31"),
        ('{"id": "o1", "amount": 1, "price": 1.234}',
         "price: 1.234 is not a decimal of 6 digits, 2 of them behind the point"),
        ('{"id": "o1", "amount": 1, "lines": [{"sku": 1}, {"sku": 1.5}]}',
         "lines[1].sku: 1.5 is not one of int, string"),
        ('{"id": "\\ud800", "amount": 1}', "id: it contains a lone surrogate"),
        ("5", "the value: 5 is not an object"),
        ("{", "'{' is not JSON: Expecting property name"),
    ],
)  # fmt: skip
def test_a_bad_line_is_an_error_with_its_number_and_the_field(line: str, problem: str, orders: Run) -> None:
    result = orders(*AVRO, given=f"{GOOD_LINE}{line}\n{GOOD_LINE}")
    assert result.code == 1
    assert f"error: line 2, value: {problem}" in result.err
    assert len(orders(*READ).out.splitlines()) == 1
    in_json = orders(*AVRO, "--format", "json", given=json.dumps({"value": json.loads("[]")}))
    assert "error: line 1, value: the value: [] is not an object" in in_json.err
    assert "hint: this shows the schema: millstream schemas show orders-value" in in_json.err


@pytest.mark.parametrize(
    ("options", "line", "problem"),
    [
        (("--value", "json_schema", "--schema", "event.json"), '{"id": "x"}', "at `$.id`"),
        (("--value", "protobuf", "--schema", "order.proto", "--message", "Order"), '{"amount": "x"}', "amount"),
        (("--value", "protobuf", "--schema", "order.proto", "--message", "Order"), '{"amuont": 1}', '"amuont"'),
    ],
)
def test_a_bad_line_of_the_other_formats_names_the_field(
    options: tuple[str, ...], line: str, problem: str, orders: Run
) -> None:
    result = orders("produce", "orders", *options, given=line)
    assert result.code == 1
    assert result.err.startswith("error: line 1, value: ")
    assert problem in result.err


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (("--schema", "order.avsc"), 2, "--schema: the serde of values has no schema"),
        (("--key-schema", "order.avsc", "--key", "long"), 2, "--key-schema: the serde of keys has no schema"),
        (("--value", "avro", "--schema", "nowhere.avsc"), 1, "'nowhere.avsc' is neither a schema nor a file"),
        (("--value", "avro", "--schema", "order.proto"), 1, "not a valid Avro schema"),
        (("--value", "avro", "--schema", "order.avsc", "--message", "Order"), 2, "name a message of a .proto file"),
        (("--value", "protobuf", "--schema", "order.proto"), 1, "Key"),
        (("--value", "avr"), 2, "there is no serde named 'avr'\nhint: did you mean 'avro'?"),
        (("--value", "xml"), 2, "json, void, avro, protobuf, json_schema"),
    ],
)
def test_wrong_options_are_refused(options: tuple[str, ...], code: int, problem: str, orders: Run) -> None:
    result = orders("produce", "orders", *options, given=GOOD_LINE)
    assert result.code == code, result.err
    assert problem in result.err


def test_an_incompatible_schema_is_refused_before_a_line_is_written(orders: Run, tmp_path: Path) -> None:
    orders(*AVRO, given=GOOD_LINE)
    changed = {**ORDER, "fields": [*ORDER["fields"], {"name": "new", "type": "int"}]}
    (tmp_path / "order.avsc").write_text(json.dumps(changed), encoding="utf-8")
    result = orders(*AVRO, given='{"id": "o1", "amount": 1, "new": 1}')
    assert result.code == 3
    assert "new: the new schema requires this field without a default" in result.err
    assert len(orders(*READ).out.splitlines()) == 1


def test_a_zero_byte_alone_is_no_schema(orders: Run, data: Path) -> None:
    orders(*AVRO, given=GOOD_LINE)
    with open_log(data) as log:
        for value in (b"\x00", b"\x00\x00\x00\x00\x09abc", b"\x00\x00\x00\x00\x01\xff", (2**32 + 1).to_bytes(8, "big")):
            log.produce("orders", [ProducerRecord(None, value)])
    shown = orders(*READ).out.splitlines()[1:]
    assert shown == ["null\t\\x00", "null\t\\x00\\x00\\x00\\x00\\tabc", "null\t\\x00\\x00\\x00\\x00\\x01\\xff",
                     "null\t\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x01"]  # fmt: skip
    explicit = orders(*READ, "--value", "avro").out.splitlines()[1:]
    assert explicit[1] == "null\t(not avro) 0x0000000009616263"


def test_the_registry_of_an_application_is_its_own(orders: Run) -> None:
    result = orders(*READ, "--app", "shop.py", "--registry", "http://127.0.0.1:1")
    assert result.code == 2
    assert "--app and --registry exclude each other" in result.err


def test_an_id_in_a_header_is_used(orders: Run, data: Path) -> None:
    orders(*AVRO, given=GOOD_LINE)
    (shown,) = orders(*READ, "-o", "json").lines
    whole = base64.b64decode(shown["value_base64"])
    with open_log(data) as log:
        log.produce("orders", [ProducerRecord(None, whole[5:], headers=(("__value_schema_id", whole[:5]),))])
    first, second = orders(*READ).out.splitlines()
    assert first == second


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(lambda _request: Answer({"error_code": 40101, "message": "no"}, 401)) as server:
        yield server


def test_a_registry_that_fails_is_one_clear_error(orders: Run, data: Path, server: Server) -> None:
    orders("produce", "orders", given="text needs no registry\n")
    assert orders(*READ, "--registry", server.url).code == 0
    with open_log(data) as log:
        log.produce("orders", [ProducerRecord(None, b"\x00\x00\x00\x00\x01abc")])
    for result in (orders(*READ, "--registry", server.url), orders(*AVRO, "--registry", server.url, given=GOOD_LINE)):
        assert result.code == 1
        assert result.err.startswith("error: ")
        assert server.url in result.err


@given(st.data())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_the_json_of_consume_becomes_the_same_avro(data: st.DataObject) -> None:
    schema, values = data.draw(schemas())
    serde: Any = avro(schema, registry=None)
    written = serde.serialize(data.draw(values))
    shown = json.loads(json.dumps(to_json_value(serde.deserialize(written))))
    assert serde.serialize(serde.value_of_json(shown)) == written


def test_unions_take_the_type_that_fits_or_that_is_named() -> None:
    schema = {
        "type": "record",
        "name": "shop.R",
        "fields": [{"name": "u", "type": [
            "null", "int", "long", "string",
            {"type": "enum", "name": "E", "symbols": ["A"]},
            {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]},
            {"type": "record", "name": "B", "fields": [
                {"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 0}]},
            {"type": "map", "values": "string"},
        ]}],
    }  # fmt: skip
    serde: Any = avro(schema, registry=None)

    def branch(value: Any) -> int:
        return int(serde.serialize(serde.value_of_json({"u": value}))[0]) // 2

    assert [branch(value) for value in (None, 5, 2**40, "A", {"x": 1}, {"x": 1, "y": 2})] == [0, 1, 2, 3, 5, 6]
    assert [branch(value) for value in ({"long": 5}, {"E": "A"}, {"shop.E": "A"}, {"B": {"x": 1}})] == [2, 4, 4, 6]
    assert [branch(value) for value in ({"string": "x"}, {"a": "x"}, {"long": "x"})] == [3, 7, 7]
    with pytest.raises(SerializationError, match=r"u: 1\.5 is not one of null, int, long, string, shop\.E, shop\.A"):
        serde.value_of_json({"u": 1.5})


def test_deeply_nested_json_is_refused() -> None:
    tree = {"type": "record", "name": "T", "fields": [{"name": "below", "type": {"type": "array", "items": "T"}}]}
    serde: Any = avro(tree, registry=None)
    value: Any = {"below": []}
    for _ in range(2_000):
        value = {"below": [value]}
    with pytest.raises(SerializationError, match="nested too deeply"):
        serde.value_of_json(value)
