"""Checks columns against their formats: types, the form of a single column, and the schemas of a registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from millstream.errors import SqlStatementError
from millstream.sql.catalog.properties import SourceProperties
from millstream.sql.catalog.sources import Column, DataSource, FormatInfo
from millstream.sql.formats.declarations import (
    DELIMITER,
    FULL_NAME,
    NULLABLE,
    check_columns,
    check_wrapping,
    format_of,
    key_schema_name,
)
from millstream.sql.syntax import tree
from millstream.sql.types import StructType

Columns = tuple[Column, ...]
_PROPERTIES = {
    DELIMITER: ("KEY_DELIMITER", "VALUE_DELIMITER"),
    FULL_NAME: ("KEY_SCHEMA_FULL_NAME", "VALUE_SCHEMA_FULL_NAME"),
    NULLABLE: ("KEY_PROTOBUF_NULLABLE_REPRESENTATION", "VALUE_PROTOBUF_NULLABLE_REPRESENTATION"),
}
"""The property of keys and the property of values that each property of a format comes from."""


class Inference(Protocol):
    """Finds columns in a schema registry."""

    def columns(self, topic: str, format_: FormatInfo, *, is_key: bool, at: tree.Position) -> Columns | None:
        """Returns the columns of the latest schema of a topic, or of the schema that the format names."""
        ...

    def written(self, topic: str, format_: FormatInfo, *, is_key: bool, at: tree.Position) -> Columns | None:
        """Returns the columns of the schema that a format names; None if the registry is not asked now."""
        ...


class SchemaRules:
    """Checks and completes the columns of sources by their formats.

    Attributes:
        inference: Finds columns in the schema registry.
    """

    def __init__(self, inference: Inference) -> None:
        self.inference = inference

    def completed(
        self,
        statement: tree.CreateSource,
        columns: tuple[Columns, Columns],
        formats: tuple[FormatInfo, FormatInfo],
        properties: SourceProperties,
    ) -> tuple[Columns, Columns]:
        """Returns key and value columns; those that a statement leaves out come from the schema registry."""
        key, value = columns
        topic = properties.get("KAFKA_TOPIC")
        for is_key, given in ((True, key), (False, value)):
            side = "KEY" if is_key else "VALUE"
            if given and f"{side}_SCHEMA_ID" in properties:
                raise properties.error(
                    f"{side}_SCHEMA_ID",
                    f"Table elements and {side}_SCHEMA_ID cannot both exist for create statement.",
                )
        if not value:
            value = self._inferred(statement, topic, formats[1], properties, is_key=False)
        if not key and format_of(formats[0].name, at=statement.at).infers:
            key = self._inferred(statement, topic, formats[0], properties, is_key=True)
        return key, value

    def _inferred(
        self,
        statement: tree.CreateSource,
        topic: str,
        format_: FormatInfo,
        properties: SourceProperties,
        *,
        is_key: bool,
    ) -> Columns:
        spec = self.with_features(format_, (), properties, is_key=is_key, source=statement.name)
        if not format_of(format_.name, at=statement.at).infers:
            if is_key or format_.name == "NONE" or any(item.role != "VALUE" for item in statement.elements):
                return ()
            raise SqlStatementError(
                "The statement does not define any columns.",
                hint=f"{format_.name} has no schemas in a registry: list the columns",
                at=statement.at,
            )
        return self.inference.columns(topic, spec, is_key=is_key, at=statement.at) or ()

    def with_features(
        self, format_: FormatInfo, columns: Columns, properties: SourceProperties, *, is_key: bool, source: str
    ) -> FormatInfo:
        """Returns the format of a source with the properties of the statement that concern it."""
        side = 0 if is_key else 1
        values = dict(format_.properties)
        if is_key and columns and format_.name == "AVRO":
            # Records of keys are named by their source, so that classes made of them do not have the same name.
            values[FULL_NAME] = key_schema_name(source)
        for name, sources in _PROPERTIES.items():
            if sources[side] in properties:
                values[name] = properties.get(sources[side])
        if not is_key and "VALUE_AVRO_SCHEMA_FULL_NAME" in properties:
            values[FULL_NAME] = properties.get("VALUE_AVRO_SCHEMA_FULL_NAME")
        wrap = None if is_key else properties.get("WRAP_SINGLE_VALUE")
        if columns:
            check_wrapping(format_of(format_.name), columns, wrap, properties.places.get("WRAP_SINGLE_VALUE"))
        schema_id = properties.get("KEY_SCHEMA_ID" if is_key else "VALUE_SCHEMA_ID")
        return FormatInfo(format_.name, tuple(sorted(values.items())), wrap, schema_id)

    def check(self, source: DataSource, at: tree.Position) -> None:
        """Refuses columns that the formats of a source cannot carry."""
        check_columns(source.key_format, source.key, is_key=True, at=at)
        check_columns(source.value_format, source.value, is_key=False, at=at)

    def check_written(self, sink: DataSource, at: tree.Position) -> None:
        """Refuses a sink whose columns are not those of the schemas that it is to be written with."""
        sides = ((sink.key_format, sink.key, True), (sink.value_format, sink.value, False))
        for format_, columns, is_key in sides:
            if format_.schema_id is None:
                continue
            known = self.inference.written(sink.topic, format_, is_key=is_key, at=at)
            if known is None:
                continue
            if not format_of(format_.name).wraps(columns, format_.wrap, is_key=is_key):
                wrong = [column for column, other in zip(columns, known, strict=False) if column.type != other.type]
            else:
                types = {column.name: column.type for column in _members(known, is_key=is_key)}
                wrong = [column for column in columns if types.get(column.name) != column.type]
            if wrong:
                raise SqlStatementError(
                    f"The following {'key' if is_key else 'value'} columns are changed, missing or reordered: "
                    f"[{', '.join(map(str, wrong))}]. Schema from schema registry is [{', '.join(map(str, known))}]",
                    hint="the columns have the names and the types of the fields of the schema; quote names in small "
                    "letters",
                    at=at,
                )


def _members(columns: Columns, *, is_key: bool) -> Columns:
    """Returns the fields of a key that is one record, else the columns."""
    if is_key and len(columns) == 1 and isinstance(columns[0].type, StructType):
        return tuple(Column(name, type_) for name, type_ in columns[0].type.fields)
    return columns


def default_wrapping(format_: FormatInfo, properties: Mapping[str, Any]) -> FormatInfo:
    """Returns the format of values with the wrapping that the session asks for, where the statement does not."""
    setting = properties.get("ksql.persistence.wrap.single.values")
    if format_.wrap is not None or setting is None:
        return format_
    wrap = str(setting).lower() == "true"
    kind = format_of(format_.name)
    possible = kind.can_wrap if wrap else kind.can_unwrap
    return FormatInfo(format_.name, format_.properties, wrap if possible else None, format_.schema_id)
