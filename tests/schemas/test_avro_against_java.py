"""Avro's bytes, schema resolution and fingerprints are those of Apache Avro for Java, the library that Spark brings."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from millstream import avro
from millstream.dev.java import java_command
from millstream.errors import SerdeError
from millstream.registry.api import Schema
from millstream.registry.formats.avro import AvroFormat
from millstream.schemas.avro.parsing import ParsedSchema, parsed
from tests.registry.test_against_java import Maker
from tests.schemas.avro_schemas import schemas
from tests.schemas.test_avro_resolution import resolved_bytes

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]  # it needs Java, as the broker does

JARS = Path(pyspark.__file__).parent / "jars"
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)
Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def java() -> Iterator[Ask]:
    """Asks Java. One process serves all tests."""
    jars = [jar for name in ("avro-1*", "jackson-*", "slf4j-api-*") for jar in JARS.glob(f"{name}.jar")]
    program = Path(__file__).with_name("java") / "Avro.java"
    command = [java_command("this test"), "-Xss8m", "-cp", ":".join(map(str, jars)), str(program)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def ask(schema: Any, **more: Any) -> dict[str, Any]:
            request = {"schema": json.dumps(schema), **more}
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
            answer: dict[str, Any] = json.loads(stdout.readline())
            return answer

        yield ask
        stdin.close()


def plain(schema: Any, value: Any, named: dict[str, Any]) -> Any:
    """A value in the form that the Java program prints. Where a union has several types, the first that fits."""
    if isinstance(schema, str) and schema in named:
        return plain(named[schema], value, named)
    kind = schema if isinstance(schema, str) else "union" if isinstance(schema, list) else schema["type"]
    if kind == "union":
        branch = next(number for number, each in enumerate(schema) if fits(each, value, named))
        return [branch, plain(schema[branch], value, named)]
    if kind == "record":
        return {field["name"]: plain(field["type"], value[field["name"]], named) for field in schema["fields"]}
    if kind == "array":
        return [plain(schema["items"], item, named) for item in value]
    if kind == "map":
        return {key: plain(schema["values"], item, named) for key, item in value.items()}
    return None if value is None else text(kind, value, schema)


def text(kind: str, value: Any, schema: Any) -> str:
    if isinstance(value, decimal.Decimal):
        return f"{int(value.scaleb(schema['scale']))}e-{schema['scale']}"
    if isinstance(value, dt.datetime):
        return str((value - EPOCH) // MICROSECOND)
    if isinstance(value, dt.date):
        return str((value - EPOCH.date()).days)
    if isinstance(value, dt.time):
        return str((dt.datetime.combine(EPOCH, value, dt.UTC) - EPOCH) // MICROSECOND)
    if isinstance(value, bytes):
        return value.hex()
    if kind in {"float", "double"}:
        return struct.pack(">f" if kind == "float" else ">d", value).hex().lstrip("0") or "0"
    return str(value).lower() if isinstance(value, bool) else str(value)


def fits(schema: Any, value: Any, named: dict[str, Any]) -> bool:
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    kind = schema if isinstance(schema, str) else schema["type"]
    return value is None if kind == "null" else value is not None


@given(st.data())
@settings(suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate])
def test_both_write_the_same_bytes_and_read_the_same_values(java: Ask, data: st.DataObject) -> None:
    schema, values = data.draw(schemas())
    serde: Any = avro(schema, registry=None)
    named = parsed(serde.schema)
    value = data.draw(values)
    written = serde.serialize(value)
    theirs = java(schema, data=written.hex())
    assert "error" not in theirs, theirs
    assert theirs["value"] == plain(named.root, value, named.named)
    # Java writes the entries of a map in an order of its own, so the bytes of such values are read again.
    again = bytes.fromhex(theirs["data"])
    assert serde.deserialize(again) == serde.deserialize(written)
    if '"map"' not in json.dumps(schema):
        assert again == written


def union_free(node: Any) -> Any:
    """A schema without unions of several types: in Python's value, the type is not seen."""
    if isinstance(node, list):
        types = [each for each in node if each != "null"]
        inner = union_free(types[0]) if types else "null"
        return ["null", inner] if "null" in node and types else inner
    if isinstance(node, dict):
        return {
            key: [union_free(field) for field in item] if key == "fields" else union_free(item)
            if key in {"type", "items", "values"} else item
            for key, item in node.items()
        }  # fmt: skip
    return node


@pytest.mark.parametrize("chunk", range(4))
def test_random_changes_are_read_as_by_java(chunk: int, java: Ask) -> None:
    outcomes: list[bool] = []
    for seed in range(chunk, 400, 4):
        maker = Maker(seed)
        made = maker.record("", 3)
        writer, reader = union_free(made), union_free(maker.changed(made, "", 3))
        random = java(writer, seed=seed)
        if "error" in random:  # a default of a field that had a union
            continue
        data = bytes.fromhex(random["random"])
        bare: Any = avro(writer, registry=None)
        assert bare.serialize(bare.deserialize(data)) == data, writer
        theirs = java(writer, reader=json.dumps(reader), data=data.hex())
        if "Duplicate field" in theirs.get("error", ""):  # Java calls an ambiguous alias an invalid schema
            continue
        root = parsed(Schema(json.dumps(reader)))
        try:
            ours = plain(root.root, resolved_bytes(writer, reader, data), root.named)
        except SerdeError:
            ours = None
        assert ours == theirs.get("value"), f"seed {seed}: ours {ours}, Java's {theirs}\n{writer}\n{reader}"
        outcomes.append(ours is not None)
    assert len(outcomes) >= 50
    assert 10 <= sum(outcomes) <= len(outcomes) - 10


def crc64(schema: ParsedSchema) -> str:
    digest: str = fingerprint(to_parsing_canonical_form(schema.root), "CRC-64-AVRO")
    return bytes.fromhex(digest)[::-1].hex().lstrip("0")


@given(schemas())
@settings(suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate])
def test_a_parsed_and_a_normalized_schema_keep_the_fingerprint_of_the_parsing_canonical_form(
    java: Ask, drawn: tuple[Any, Any]
) -> None:
    schema = json.dumps(drawn[0])
    theirs = java(drawn[0])
    assert crc64(parsed(Schema(schema))) == theirs["fingerprint"]
    formats = AvroFormat()
    normal = formats.normal(formats.parse(schema, ()))
    assert java(json.loads(normal))["canonical"] == theirs["canonical"]
