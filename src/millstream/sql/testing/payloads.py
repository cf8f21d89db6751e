"""Keys and values of test cases: from JSON to bytes in a source's format, and from bytes to plain values.

The JSON of cases is read with exact numbers: integers of any size, and Decimal for fractions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec

from millstream.core.records import Windowed
from millstream.errors import DeserializationError
from millstream.registry.api import Reference, Registered, Schema, SchemaRegistry, SchemaType
from millstream.schemas.registries import ApplicationRegistry, registry_for
from millstream.schemas.serde import MAGIC, PREFIX, parts_of
from millstream.serde.api import Serde, SerdeContext
from millstream.serde.key_layouts import session_key, split_session_key, split_window_key, window_key
from millstream.sql.catalog.sources import Column, DataSource, FormatInfo
from millstream.sql.formats import codec, derived_schema, format_of, inferred_columns, subject_of
from millstream.sql.formats.declarations import FULL_NAME
from millstream.sql.formats.json_format import parse
from millstream.sql.formats.kafka import kafka_decoder, kafka_encoder
from millstream.sql.formats.numbers import from_base64, to_base64
from millstream.sql.formats.physical import FLOAT32, INT8, INT16, sql_type
from millstream.sql.formats.with_schemas import physical_of
from millstream.sql.functions.decimals import ensure_fit
from millstream.sql.functions.java.text import double_text
from millstream.sql.testing.case_topics import CaseTopic
from millstream.sql.testing.cases import Record, Window
from millstream.sql.testing.engine import Decoded, StoredRecord
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

_SCHEMA_TYPES: dict[str, SchemaType] = {"AVRO": "AVRO", "JSON": "JSON", "JSON_SR": "JSON", "PROTOBUF": "PROTOBUF"}


class CaseRegistry(MemoryRegistry):
    """The registry of a case, whose topics may give their schemas ids.

    Attributes:
        reference: The registry as serdes refer to it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reference = registry_for(self)

    def register_as(self, subject: str, schema: Schema, schema_id: int | None) -> None:
        """Registers a schema under a subject, with an id of its own if one is given."""
        if schema_id is None:
            self.register(subject, schema)
            return
        self._ids.setdefault(schema, schema_id)
        self._schemas[schema_id] = schema
        versions = self._subjects.setdefault(subject, [])
        versions.append(Registered(schema_id, subject, len(versions) + 1, schema))

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """Registers a schema; ids that a topic took are left out."""
        while self._ids.get(schema) is None:
            number = next(self._numbers)
            if number not in self._schemas:
                self._ids[schema], self._schemas[number] = number, schema
        return super().register(subject, schema, normalize=normalize)


def new_registry() -> CaseRegistry:
    """Returns the registry of a case."""
    return CaseRegistry()


class _Inference:
    """Finds columns in the registry of a case."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self.registry = registry

    def columns(
        self, topic: str, format_: FormatInfo, *, is_key: bool, at: tuple[int, int]
    ) -> tuple[Column, ...] | None:
        """Returns the columns of the schema of a topic."""
        return inferred_columns(format_, topic, self.registry, is_key=is_key, at=at)

    written = columns


def inference(registry: SchemaRegistry) -> _Inference:
    """Returns what finds columns in a registry."""
    return _Inference(registry)


def _reference(registry: SchemaRegistry) -> ApplicationRegistry:
    if isinstance(registry, CaseRegistry):
        return registry.reference
    return registry_for(registry)


def bound(serde: Serde[Any], topic: str, registry: SchemaRegistry, *, is_key: bool) -> Serde[Any]:
    """Returns a serde for a topic of a case."""
    return serde.bind(SerdeContext(topic, is_key, _reference(registry)))


def register_topic(registry: SchemaRegistry, made: CaseTopic) -> None:
    """Registers the schemas of a topic of a case: those of the case, or those that follow from columns."""
    assert isinstance(registry, CaseRegistry)
    topic = made.topic
    sides = (
        (True, topic.key_format, topic.key_schema, topic.key_schema_id, topic.key_references, made.key),
        (False, topic.value_format, topic.value_schema, topic.value_schema_id, topic.value_references, made.value),
    )
    for is_key, format_, given, schema_id, references, derived in sides:
        schema = derived if given is None else _given_schema(registry, format_, given, references)
        if schema is not None:
            registry.register_as(subject_of(topic.name, is_key=is_key), schema, schema_id)


def _given_schema(
    registry: CaseRegistry, format_: str | None, schema: Any, references: Sequence[tuple[str, Any]]
) -> Schema:
    type_ = _SCHEMA_TYPES.get((format_ or "AVRO").upper(), "AVRO")
    named = []
    for name, text in references:
        part = Schema(_schema_text(text, type_), type_)
        registry.register(name, part)
        named.append(Reference(name, name, registry.lookup(name, part).version))
    return Schema(_schema_text(schema, type_), type_, tuple(named))


def encode_record(record: Record, owner: DataSource | None, registry: SchemaRegistry) -> StoredRecord:
    """Returns a record of a test file as bytes, in the formats of the source that owns its topic."""
    reference, topic = _reference(registry), record.topic
    if owner is None:  # nothing reads it
        key, value = (None if item is None else json_bytes(item) for item in (record.key, record.value))
    else:
        key = payload(record.key, owner.key_format, owner.key, is_key=True, topic=topic, registry=reference)
        value = payload(record.value, owner.value_format, owner.value, is_key=False, topic=topic, registry=reference)
        if key is not None and record.window is not None:
            window = record.window
            is_session = window.kind.lower() == "session"
            key = session_key(key, window.start, window.end) if is_session else window_key(key, window.start)
    return StoredRecord(topic, key, value, record.timestamp or 0, record.headers)


def decode_record(record: StoredRecord, owner: DataSource | None, registry: SchemaRegistry) -> Decoded:
    """Returns the plain key and value of a record, and the window of its key."""
    if owner is None:
        return Decoded(record.key, record.value)
    key, window = record.key, None
    if key is not None and owner.window is not None:
        split = split_window(key, owner.window.size if owner.window.kind != "SESSION" else None)
        key = split.key
        window = Window(split.start, split.end, "SESSION" if owner.window.kind == "SESSION" else "TIME")
    reference, topic = _reference(registry), record.topic
    return Decoded(
        plain_value(key, owner.key_format, owner.key, is_key=True, topic=topic, registry=reference),
        plain_value(record.value, owner.value_format, owner.value, is_key=False, topic=topic, registry=reference),
        window,
    )


def _schema_text(schema: Any, type_: SchemaType) -> str:
    if type_ == "PROTOBUF":
        return str(schema)
    return json.dumps(schema, default=float)


# ----- from JSON to bytes --------------------------------------------------------------------------------------------


def payload(
    node: Any,
    spec: FormatInfo,
    columns: Sequence[Column],
    *,
    is_key: bool,
    topic: str,
    registry: ApplicationRegistry,
) -> bytes | None:
    """Returns the bytes of the JSON of a key or value.

    Raises:
        ValueError: The JSON does not fit the format or the schema.
    """
    format_ = format_of(spec.name)
    if node is None or format_.name == "NONE":
        return None
    if format_.name == "JSON":
        return json_bytes(node)
    if format_.name == "DELIMITED":
        return _text(node).encode()
    if format_.name == "KAFKA":
        return _kafka_bytes(node, columns)
    if format_.infers:
        return _with_schema(node, spec, columns, is_key=is_key, topic=topic, registry=registry)
    made = codec(spec, columns, is_key=is_key)
    if not made.wrapped and (isinstance(columns[0].type, StructType) or not isinstance(node, dict)):
        return made.encode_values([_value(node, columns[0].type)])
    row = _matched(node, [(column.name, column.type) for column in columns])
    return made.encode_values([row[column.name] for column in columns])


def json_bytes(node: Any) -> bytes:
    """Returns JSON as it was written: numbers keep their digits."""

    def raw(item: Any) -> Any:
        if isinstance(item, Decimal):
            return msgspec.Raw(str(item).encode())
        if isinstance(item, int) and not isinstance(item, bool):
            return msgspec.Raw(str(item).encode())
        if isinstance(item, dict):
            return {key: raw(value) for key, value in item.items()}
        return [raw(value) for value in item] if isinstance(item, list) else item

    return msgspec.json.encode(raw(node))


def _text(node: Any) -> str:
    return node if isinstance(node, str) else json_bytes(node).decode()


def _kafka_bytes(node: Any, columns: Sequence[Column]) -> bytes:
    if not columns:
        return _text(node).encode()
    type_ = columns[0].type
    if type_ in (STRING, BYTES):
        return _text(node).encode()
    return kafka_encoder(type_)(_value(node, type_))


def _with_schema(
    node: Any,
    spec: FormatInfo,
    columns: Sequence[Column],
    *,
    is_key: bool,
    topic: str,
    registry: ApplicationRegistry,
) -> bytes | None:
    """Writes a value with the newest schema of the topic, or with the one that follows from the columns."""
    opened = registry.open()
    subject = subject_of(topic, is_key=is_key)
    if subject not in opened.subjects():
        opened.register(subject, derived_schema(spec, columns, is_key=is_key))
    latest = opened.latest(subject)
    parts = parts_of(latest.schema, opened)
    full_name = dict(spec.properties).get(FULL_NAME) if latest.schema.type == "PROTOBUF" else None
    physical = physical_of(latest.schema, parts, full_name)
    if physical is None:
        raise ValueError(f"no value can be written with the schema of {subject}")
    if latest.schema.type == "JSON":
        return MAGIC + latest.id.to_bytes(PREFIX - 1, "big") + json_bytes(node)
    target = FormatInfo(spec.name, spec.properties, schema_id=latest.id)
    if isinstance(physical, StructType):
        own = tuple(Column(name, _readable(part)) for name, part in physical.fields)
        writer = codec(
            FormatInfo(target.name, target.properties, wrap=True, schema_id=latest.id),
            own,
            is_key=is_key,
            topic=topic,
            registry=registry,
        )
        row = _matched(node, physical.fields)
        return writer.encode_values([row[column.name] for column in own])
    alone = (Column("ROWKEY" if is_key else "ROWVAL", _readable(physical)),)
    bare = FormatInfo(spec.name, spec.properties, wrap=False, schema_id=latest.id)
    writer = codec(bare, alone, is_key=is_key, topic=topic, registry=registry)
    return writer.encode_values([_value(node, physical)])


def _matched(node: Any, fields: Sequence[tuple[str, SqlType]]) -> dict[str, Any]:
    """Returns the fields of a JSON object, matched without regard to case; others are dropped."""
    if not isinstance(node, dict):
        raise ValueError(f"expected an object, found {_text(node)[:100]}")  # noqa: TRY004  (JSON of a case)
    folded = {key.upper(): value for key, value in node.items()}
    return {name: _value(node[name] if name in node else folded.get(name.upper()), type_) for name, type_ in fields}


_WHOLE = (INT8, INT16, INTEGER, BIGINT, DATE, TIME, TIMESTAMP)


def _value(node: Any, type_: SqlType) -> Any:  # noqa: PLR0911  (a case for each type)
    """Returns the value of a type that JSON describes."""
    if node is None:
        return None
    if isinstance(type_, StructType):
        return _matched(node, type_.fields)
    if isinstance(type_, ArrayType):
        return [_value(item, type_.element) for item in node]
    if isinstance(type_, MapType):
        return {key: _value(item, type_.value) for key, item in node.items()}
    if isinstance(type_, DecimalType):
        return ensure_fit(Decimal(str(node)), type_)
    if type_ in (DOUBLE, FLOAT32):
        return float(node)
    if type_ in _WHOLE:
        return int(node)
    if type_ == BYTES:
        return from_base64(node)
    return bool(node) if type_ == BOOLEAN else _text(node)


# ----- from bytes to plain values ------------------------------------------------------------------------------------


def plain_value(
    data: bytes | None,
    spec: FormatInfo,
    columns: Sequence[Column],
    *,
    is_key: bool,
    topic: str,
    registry: ApplicationRegistry,
) -> Any:
    """Returns the value of bytes as it is compared with the JSON of a case.

    Decimals are exact numbers, floats are compared with a tolerance.

    Raises:
        DeserializationError: The bytes are not in the format.
    """
    format_ = format_of(spec.name)
    if data is None or format_.name == "NONE":
        return None
    if format_.name == "JSON":
        try:
            return parse(data)
        except ValueError as error:
            raise DeserializationError(f"not JSON: {error}") from error
    if format_.name == "DELIMITED":
        return data.decode("utf-8", "replace")
    if format_.name == "KAFKA":
        return _kafka_value(data, columns)
    if not format_.infers:
        made = codec(spec, columns, is_key=is_key)
        return _shown(made.decode(data), columns, is_key=is_key, wrapped=made.wrapped)
    schema_id = int.from_bytes(data[1:PREFIX], "big")
    opened = registry.open()
    schema = opened.schema(schema_id)
    if schema.type == "JSON":
        return parse(data[PREFIX:])
    full_name = dict(spec.properties).get(FULL_NAME) if schema.type == "PROTOBUF" else None
    physical = physical_of(schema, parts_of(schema, opened), full_name)
    if physical is None:
        raise DeserializationError(f"schema {schema_id} has no type that columns can have")
    wrapped = isinstance(physical, StructType)
    own = (
        tuple(Column(name, _readable(part)) for name, part in physical.fields)
        if isinstance(physical, StructType)
        else (Column("ROWVAL", _readable(physical)),)
    )
    reader = codec(
        FormatInfo(spec.name, spec.properties, wrap=wrapped), own, is_key=False, topic=topic, registry=registry
    )
    return _shown(reader.decode(data), own, is_key=False, wrapped=wrapped)


def _readable(type_: SqlType) -> SqlType:
    found = sql_type(type_, upper=False)
    assert found is not None
    return found


def _kafka_value(data: bytes, columns: Sequence[Column]) -> Any:
    if not columns or columns[0].type in (STRING, BYTES):
        return data.decode("utf-8", "replace")
    try:
        value = kafka_decoder(columns[0].type)(data)
    except ValueError as error:
        raise DeserializationError(str(error)) from error
    return Decimal(double_text(value)) if columns[0].type == DOUBLE else value


def _shown(item: Any, columns: Sequence[Column], *, is_key: bool, wrapped: bool) -> Any:
    """Returns decoded columns as an object, or bare; bytes at the top are base64, empty ones null."""
    if item is None:
        return None
    if is_key:
        values = [item] if len(columns) == 1 else list(item)
        item = {column.name: value for column, value in zip(columns, values, strict=True)}
    row = {
        name: (to_base64(value) if value else None) if isinstance(value, bytes) else value
        for name, value in item.items()
    }
    return row if wrapped else next(iter(row.values()))


def split_window(data: bytes, size_ms: int | None) -> Windowed[bytes]:
    """Returns the bytes of a key, and its window; without a size, it is a session."""
    if size_ms is None:
        key, start, end = split_session_key(data)
        return Windowed(key, start, end)
    key, start = split_window_key(data)
    return Windowed(key, start, start + size_ms)
