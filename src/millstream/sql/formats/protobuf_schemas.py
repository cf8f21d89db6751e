"""Protobuf schemas of columns, and the types of Protobuf messages."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pb2

from millstream.errors import InvalidSchemaError
from millstream.registry.api import Schema
from millstream.schemas.protobuf.descriptors import Files, compiled, files_of_schema
from millstream.schemas.serde import Parts
from millstream.sql.catalog.sources import Column
from millstream.sql.formats.expansion import Expansion
from millstream.sql.formats.physical import FLOAT32
from millstream.sql.formats.protobuf_types import (
    DATE_NAME,
    DECIMAL_NAME,
    TEXTS,
    TIME_NAME,
    TIMESTAMP_NAME,
    RowMessages,
    decimal_options,
    parameters_of,
)
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

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: dict[SqlType, tuple[str, int, str]] = {
    BOOLEAN: ("bool", _Field.TYPE_BOOL, "BoolValue"),
    INTEGER: ("int32", _Field.TYPE_INT32, "Int32Value"),
    BIGINT: ("int64", _Field.TYPE_INT64, "Int64Value"),
    DOUBLE: ("double", _Field.TYPE_DOUBLE, "DoubleValue"),
    STRING: ("string", _Field.TYPE_STRING, "StringValue"),
    BYTES: ("bytes", _Field.TYPE_BYTES, "BytesValue"),
}
"""The name of each scalar type, its number, and the message that wraps it."""

_MESSAGES: dict[SqlType, tuple[str, str]] = {
    DATE: (DATE_NAME, "google/type/date.proto"),
    TIME: (TIME_NAME, "google/type/timeofday.proto"),
    TIMESTAMP: (TIMESTAMP_NAME, "google/protobuf/timestamp.proto"),
}
_WRAPPERS = "google/protobuf/wrappers.proto"
_DECIMALS = "confluent/type/decimal.proto"
_MOST_DERIVED = 1000
_derived: dict[str, bytes] = {}
"""The descriptors of schemas that this process derived, by their text: it need not compile them."""

DEFAULT_NAME = "ConnectDefault1"


def protobuf_schema(columns: Sequence[Column], full_name: str | None, nullable: str | None, *, wrapped: bool) -> str:
    """Returns the text of the schema of columns.

    Args:
        columns: The columns.
        full_name: The full name of the message.
        nullable: How NULL is kept apart from defaults: OPTIONAL, WRAPPER, or None: not at all.
        wrapped: The columns are fields of a message; otherwise, a struct is the message itself.
    """
    text, file = _Deriver(nullable).file(message_fields(columns, wrapped=wrapped), full_name or DEFAULT_NAME)
    if len(_derived) >= _MOST_DERIVED:
        _derived.clear()
    _derived[text] = file
    return text


def message_fields(columns: Sequence[Column], *, wrapped: bool) -> tuple[tuple[str, SqlType], ...]:
    """Returns the fields of the message of columns."""
    if not wrapped and isinstance(columns[0].type, StructType):
        return columns[0].type.fields
    return tuple((column.name, column.type) for column in columns)


class _Deriver:
    """Derives the text and the descriptor of a file."""

    def __init__(self, nullable: str | None) -> None:
        self.nullable = nullable
        self.imports: set[str] = set()
        self.count = 1

    def file(self, fields: Sequence[tuple[str, SqlType]], full_name: str) -> tuple[str, bytes]:
        package, _, name = full_name.rpartition(".")
        file = descriptor_pb2.FileDescriptorProto(name="schema.proto", package=package, syntax="proto3")
        lines = self._message(file.message_type.add(name=name), fields, f".{full_name}", "")
        file.dependency.extend(sorted(self.imports))
        head = ['syntax = "proto3";', *([f"package {package};"] if package else []), ""]
        head += [*(f'import "{path}";' for path in sorted(self.imports)), *([""] if self.imports else [])]
        return "\n".join([*head, *lines, ""]), file.SerializeToString()

    def _message(self, message: Any, fields: Sequence[tuple[str, SqlType]], path: str, indent: str) -> list[str]:
        lines = [f"{indent}message {message.name} {{"]
        inner: list[str] = []
        for number, (name, type_) in enumerate(fields, 1):
            shown = self._field(message, name, number, type_, path, f"{indent}  ", inner)
            lines.append(f"{indent}  {shown} {name} = {number}{self._options(type_)};")
        return [*lines, *inner, f"{indent}}}"]

    def _field(
        self, message: Any, name: str, number: int, type_: SqlType, path: str, indent: str, inner: list[str]
    ) -> str:
        """Adds a field to a message, and returns the text of its type."""
        field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
        if isinstance(type_, ArrayType):
            field.label = _Field.LABEL_REPEATED
            return f"repeated {self._single(message, field, type_.element, path, indent, inner)}"
        if isinstance(type_, MapType):
            field.label, field.type = _Field.LABEL_REPEATED, _Field.TYPE_MESSAGE
            entry = message.nested_type.add(name=f"{_camel(name)}Entry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
            value = entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL)
            field.type_name = f"{path}.{entry.name}"
            return f"map<string, {self._single(message, value, type_.value, path, indent, inner)}>"
        scalar = _SCALARS.get(type_)
        if scalar is not None and self.nullable == "WRAPPER":
            self.imports.add(_WRAPPERS)
            field.type, field.type_name = _Field.TYPE_MESSAGE, f".google.protobuf.{scalar[2]}"
            return str(field.type_name[1:])
        shown = self._single(message, field, type_, path, indent, inner)
        if scalar is not None and self.nullable == "OPTIONAL":
            field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")
            return f"optional {shown}"
        return shown

    def _single(self, message: Any, field: Any, type_: SqlType, path: str, indent: str, inner: list[str]) -> str:
        if type_ in _SCALARS:
            shown, field.type, _wrapper = _SCALARS[type_]
            return shown
        field.type = _Field.TYPE_MESSAGE
        if isinstance(type_, StructType):
            self.count += 1
            nested = message.nested_type.add(name=f"ConnectDefault{self.count}")
            field.type_name = f"{path}.{nested.name}"
            inner += self._message(nested, type_.fields, field.type_name, indent)
            return str(nested.name)
        if isinstance(type_, DecimalType):
            self.imports.update((_DECIMALS, "confluent/meta.proto"))
            field.type_name = f".{DECIMAL_NAME}"
            field.options.MergeFromString(decimal_options(type_.precision, type_.scale))
            return DECIMAL_NAME
        name, file = _MESSAGES[type_]
        self.imports.add(file)
        field.type_name = f".{name}"
        return name

    def _options(self, type_: SqlType) -> str:
        decimal = type_.element if isinstance(type_, ArrayType) else type_
        if not isinstance(decimal, DecimalType):
            return ""
        parameters = (("precision", decimal.precision), ("scale", decimal.scale))
        shown = ", ".join(f'{{key: "{key}", value: "{value}"}}' for key, value in parameters)
        return f" [(confluent.field_meta) = {{params: [{shown}]}}]"


def _camel(name: str) -> str:
    """The name of the message of a map's entries, as the compiler makes it."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


@functools.lru_cache(maxsize=256)
def _messages(schema: Schema, parts: Parts) -> RowMessages:
    if schema.text in _derived:
        return RowMessages(Files((_derived[schema.text],)))
    imported = {
        path: text for path, text in TEXTS.items() if any(path in s.text for s in (schema, *dict(parts).values()))
    }
    if not imported:
        return RowMessages(files_of_schema(schema, parts))
    texts = {**TEXTS, **{name: part.text for name, part in parts}, "schema.proto": schema.text}
    return RowMessages(compiled("schema.proto", texts))


def messages_of(schema: Schema, parts: Parts) -> RowMessages:
    """Returns the messages of a registered schema.

    Raises:
        InvalidSchemaError: It is not a valid schema.
    """
    return _messages(schema, parts)


def message_of(schema: Schema, parts: Parts, full_name: str | None) -> Any:
    """Returns the descriptor of a message of a schema; without a name, of its first message."""
    messages = messages_of(schema, parts)
    if full_name is not None:
        return messages.named(full_name)
    top = list(messages.file.message_types_by_name.values())
    if not top:
        raise InvalidSchemaError("the Protobuf schema has no message")
    return top[0]


_PHYSICAL: dict[int, SqlType] = {
    **dict.fromkeys((_Field.TYPE_INT32, _Field.TYPE_SINT32, _Field.TYPE_SFIXED32), INTEGER),
    **dict.fromkeys(
        (
            _Field.TYPE_UINT32, _Field.TYPE_FIXED32, _Field.TYPE_INT64, _Field.TYPE_SINT64, _Field.TYPE_SFIXED64,
            _Field.TYPE_UINT64, _Field.TYPE_FIXED64,
        ),
        BIGINT,
    ),
    _Field.TYPE_FLOAT: FLOAT32,
    _Field.TYPE_DOUBLE: DOUBLE,
    _Field.TYPE_BOOL: BOOLEAN,
    _Field.TYPE_STRING: STRING,
    _Field.TYPE_BYTES: BYTES,
    _Field.TYPE_ENUM: STRING,
}  # fmt: skip
WRAPPED = {
    f"google.protobuf.{name}": type_
    for name, type_ in (
        ("BoolValue", BOOLEAN), ("Int32Value", INTEGER), ("Int64Value", BIGINT), ("UInt32Value", BIGINT),
        ("UInt64Value", BIGINT), ("FloatValue", FLOAT32), ("DoubleValue", DOUBLE), ("StringValue", STRING),
        ("BytesValue", BYTES),
    )
}  # fmt: skip
"""The messages that wrap a scalar."""

_KNOWN: dict[str, SqlType] = {**WRAPPED, **{name: type_ for type_, (name, _file) in _MESSAGES.items()}}


def is_map(field: Any) -> bool:
    """Whether a field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def physical_message(message: Any) -> StructType:
    """Returns the type of a message; fields that columns cannot have are left out.

    Raises:
        InvalidSchemaError: The type is too large.
    """
    return _Physical().message(message, (), 0)


def physical_field(field: Any, above: tuple[str, ...]) -> SqlType | None:
    """Returns the type of a field, None if columns cannot have it; *above* are the messages that contain it."""
    return _Physical().field(field, above, 0)


class _Physical:
    def __init__(self) -> None:
        self._expansion = Expansion()

    def message(self, message: Any, above: tuple[str, ...], depth: int) -> StructType:
        inside = (*above, message.full_name)
        fields = [(field.name, self.field(field, inside, depth + 1)) for field in message.fields]
        return StructType(tuple((name, type_) for name, type_ in fields if type_ is not None))

    def field(self, field: Any, above: tuple[str, ...], depth: int) -> SqlType | None:
        self._expansion.part(depth)
        if is_map(field):
            entry = field.message_type.fields_by_name
            key, value = (self.field(entry[part], above, depth + 1) for part in ("key", "value"))
            return None if key is None or value is None else MapType(key, value)
        single = self._single(field, above, depth)
        if single is None or not field.is_repeated:
            return single
        return ArrayType(single)

    def _single(self, field: Any, above: tuple[str, ...], depth: int) -> SqlType | None:
        if field.message_type is None:
            return _PHYSICAL.get(field.type)
        name = field.message_type.full_name
        if name == DECIMAL_NAME:
            parameters = parameters_of(field)
            return DecimalType(int(parameters.get("precision", 64)), int(parameters.get("scale", 0)))
        if name in _KNOWN:
            return _KNOWN[name]
        return None if name in above else self.message(field.message_type, above, depth + 1)
