"""Converts values of Python types to Protobuf messages and back."""

from __future__ import annotations

import datetime as dt
import decimal
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from millstream.schemas.conversion import accepts
from millstream.schemas.protobuf.from_types import is_nullable, member_name
from millstream.schemas.python_types import (
    MISSING,
    Choice,
    Entries,
    Items,
    OneOf,
    PythonType,
    Record,
    RecordField,
    Scalar,
)

Fill: TypeAlias = Callable[[Any, Any], None]
"""Writes a value to a message."""
Read: TypeAlias = Callable[[Any], Any]
"""Reads a value of a message."""

_NULL = Scalar("null")
_TEXTS: dict[str, tuple[Callable[[Any], str], Callable[[str], Any]]] = {
    "date": (dt.date.isoformat, dt.date.fromisoformat),
    "time": (dt.time.isoformat, dt.time.fromisoformat),
    "uuid": (str, uuid.UUID),
    "decimal": (str, decimal.Decimal),
}


class MessageWriter:
    """Builds the functions that fill messages, one for each record."""

    def __init__(self) -> None:
        self._records: dict[int, Fill] = {}

    def record(self, record: Record) -> Fill:
        """Returns the function that writes a record to a message."""
        records, at = self._records, id(record)
        if at not in records:
            records[at] = _nothing  # until the functions of its fields are there
            fields = [(f.attribute, f.name, self._field(f), is_nullable(f)) for f in record.fields]
            is_dict = typing.is_typeddict(record.cls)

            def fill(message: Any, value: Any) -> None:
                from_dict = is_dict or isinstance(value, Mapping)
                for attribute, name, write, nullable in fields:
                    item = value.get(name) if from_dict else getattr(value, attribute)
                    if item is not None:
                        if write is None:
                            setattr(message, name, item)
                        else:
                            write(message, item)
                    elif not nullable:
                        raise ValueError(f"the field {name} is None")

            records[at] = fill
        return lambda message, value: records[at](message, value)  # noqa: PLW0108  (the function is not there yet)

    def _field(self, field: RecordField) -> Fill | None:
        """Returns the function that writes a field; None if the value is written as it is."""
        described, name = field.type, field.name
        if isinstance(described, OneOf):
            members = [member for member in described.members if member != _NULL]
            if len(members) > 1:
                return self._union(field, members)
            described = members[0]
        if isinstance(described, Items):
            return self._items(name, described.item)
        if isinstance(described, Entries):
            return self._entries(name, described.value)
        if isinstance(described, Scalar) and described.kind != "timestamp" and described.kind not in _TEXTS:
            return None
        return self._single(name, described)

    def _single(self, name: str, described: PythonType) -> Fill:
        if isinstance(described, Record):
            fill = self.record(described)

            def write_record(message: Any, value: Any) -> None:
                inner = getattr(message, name)
                inner.SetInParent()
                fill(inner, value)

            return write_record
        if described == Scalar("timestamp"):
            return lambda message, value: getattr(message, name).FromDatetime(_aware(value))
        plain = _to_plain(described)
        return lambda message, value: setattr(message, name, plain(value))

    def _union(self, field: RecordField, members: list[PythonType]) -> Fill:
        cases = [(accepts(member), self._single(member_name(field, member), member)) for member in members]

        def write(message: Any, value: Any) -> None:
            for accepted, fill in cases:
                if accepted(value):
                    fill(message, value)
                    return
            raise TypeError(f"{type(value).__name__} is not a member of the union {field.name}")

        return write

    def _items(self, name: str, described: PythonType) -> Fill:
        if isinstance(described, Record):
            fill = self.record(described)

            def write_records(message: Any, value: Any) -> None:
                repeated = getattr(message, name)
                for item in value:
                    fill(repeated.add(), item)

            return write_records
        if described == Scalar("timestamp"):

            def write_timestamps(message: Any, value: Any) -> None:
                repeated = getattr(message, name)
                for item in value:
                    repeated.add().FromDatetime(_aware(item))

            return write_timestamps
        plain = _to_plain(described)
        if plain is _same:
            return lambda message, value: getattr(message, name).extend(value)
        return lambda message, value: getattr(message, name).extend([plain(item) for item in value])

    def _entries(self, name: str, described: PythonType) -> Fill:
        if isinstance(described, Record) or described == Scalar("timestamp"):
            fill = self.record(described) if isinstance(described, Record) else _fill_timestamp

            def write_records(message: Any, value: Any) -> None:
                entries = getattr(message, name)
                for key, item in value.items():
                    fill(entries[key], item)

            return write_records
        plain = _to_plain(described)

        def write(message: Any, value: Any) -> None:
            entries = getattr(message, name)
            for key, item in value.items():
                entries[key] = plain(item)

        return write


class MessageReader:
    """Builds the functions that read messages, one for each record."""

    def __init__(self) -> None:
        self._records: dict[int, Read] = {}

    def record(self, record: Record) -> Read:
        """Returns the function that reads a record from a message."""
        records, at = self._records, id(record)
        if at not in records:
            records[at] = _nothing_read
            cls: Any = record.cls
            is_dict = typing.is_typeddict(cls)
            fields = [(f.name if is_dict else f.attribute, f.name, self._field(f)) for f in record.fields]
            if hasattr(cls, "model_validate"):
                validate = cls.model_validate
                records[at] = lambda message: validate(_read_all(fields, message), by_name=True)
            else:
                records[at] = lambda message: cls(**_read_all(fields, message))
        return lambda message: records[at](message)  # noqa: PLW0108  (the function is not there yet)

    def _field(self, field: RecordField) -> Read | None:
        """Returns the function that reads a field; None if the value is returned as it is."""
        described, name = field.type, field.name
        nullable = is_nullable(field)
        if isinstance(described, OneOf):
            members = [member for member in described.members if member != _NULL]
            if len(members) > 1:
                return self._union(field, members, _absent(field))
            described = members[0]
        if isinstance(described, Items):
            item, make = self._value(described.item), described.make
            if item is _same:
                return lambda message: make(getattr(message, name))
            return lambda message: make(item(value) for value in getattr(message, name))
        if isinstance(described, Entries):
            read = self._value(described.value)
            return lambda message: {key: read(value) for key, value in getattr(message, name).items()}
        read = self._value(described)
        is_message = isinstance(described, Record) or described == Scalar("timestamp")
        if not (is_message or nullable or field.default is not MISSING):
            return None if read is _same else lambda message: read(getattr(message, name))
        absent = _absent(field)

        def read_present(message: Any) -> Any:
            return read(getattr(message, name)) if message.HasField(name) else absent()

        return read_present

    def _union(self, field: RecordField, members: list[PythonType], absent: Callable[[], Any]) -> Read:
        readers = {member_name(field, member): self._value(member) for member in members}
        union = field.name

        def read(message: Any) -> Any:
            name = message.WhichOneof(union)
            return absent() if name is None else readers[name](getattr(message, name))

        return read

    def _value(self, described: PythonType) -> Read:
        if isinstance(described, Record):
            return self.record(described)
        if isinstance(described, Choice):
            members = list(described.symbols.values())

            def member(number: int) -> Any:
                if not 0 < number <= len(members):
                    raise ValueError(f"{number} is not a value of the enum {described.name}")
                return members[number - 1]

            return member
        assert isinstance(described, Scalar)
        if described.kind == "timestamp":
            return lambda value: value.ToDatetime(tzinfo=dt.UTC)
        return _TEXTS[described.kind][1] if described.kind in _TEXTS else _same


class _Unset:
    """The value of a field of a TypedDict that is not there."""


def _read_all(fields: list[tuple[str, str, Read | None]], message: Any) -> dict[str, Any]:
    values = {}
    for attribute, name, read in fields:
        value = getattr(message, name) if read is None else read(message)
        if value is not _Unset:
            values[attribute] = value
    return values


def _absent(field: RecordField) -> Callable[[], Any]:
    """Returns the function that returns the value of a field that a message does not have."""
    if not field.required:
        return lambda: _Unset
    if field.default is not MISSING:
        import copy

        return lambda: copy.copy(field.default)
    if is_nullable(field):
        return lambda: None

    def refuse() -> Any:
        raise ValueError(f"the field {field.name} is missing")

    return refuse


def _to_plain(described: PythonType) -> Callable[[Any], Any]:
    if isinstance(described, Choice):
        numbers = {member: number for number, member in enumerate(described.symbols.values(), 1)}
        return lambda value: numbers[value]
    assert isinstance(described, Scalar)
    return _TEXTS[described.kind][0] if described.kind in _TEXTS else _same


def _aware(value: Any) -> Any:
    if value.tzinfo is None:
        raise ValueError(f"{value} has no time zone")
    return value


def _fill_timestamp(message: Any, value: Any) -> None:
    message.FromDatetime(_aware(value))


def _same(value: Any) -> Any:
    return value


def _nothing(_message: Any, _value: Any) -> None:
    """Stands for the function of a record that is being built."""


def _nothing_read(_message: Any) -> Any:
    """Stands for the function of a record that is being built."""
