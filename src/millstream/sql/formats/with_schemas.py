"""The formats with schemas: what writes and reads, the schemas of columns, and columns of schemas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from millstream.errors import DeserializationError, InvalidSchemaError, SqlStatementError, UnknownSchemaError
from millstream.registry.api import Schema, SchemaRegistry
from millstream.schemas.serde import Parts, SchemaSerde, parts_of
from millstream.serde.api import SerdeContext
from millstream.sql.catalog.sources import Column, FormatInfo
from millstream.sql.formats.declarations import FULL_NAME, NULLABLE, format_of
from millstream.sql.formats.physical import sql_type
from millstream.sql.formats.rows import Values
from millstream.sql.types import SqlType, StructType

if TYPE_CHECKING:
    from millstream.sql.formats.codecs import Codec


def derived_schema(spec: FormatInfo, columns: Sequence[Column], *, is_key: bool) -> Schema:
    """Returns the schema of columns, as it is registered."""
    format_ = format_of(spec.name)
    wrapped = format_.wraps(columns, spec.wrap, is_key=is_key)
    properties = dict(spec.properties)
    if format_.name == "AVRO":
        from millstream.sql.formats.avro_schemas import DEFAULT_NAME, avro_schema  # noqa: PLC0415  (the library of a format)

        return Schema(avro_schema(columns, properties.get(FULL_NAME) or DEFAULT_NAME, wrapped=wrapped), "AVRO")
    if format_.name == "JSON_SR":
        from millstream.sql.formats.json_sr import json_schema  # noqa: PLC0415  (the library of a format)

        return Schema(json_schema(columns, wrapped=wrapped), "JSON")
    from millstream.sql.formats.protobuf_schemas import protobuf_schema  # noqa: PLC0415  (the library of a format)

    return Schema(
        protobuf_schema(columns, properties.get(FULL_NAME), properties.get(NULLABLE), wrapped=wrapped), "PROTOBUF"
    )


def schema_functions(made: Codec) -> tuple[Callable[[Values], bytes | None], Callable[[bytes], Values | None]]:
    """Returns the functions that write and read the values of the columns of a codec."""
    schema = derived_schema(made.spec, made.columns, is_key=made.is_key)
    serde: SchemaSerde[Any]
    if made.format.name == "AVRO":
        from millstream.sql.formats.avro import AvroRows  # noqa: PLC0415  (the library of a format)

        serde = AvroRows(schema, made.columns, wrapped=made.wrapped, schema_id=made.spec.schema_id)
    elif made.format.name == "JSON_SR":
        from millstream.sql.formats.json_sr import JsonRows  # noqa: PLC0415  (the library of a format)

        serde = JsonRows(schema, made.columns, wrapped=made.wrapped, schema_id=made.spec.schema_id)
    else:
        from millstream.sql.formats.protobuf import ProtobufRows  # noqa: PLC0415  (the library of a format)

        serde = ProtobufRows(
            schema,
            made.columns,
            wrapped=made.wrapped,
            schema_id=made.spec.schema_id,
            message=dict(made.spec.properties).get(FULL_NAME),
            bare=not made.format.infers,
        )
    bound = serde.bind(SerdeContext(made.topic, made.is_key, made.registry))
    write, read = bound.serialize, bound.deserialize
    kind = made.format.name

    def decode(data: bytes) -> Values | None:
        try:
            return read(data)
        except (ValueError, InvalidSchemaError) as error:  # the schema of the record does not fit the columns
            raise DeserializationError(f"{kind} format: {error}") from error

    if made.wrapped:
        return write, decode
    return lambda values: None if values[0] is None else write(values), decode


def subject_of(topic: str, *, is_key: bool) -> str:
    """Returns the subject of the schema of a topic."""
    return f"{topic}-{'key' if is_key else 'value'}"


def inferred_columns(
    spec: FormatInfo,
    topic: str,
    registry: SchemaRegistry,
    *,
    is_key: bool,
    at: tuple[int, int] | None = None,
) -> tuple[Column, ...]:
    """Returns the columns of the registered schema of a topic, or of the schema of `FormatInfo.schema_id`.

    Raises:
        SqlStatementError: There is no schema, it is of another format, or columns cannot have its type.
    """
    format_, side = format_of(spec.name, at=at), "keys" if is_key else "values"
    if not format_.infers:
        raise SqlStatementError(f"The statement does not define any columns, and {format_.name} has no schemas", at=at)
    subject = subject_of(topic, is_key=is_key)
    try:
        schema = registry.latest(subject).schema if spec.schema_id is None else registry.schema(spec.schema_id, subject)
        parts = parts_of(schema, registry)
    except UnknownSchemaError:
        place = f"topic '{topic}'" if spec.schema_id is None else f"schema id {spec.schema_id}"
        raise SqlStatementError(
            f"Schema for message {side} on {place} does not exist in the Schema Registry.",
            hint=f"register a schema under the subject {subject}, or name the columns",
            at=at,
        ) from None
    if schema.type != format_.schema_type:
        raise SqlStatementError(
            f"{side.capitalize()} format is {format_.name} but the schema is of type {schema.type}", at=at
        )
    try:
        physical = physical_of(schema, parts, dict(spec.properties).get(FULL_NAME))
    except (InvalidSchemaError, ValueError) as error:
        raise SqlStatementError(
            f"Unable to verify if the schema for topic '{topic}' is compatible: {error}", at=at
        ) from error
    return _columns(spec, topic, physical, is_key=is_key, at=at)


def _columns(
    spec: FormatInfo, topic: str, physical: SqlType | None, *, is_key: bool, at: tuple[int, int] | None
) -> tuple[Column, ...]:
    type_ = sql_type(physical, upper=spec.schema_id is None)
    side = "keys" if is_key else "values"
    if type_ is None:
        raise SqlStatementError(f"Schema of the {side} of topic '{topic}' has no type that columns can have", at=at)
    if spec.name == "PROTOBUF" or (not is_key and spec.wrap is not False):
        if not isinstance(type_, StructType):
            raise SqlStatementError(
                f"Schema of the {side} of topic '{topic}' is {type_}, not a record",
                hint="WRAP_SINGLE_VALUE=false reads it as one column",
                at=at,
            )
        return tuple(Column(name, part) for name, part in type_.fields)
    return (Column("ROWKEY" if is_key else "ROWVAL", type_),)


def physical_of(schema: Schema, parts: Parts, full_name: str | None = None) -> SqlType | None:
    """Returns the type of a registered schema."""
    if schema.type == "AVRO":
        from millstream.schemas.avro.parsing import parsed  # noqa: PLC0415  (the library of a format)
        from millstream.sql.formats import avro_schemas  # noqa: PLC0415  (the library of a format)

        own = parsed(schema, parts)
        return avro_schemas.physical_type(own.root, own)
    if schema.type == "JSON":
        from millstream.sql.formats import json_sr  # noqa: PLC0415  (the library of a format)

        return json_sr.physical_type(schema.text)
    from millstream.sql.formats.protobuf_schemas import message_of, physical_message  # noqa: PLC0415  (the library of a format)

    return physical_message(message_of(schema, parts, full_name))
