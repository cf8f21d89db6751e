"""CREATE STREAM and CREATE TABLE: from elements and properties to a source of the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.errors import SqlStatementError, suggestion
from millstream.sql.binder.expressions import resolve_type
from millstream.sql.catalog.properties import CREATE_PROPERTIES, SourceProperties, check_properties
from millstream.sql.catalog.sources import (
    SYSTEM_COLUMNS,
    Column,
    DataSource,
    FormatInfo,
    HeaderColumn,
    TimestampInfo,
)
from millstream.sql.functions.java.time_patterns import parse_pattern
from millstream.sql.statements.schemas import SchemaRules
from millstream.sql.syntax import tree
from millstream.sql.syntax.preparation import PreparationError
from millstream.sql.types import BIGINT, BYTES, HEADERS, STRING, TIMESTAMP, SqlType


def create_source(
    statement: tree.CreateSource,
    types: Mapping[str, SqlType],
    defaults: Mapping[str, Any],
    schemas: SchemaRules,
) -> DataSource:
    """Returns the source that a statement defines.

    Raises:
        SqlStatementError: The statement is invalid.
    """
    properties = check_properties(statement.properties, CREATE_PROPERTIES)
    if "KAFKA_TOPIC" not in properties:
        raise SqlStatementError('Missing required property "KAFKA_TOPIC" which has no default value.', at=statement.at)
    key, value, headers = source_columns(statement, types)
    window = properties.window
    key_format, value_format = source_formats(properties, defaults, statement)
    topic = properties.get("KAFKA_TOPIC")
    key, value = schemas.completed(statement, (key, value), (key_format, value_format), properties)
    if statement.kind == "TABLE" and not key:
        raise SqlStatementError(
            "Tables require a PRIMARY KEY. Please define the PRIMARY KEY.",
            at=statement.at,
        )
    if window is not None and not key:
        raise SqlStatementError("Windowed sources require a key column.", at=statement.at)
    source = DataSource(
        name=statement.name,
        kind=statement.kind,
        key=key,
        value=value,
        topic=topic,
        key_format=schemas.with_features(key_format, key, properties, is_key=True, source=statement.name),
        value_format=schemas.with_features(value_format, value, properties, is_key=False, source=statement.name),
        headers=headers,
        window=window,
        timestamp=timestamp_info(properties, (*key, *value)),
        partitions=properties.get("PARTITIONS"),
        read_only=statement.is_source,
        statement=statement.text,
    )
    schemas.check(source, statement.at)
    return source


def source_columns(
    statement: tree.CreateSource | tree.AssertSource, types: Mapping[str, SqlType]
) -> tuple[tuple[Column, ...], tuple[Column, ...], tuple[HeaderColumn, ...]]:
    """Returns the key, value and header columns of a statement."""
    key: list[Column] = []
    value: list[Column] = []
    headers: list[HeaderColumn] = []
    seen: set[str] = set()
    for element in statement.elements:
        if element.name in SYSTEM_COLUMNS:
            raise PreparationError(f"'{element.name}' is a reserved column name.", at=element.at)
        if element.name in seen:
            raise PreparationError(f"Duplicate column names: {element.name}", at=element.at)
        seen.add(element.name)
        type_ = resolve_type(element.type, types)
        if element.role == "VALUE":
            value.append(Column(element.name, type_))
        elif element.role in ("HEADERS", "HEADER"):
            headers.append(_header(element, type_, headers))
        else:
            _check_key_role(statement, element)
            key.append(Column(element.name, type_))
    return tuple(key), tuple(value), tuple(headers)


def _check_key_role(statement: tree.CreateSource | tree.AssertSource, element: tree.Element) -> None:
    if statement.kind == "TABLE" and element.role == "KEY":
        raise PreparationError(
            f"Column `{element.name}` is a 'KEY' column: please use 'PRIMARY KEY' for tables. Tables have PRIMARY "
            "KEYs, which are unique and NON NULL. Streams have KEYs, which have no uniqueness or NON NULL constraints.",
            at=element.at,
        )
    if statement.kind == "STREAM" and element.role == "PRIMARY KEY":
        raise PreparationError(
            f"Column `{element.name}` is a 'PRIMARY KEY' column: please use 'KEY' for streams. Tables have PRIMARY "
            "KEYs, which are unique and NON NULL. Streams have KEYs, which have no uniqueness or NON NULL constraints.",
            at=element.at,
        )


def _header(element: tree.Element, type_: SqlType, others: list[HeaderColumn]) -> HeaderColumn:
    if element.role == "HEADERS":
        if type_ != HEADERS:
            raise PreparationError(f"Invalid type for HEADERS column: expected {HEADERS}, got {type_}", at=element.at)
        if others:
            raise PreparationError("Only one of HEADERS or HEADER('key') columns is allowed.", at=element.at)
        return HeaderColumn(element.name, type_)
    if type_ != BYTES:
        raise PreparationError(
            f"Invalid type for HEADER('{element.header}') column: expected BYTES, got {type_}", at=element.at
        )
    for other in others:
        if other.header is None:
            raise PreparationError("Schema already contains a HEADERS column.", at=element.at)
        if other.header == element.header:
            raise PreparationError(f"Schema already contains a HEADER('{element.header}') column.", at=element.at)
    return HeaderColumn(element.name, type_, element.header)


def source_formats(
    properties: SourceProperties, defaults: Mapping[str, Any], statement: tree.Statement
) -> tuple[FormatInfo, FormatInfo]:
    """Returns the formats of keys and values that a CREATE names, or the defaults."""
    both = properties.get("FORMAT")
    key = properties.get("KEY_FORMAT", both) or defaults.get("ksql.persistence.default.format.key") or "KAFKA"
    value = properties.get("VALUE_FORMAT", both) or defaults.get("ksql.persistence.default.format.value")
    if value is None:
        raise SqlStatementError(
            "Statement is missing the 'VALUE_FORMAT' property from the WITH clause. Either provide one or set a "
            "default via the 'ksql.persistence.default.format.value' config.",
            at=statement.at,
        )
    return FormatInfo(str(key).upper()), FormatInfo(str(value).upper())


def timestamp_info(properties: SourceProperties, columns: tuple[Column, ...]) -> TimestampInfo | None:
    """Returns the column with the time of records."""
    name, pattern = properties.get("TIMESTAMP"), properties.get("TIMESTAMP_FORMAT")
    if name is None:
        if pattern is not None:
            raise properties.error("TIMESTAMP_FORMAT", "TIMESTAMP_FORMAT needs TIMESTAMP")
        return None
    quoted = name[:1] in '`"' and name[:1] == name[-1:] and len(name) > 1
    name = name[1:-1] if quoted else name.upper()
    types = {column.name: column.type for column in columns}
    if name not in types:
        raise properties.error(
            "TIMESTAMP",
            f"The TIMESTAMP column set in the WITH clause does not exist in the schema: '{name}'",
            hint=suggestion(name, types),
        )
    if types[name] not in (BIGINT, TIMESTAMP, STRING):
        raise properties.error(
            "TIMESTAMP",
            f"Timestamp column, `{name}`, should be LONG(INT64), TIMESTAMP, or a String with a timestamp_format "
            "specified.",
        )
    if pattern is not None and types[name] != STRING:
        raise properties.error(
            "TIMESTAMP_FORMAT",
            f"'TIMESTAMP_FORMAT' set in the WITH clause can not be used when the column is {types[name]}",
        )
    if pattern is None and types[name] == STRING:
        raise properties.error(
            "TIMESTAMP", f"A String timestamp field must be specified with a timestamp_format: `{name}`"
        )
    if pattern is not None:
        try:
            parse_pattern(pattern)
        except ValueError as error:
            raise properties.error(
                "TIMESTAMP_FORMAT",
                f"Invalid pattern '{pattern}': {error}",
                hint="patterns are those of java.time.format.DateTimeFormatter, such as 'yyyy-MM-dd HH:mm:ss'",
            ) from error
    return TimestampInfo(name, pattern)
