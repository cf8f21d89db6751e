"""The types that each format can carry, and the rules for columns that follow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from millstream.core.frozen import Value
from millstream.errors import SqlStatementError, suggestion
from millstream.registry.api import SchemaType
from millstream.sql.catalog.sources import Column, FormatInfo
from millstream.sql.types import (
    BIGINT,
    BYTES,
    DOUBLE,
    INTEGER,
    STRING,
    ArrayType,
    MapType,
    SqlType,
    StructType,
)

AVRO_NAMESPACE = "io.confluent.ksql.avro_schemas"
DELIMITER = "delimiter"
FULL_NAME = "fullSchemaName"
NULLABLE = "nullableRepresentation"
_PROTOBUF_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Format(Value):
    """A format.

    Attributes:
        name: Its name.
        can_wrap: A single column can be written inside of an object or record.
        can_unwrap: A single column can be written bare.
        schema_type: The type of its schemas in a registry; None if it does not use one.
        single: It carries one column at most.
        types: The only types that it carries; None: all but those of `nested`.
        nested: It carries arrays, maps and structs.
        text_map_keys: The keys of maps must be STRING.
        properties: The properties that it takes: the names in `FormatInfo.properties`.
    """

    name: str
    can_wrap: bool = False
    can_unwrap: bool = False
    schema_type: SchemaType | None = None
    single: bool = False
    types: tuple[SqlType, ...] | None = None
    nested: bool = True
    text_map_keys: bool = True
    properties: tuple[str, ...] = ()

    @property
    def infers(self) -> bool:
        """Whether columns can come from the schema registry."""
        return self.schema_type is not None

    def wraps(self, columns: Sequence[Column], wrap: bool | None, *, is_key: bool) -> bool:
        """Returns whether columns are written inside of an object, record or message.

        Args:
            columns: The columns.
            wrap: What the statement or the configuration asks for; None: the format's own way.
            is_key: They are key columns.
        """
        if len(columns) != 1 or not self.can_unwrap:
            return self.can_wrap
        if not self.can_wrap:
            return False
        return (not is_key) if wrap is None else wrap


FORMATS = {
    format_.name: format_
    for format_ in (
        Format("JSON", can_wrap=True, can_unwrap=True),
        Format("JSON_SR", can_wrap=True, can_unwrap=True, schema_type="JSON", properties=(FULL_NAME,)),
        Format("AVRO", can_wrap=True, can_unwrap=True, schema_type="AVRO", properties=(FULL_NAME,)),
        Format("PROTOBUF", can_wrap=True, schema_type="PROTOBUF", properties=(FULL_NAME, NULLABLE)),
        Format("PROTOBUF_NOSR", can_wrap=True, can_unwrap=True, properties=(NULLABLE,)),
        Format("DELIMITED", can_unwrap=True, nested=False, properties=(DELIMITER,)),
        Format("KAFKA", can_unwrap=True, single=True, types=(INTEGER, BIGINT, DOUBLE, STRING, BYTES)),
        Format("NONE", types=()),
    )
}
"""The formats, by name."""


def format_of(name: str, *, at: tuple[int, int] | None = None) -> Format:
    """Returns a format by its name, in any case.

    >>> format_of("json").can_unwrap
    True

    Raises:
        SqlStatementError: There is no such format.
    """
    found = FORMATS.get(name.upper())
    if found is None:
        hint = suggestion(name.upper(), FORMATS) or f"the formats are: {', '.join(FORMATS)}"
        raise SqlStatementError(f"Unknown format: {name}", hint=hint, at=at)
    return found


def key_schema_name(source: str) -> str:
    """Returns the full name of the Avro record of the keys of a source.

    >>> key_schema_name("MY_OUTPUT")
    'io.confluent.ksql.avro_schemas.MyOutputKey'
    """
    camel = "".join(part[:1].upper() + part[1:].lower() for part in re.split(r"[_\-.]+", source))
    return f"{AVRO_NAMESPACE}.{camel}Key"


def check_format(spec: FormatInfo, *, is_key: bool, at: tuple[int, int] | None = None) -> Format:
    """Checks the properties of a format.

    Raises:
        SqlStatementError: The format is unknown, or does not take one of the properties.
    """
    format_ = format_of(spec.name, at=at)
    for name, value in spec.properties:
        if name not in format_.properties:
            raise SqlStatementError(f"{format_.name} does not support the following configs: [{name}]", at=at)
        if name == FULL_NAME and not value.strip():
            raise SqlStatementError(f"{FULL_NAME} cannot be empty. Format configuration: {name}", at=at)
    if spec.schema_id is not None and not format_.infers:
        side = "KEY" if is_key else "VALUE"
        raise SqlStatementError(
            f"{side}_SCHEMA_ID is provided but format {format_.name} doesn't support registering in Schema Registry",
            at=at,
        )
    return format_


def check_wrapping(
    format_: Format, columns: Sequence[Column], wrap: bool | None, at: tuple[int, int] | None = None
) -> None:
    """Checks WRAP_SINGLE_VALUE.

    Raises:
        SqlStatementError: There are several value columns, or the format cannot write a single one in that way.
    """
    if wrap is None:
        return
    if (wrap and not format_.can_wrap) or (not wrap and not format_.can_unwrap):
        raise SqlStatementError(
            f"Format '{format_.name}' does not support 'WRAP_SINGLE_VALUE' set to '{str(wrap).lower()}'.", at=at
        )
    if len(columns) != 1:
        raise SqlStatementError("'WRAP_SINGLE_VALUE' is only valid for single-field value schemas", at=at)


def check_columns(
    spec: FormatInfo, columns: Sequence[Column], *, is_key: bool, at: tuple[int, int] | None = None
) -> None:
    """Checks that a format can carry columns.

    Raises:
        SqlStatementError: It cannot: the number of columns, their types, or their names.
    """
    format_ = check_format(spec, is_key=is_key, at=at)
    if is_key:
        _check_no_maps(columns, at)
    role = " KEY" if is_key else ""
    listed = f"[{', '.join(f'{column}{role}' for column in columns)}]"
    if format_.name == "NONE":
        if columns:
            raise SqlStatementError(
                f"The 'NONE' format can only be used when no columns are defined. Got: {listed}", at=at
            )
        return
    if format_.single and len(columns) > 1:
        raise SqlStatementError(f"The '{format_.name}' format only supports a single field. Got: {listed}", at=at)
    for column in columns:
        for type_ in column.type.walk():
            _check_type(format_, type_, at)
    if format_.name == "AVRO":
        from millstream.sql.formats.avro_schemas import check_names  # noqa: PLC0415  (the library of a format)

        check_names(columns, at)
    if format_.name in {"PROTOBUF", "PROTOBUF_NOSR"}:
        _check_protobuf(columns, at)


def _check_protobuf(columns: Sequence[Column], at: tuple[int, int] | None) -> None:
    for name in names_of(columns):
        if not _PROTOBUF_NAME.fullmatch(name):
            raise SqlStatementError(
                f"Schema is not compatible with Protobuf: Illegal name: {name}",
                hint="names of fields have letters, digits and _, and do not begin with a digit",
                at=at,
            )
    for type_ in (part for column in columns for part in column.type.walk()):
        inner: SqlType | None = None
        if isinstance(type_, ArrayType):
            inner = type_.element
        elif isinstance(type_, MapType):
            inner = type_.value
        if isinstance(inner, (ArrayType, MapType)):
            raise SqlStatementError(
                f"Protobuf does not support {inner} inside of an ARRAY or MAP", hint="put it into a STRUCT", at=at
            )


def names_of(columns: Sequence[Column]) -> Iterator[str]:
    """Yields the names of columns, and of the fields of their structs."""
    for column in columns:
        yield column.name
        for type_ in column.type.walk():
            if isinstance(type_, StructType):
                yield from (name for name, _type in type_.fields)


def _check_no_maps(columns: Sequence[Column], at: tuple[int, int] | None) -> None:
    for column in columns:
        if any(isinstance(type_, MapType) for type_ in column.type.walk()):
            raise SqlStatementError(
                "Map keys, including types that contain maps, are not supported as they may lead to unexpected "
                f"behavior due to inconsistent serialization. Key column name: `{column.name}`. Column type: "
                f"{column.type}. See https://github.com/confluentinc/ksql/issues/6621 for more.",
                at=at,
            )


def _check_type(format_: Format, type_: SqlType, at: tuple[int, int] | None) -> None:
    is_nested = isinstance(type_, (ArrayType, MapType, StructType))
    if (is_nested and not format_.nested) or (format_.types is not None and type_ not in format_.types):
        base = str(type_).partition("<")[0].partition("(")[0]
        raise SqlStatementError(f"The '{format_.name}' format does not support type '{base}'", at=at)
    if isinstance(type_, MapType) and format_.text_map_keys and type_.key != STRING:
        name = {"JSON_SR": "JSON", "AVRO": "Avro", "PROTOBUF": "Protobuf", "PROTOBUF_NOSR": "Protobuf"}
        shown = name.get(format_.name, format_.name)
        raise SqlStatementError(f"{shown} only supports MAP types with STRING keys", at=at)
