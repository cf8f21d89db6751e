"""Test files are read as ksqlDB's test tool reads them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from millstream.sql.testing.cases import Case, CaseFileError, read_cases
from millstream.sql.testing.sql_files import SqlCase

QTT = """
{
  // a comment
  "tests": [
    {"name": "off", "enabled": false, "statements": []},
    {
      "name": "all", /* another // one */ "format": ["JSON", "AVRO"], "config": ["true", "false"],
      "properties": {"a.b": "{CONFIG}", "c": 1},
      "statements": ["CREATE STREAM s WITH (value_format='{FORMAT}');"],
      "topics": [{"name": "t", "partitions": 3, "valueSchema": {"type": "int"}, "valueSchemaId": 7,},],
      "inputs": [
        {"topic": "{FORMAT}", "value": {"v": 1.10, "u": "http://x"}, "unknown": 1,
         "window": {"start": 1, "end": 2, "type": "Session"}, "headers": [{"KEY": "k", "VALUE": "AQI="}, {"KEY": "n"}]},
      ],
      "expectedException": {"type": "io.confluent.ksql.parser.exception.ParseFailedException", "message": "bad"},
    },
  ]
}
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_formats_and_configurations_are_expanded(tmp_path: Path) -> None:
    cases = read_cases(write(tmp_path, "file.json", QTT))

    assert [case.name for case in cases] == [
        f"file - all - {format_} - a.b={config}" for format_ in ("JSON", "AVRO") for config in ("true", "false")
    ]
    last = cases[-1]
    assert isinstance(last, Case)
    assert last.statements == ("CREATE STREAM s WITH (value_format='AVRO');",)
    assert last.properties == {"a.b": "false", "c": 1}
    assert last.expected_error is not None
    assert last.expected_error.is_syntax
    assert (last.topics[0].partitions, last.topics[0].value_schema_id) == (3, 7)


def test_records(tmp_path: Path) -> None:
    [case, *_] = read_cases(write(tmp_path, "file.json", QTT))

    assert isinstance(case, Case)
    [record] = case.inputs
    assert record.topic == "{FORMAT}"  # replaced in statements only
    assert str(record.value["v"]) == "1.10"
    assert isinstance(record.value["v"], Decimal)
    assert record.value["u"] == "http://x"
    assert (record.key, record.timestamp) == (None, None)
    assert record.window is not None
    assert (record.window.start, record.window.end, record.window.kind) == (1, 2, "SESSION")
    assert record.headers == (("k", b"\x01\x02"), ("n", None))


def test_sql_files(tmp_path: Path) -> None:
    text = "--@test: first\nSHOW TABLES;\n--@expected.error: a.b.KsqlException\n--@expected.message: no such\n"
    text += "----\n--@test: first\nSHOW STREAMS;\n"

    first, second = read_cases(write(tmp_path, "x.sql", text))

    assert isinstance(first, SqlCase)
    assert (first.name, first.expected_error, first.expected_message) == ("x - first", "KsqlException", "no such")
    assert isinstance(second, SqlCase)
    assert (second.name, second.line, second.negative) == ("x - first #2", 7, False)


@pytest.mark.parametrize("text", ["{", "[]", '{"tests": [{}]}', '{"tests": [{"name": "a", "statements": 1}]}'])
def test_files_that_are_no_test_files(tmp_path: Path, text: str) -> None:
    with pytest.raises(CaseFileError, match=r"f\.json"):
        read_cases(write(tmp_path, "f.json", text))


def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(CaseFileError, match="cannot be read"):
        read_cases(tmp_path / "none.json")
