"""Protobuf messages of Python types."""

from __future__ import annotations

import re
from typing import Any

from google.protobuf import descriptor_pb2

from millstream.errors import InvalidSchemaError
from millstream.schemas.protobuf.descriptors import Files
from millstream.schemas.python_types import (
    MISSING,
    Choice,
    Entries,
    FieldNumber,
    Items,
    OneOf,
    PythonType,
    Record,
    RecordField,
    Scalar,
)

_FIELD: Any = descriptor_pb2.FieldDescriptorProto
_TIMESTAMP = ".google.protobuf.Timestamp"
_TYPES = {
    "boolean": _FIELD.TYPE_BOOL,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "float32": _FIELD.TYPE_FLOAT,
    "float64": _FIELD.TYPE_DOUBLE,
    "bytes": _FIELD.TYPE_BYTES,
    "string": _FIELD.TYPE_STRING,
    "date": _FIELD.TYPE_STRING,
    "time": _FIELD.TYPE_STRING,
    "uuid": _FIELD.TYPE_STRING,
    "decimal": _FIELD.TYPE_STRING,
}
"""The types of scalars. Dates, times, UUIDs and decimals are texts: Protobuf has no types of its own for them."""

_NULL = Scalar("null")


def files_of_type(described: PythonType, package: str | None) -> Files:
    """Returns the file of a type, whose record is the first message.

    Raises:
        InvalidSchemaError: A field has no form in Protobuf; the error names it.
    """
    if not isinstance(described, Record):
        raise InvalidSchemaError("protobuf: a schema is a message: give a class with fields")
    writing = _Writing(package)
    writing.message(described, described.name)
    file = writing.file
    file.name = f"{described.name}.proto"
    return Files((file.SerializeToString(deterministic=True),))


def symbol_of(choice: Choice, symbol: str) -> str:
    """Returns the name of a value of an enum: values of all enums of a file share their names.

    >>> symbol_of(Choice("OrderSize", {}), "large")
    'ORDER_SIZE_LARGE'
    """
    prefix = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", choice.name).upper()
    return f"{prefix}_{symbol.upper()}"


def member_name(field: RecordField, member: PythonType) -> str:
    """Returns the name of the field for a member of a union."""
    kind = member.kind if isinstance(member, Scalar) else getattr(member, "name", "")
    return f"{field.name}_{kind.lower()}"


def is_nullable(field: RecordField) -> bool:
    """Whether the value of a field may be None, or a TypedDict may not have it."""
    return not field.required or (isinstance(field.type, OneOf) and _NULL in field.type.members)


class _Writing:
    def __init__(self, package: str | None) -> None:
        self.file: Any = descriptor_pb2.FileDescriptorProto(syntax="proto3")
        self._prefix = "."
        if package is not None:
            self.file.package = package
            self._prefix = f".{package}."
        self._written: set[str] = set()

    def message(self, record: Record, path: str) -> str:
        if record.name in self._written:
            return self._prefix + record.name
        self._written.add(record.name)
        message = self.file.message_type.add(name=record.name)
        optional: list[Any] = []
        for field in record.fields:
            where = f"{path}.{field.attribute}"
            number = next((a.number for a in field.annotations if isinstance(a, FieldNumber)), None)
            self._field(message, field, where, number, optional)
        # The oneofs that declare presence come behind all others.
        for added in optional:
            added.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{added.name}")
        numbers = [added.number for added in message.field]
        if len(set(numbers)) < len(numbers):
            raise InvalidSchemaError(f"{path}: two fields have the same number: {sorted(numbers)}")
        return self._prefix + record.name

    def _field(self, message: Any, field: RecordField, path: str, number: int | None, optional: list[Any]) -> None:
        number = number if number is not None else max((f.number for f in message.field), default=0) + 1
        described = field.type
        is_optional = field.default is not MISSING or not field.required
        if is_nullable(field) and field.default is not MISSING and field.default is not None:
            raise _no_form(path, "a missing field is either None or its default: choose one of them")
        if isinstance(described, OneOf):
            members = [member for member in described.members if member != _NULL]
            if len(members) > 1:
                self._union(message, field, members, path, number)
                return
            is_optional, described = True, members[0]
            if isinstance(described, Items | Entries):
                raise _no_form(path, "Protobuf does not distinguish an empty list or map from a missing one")
        added = message.field.add(name=field.name, number=number, label=_FIELD.LABEL_OPTIONAL)
        if isinstance(described, Items):
            added.label = _FIELD.LABEL_REPEATED
            self._type(added, described.item, path)
        elif isinstance(described, Entries):
            self._map(message, added, described, path)
        else:
            self._type(added, described, path)
            if is_optional and added.type != _FIELD.TYPE_MESSAGE:
                added.proto3_optional = True
                optional.append(added)

    def _union(self, message: Any, field: RecordField, members: list[PythonType], path: str, number: int) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=field.name)
        for offset, member in enumerate(members):
            if isinstance(member, Items | Entries | OneOf):
                raise _no_form(path, "a union in Protobuf has no lists and maps: put them into a class")
            added = message.field.add(name=member_name(field, member), number=number + offset, oneof_index=index)
            added.label = _FIELD.LABEL_OPTIONAL
            self._type(added, member, path)

    def _map(self, message: Any, added: Any, described: Entries, path: str) -> None:
        name = "".join(part.capitalize() for part in added.name.split("_")) + "Entry"
        entry = message.nested_type.add(name=name)
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=_FIELD.LABEL_OPTIONAL, type=_FIELD.TYPE_STRING)
        value = entry.field.add(name="value", number=2, label=_FIELD.LABEL_OPTIONAL)
        self._type(value, described.value, path)
        added.label, added.type = _FIELD.LABEL_REPEATED, _FIELD.TYPE_MESSAGE
        added.type_name = f"{self._prefix}{message.name}.{name}"

    def _type(self, added: Any, described: PythonType, path: str) -> None:
        if isinstance(described, Record):
            added.type, added.type_name = _FIELD.TYPE_MESSAGE, self.message(described, path)
        elif isinstance(described, Choice):
            added.type, added.type_name = _FIELD.TYPE_ENUM, self._enum(described)
        elif isinstance(described, Scalar) and described.kind == "timestamp":
            added.type, added.type_name = _FIELD.TYPE_MESSAGE, _TIMESTAMP
            if "google/protobuf/timestamp.proto" not in self.file.dependency:
                self.file.dependency.append("google/protobuf/timestamp.proto")
        elif isinstance(described, Scalar) and described.kind in _TYPES:
            added.type = _TYPES[described.kind]
        else:
            raise _no_form(path, "put lists in lists, optional items and unions into a class")

    def _enum(self, choice: Choice) -> str:
        if choice.name not in self._written:
            self._written.add(choice.name)
            added = self.file.enum_type.add(name=choice.name)
            added.value.add(name=symbol_of(choice, "unspecified"), number=0)
            for number, symbol in enumerate(choice.symbols, 1):
                added.value.add(name=symbol_of(choice, symbol), number=number)
        return self._prefix + choice.name


def _no_form(path: str, hint: str) -> InvalidSchemaError:
    return InvalidSchemaError(f"{path}: its type has no form in Protobuf", hint=hint)
