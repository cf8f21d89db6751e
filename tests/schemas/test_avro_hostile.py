"""Hostile Avro: an error or a value, never a crash, and bounded time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest

from millstream import avro
from millstream.errors import DeserializationError, SerializationError
from millstream.testing.registry import MemoryRegistry
from tests.schemas.confluent import bound
from tests.schemas.hostile import read_all
from tests.schemas.test_avro_types import EVERYTHING, Everything

LIST = {
    "type": "record",
    "name": "List",
    "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "List"]}],
}
NULLS: Any = {"type": "array", "items": "null"}
EMPTY: Any = {"type": "array", "items": {"type": "record", "name": "Empty", "fields": []}}
HUNDRED_MILLION = b"\x80\x84\xaf\x5f\x00"


def in_subprocess(code: str) -> str:
    """Runs code with limited memory; a crash is a failure."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2 * 10**9, 2 * 10**9))\n"
    result = subprocess.run(
        [sys.executable, "-c", limited + textwrap.dedent(code)], capture_output=True, text=True, timeout=50, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_payload_of_endless_recursion_does_not_end_the_process() -> None:
    out = in_subprocess(f"""
        from millstream import avro
        from millstream.errors import DeserializationError
        serde = avro({json.dumps(LIST)!r}, registry=None)
        for depth in (300, 10_000, 1_000_000):
            try:
                serde.deserialize(b"\\x02\\x02" * depth + b"\\x02\\x00")
            except DeserializationError as error:
                print(error.message.rpartition(": ")[2])
    """)
    assert out == "it is nested more than 200 levels deep\n" * 3


def test_five_bytes_do_not_become_a_hundred_million_items() -> None:
    out = in_subprocess(f"""
        from millstream import avro
        from millstream.errors import DeserializationError
        for schema in ({json.dumps(NULLS)!r}, {json.dumps(EMPTY)!r}):
            try:
                avro(schema, registry=None).deserialize({HUNDRED_MILLION!r})
            except DeserializationError as error:
                print(error.message.rpartition(": ")[2])
    """)
    assert out == "more than 100,000 values without content\n" * 2


def test_a_record_that_contains_itself_without_end_is_an_error() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}
    out = in_subprocess(f"""
        from millstream import avro
        from millstream.errors import SerdeError
        try:
            avro({json.dumps(schema)!r}, registry=None).deserialize(b"")
        except SerdeError as error:
            print(error.message.rpartition(": ")[2])
    """)
    assert out == "it is nested more than 200 levels deep\n"


def chain(count: int, fields: Any, innermost: str = "int") -> list[Any]:
    """A union of records, each with fields of the one before it; its JSON is flat."""
    names = [innermost, *(f"R{n}" for n in range(count))]
    return [{"type": "record", "name": f"R{n}", "fields": fields(names[n])} for n in range(count)]


def one(kind: str) -> list[Any]:
    return [{"name": "a", "type": kind}]


def two(kind: str) -> list[Any]:
    return [{"name": "a", "type": kind}, {"name": "b", "type": kind}]


def test_a_hostile_schema_does_not_end_the_process_or_take_exponential_time() -> None:
    out = in_subprocess("""
        from millstream import avro
        from millstream.errors import DeserializationError
        from tests.schemas.test_avro_hostile import chain, one, two
        for schema, data in (
            (chain(3000, one), bytes([0xEE, 0x2E, 0])),
            (chain(60, two, 'null'), bytes([0x76])),
        ):
            try:
                avro(schema, registry=None).deserialize(data)
            except DeserializationError as error:
                print(error.message.rpartition(": ")[2])
    """)
    assert out == "it is nested more than 200 levels deep\nmore than 100,000 values without content\n"


def test_a_long_chain_of_records_is_no_recursion() -> None:
    serde: Any = avro(chain(150, one), registry=None)
    value: Any = 7
    for _ in range(150):
        value = {"a": value}
    assert serde.deserialize(serde.serialize(value)) == value
    shared: Any = avro(chain(12, two, "null"), registry=None)
    assert shared.deserialize(b"\x06")["b"]["a"]["a"] == {"a": None, "b": None}


def test_values_at_the_limits_are_read() -> None:
    serde: Any = avro(LIST, registry=None)
    value: Any = None
    for n in range(200):
        value = {"value": n, "next": value}
    data = serde.serialize(value)
    assert serde.deserialize(data) == value
    with pytest.raises(SerializationError, match="nested more than 200 levels"):
        serde.serialize({"value": 1, "next": value})
    with pytest.raises(DeserializationError, match="nested more than 200 levels"):
        serde.deserialize(b"\x00\x02" + data)
    nulls: Any = avro(NULLS, registry=None)
    assert nulls.deserialize(nulls.serialize([None] * 100_000)) == [None] * 100_000


def test_a_long_decimal_is_refused_before_it_is_converted() -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    serde: Any = avro({"type": "record", "name": "R", "fields": [{"name": "d", "type": schema}]}, registry=None)
    size = 4_000_000
    began = time.perf_counter()
    with pytest.raises(DeserializationError, match="a decimal of 4000000 bytes"):
        serde.deserialize(b"\x80\xa4\xe8\x03" + b"\x7f" * size)
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("data", [b"\x01", b"\x7f", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xfe" * 20])
def test_negative_and_enormous_sizes_are_errors(data: bytes) -> None:
    for kind in ("string", {"type": "array", "items": "string"}, {"type": "map", "values": "int"}):
        serde: Any = avro({"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}, registry=None)
        with pytest.raises(DeserializationError):
            serde.deserialize(data)


def test_bytes_behind_the_value_are_an_error() -> None:
    with pytest.raises(DeserializationError, match="1 bytes are left behind the value"):
        avro("long", registry=None).deserialize(b"\x02\x00")


@pytest.mark.timeout(120)
def test_random_and_mutated_payloads_are_errors_or_values() -> None:
    registry = MemoryRegistry()
    typed = bound(avro(Everything), registry)
    samples = [typed.serialize(EVERYTHING)]
    values, errors = read_all(typed.deserialize, samples)
    assert values > 0
    assert errors > 0
    read_all(bound(avro(), registry).deserialize, samples)
    recursive: Any = avro(LIST, registry=None)
    read_all(recursive.deserialize, [recursive.serialize({"value": 1, "next": {"value": 2, "next": None}})])
