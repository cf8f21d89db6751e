"""Converts values of Python types to plain data (dicts, lists, texts, numbers, dates) and back."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import typing
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from millstream.schemas.python_types import Choice, Entries, Items, OneOf, PythonType, Record, Scalar
from millstream.serde.json_codec import is_pydantic

Convert: TypeAlias = Callable[[Any], Any]

_AS_THEY_ARE = (
    bytes, bytearray, dt.datetime, dt.date, dt.time, decimal.Decimal, uuid.UUID,
)  # fmt: skip
"""The types that plain data contains beside those of JSON."""

_PYTHON: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int32": (int,),
    "int64": (int,),
    "float32": (float, int),
    "float64": (float, int),
    "bytes": (bytes, bytearray),
    "string": (str,),
    "date": (dt.date,),
    "time": (dt.time,),
    "timestamp": (dt.datetime,),
    "uuid": (uuid.UUID,),
    "decimal": (decimal.Decimal,),
}


def converters(described: PythonType, python_type: Any, namespace: str | None = None) -> tuple[Convert, Convert]:
    """Returns the functions to plain data and back, for a type.

    In plain data, a record of a union with several records is a pair of the full name of the record and its dict.
    """
    if _is_plain(described, set()):
        import msgspec

        to_builtins, convert = msgspec.to_builtins, msgspec.convert
        return (
            lambda value: to_builtins(value, builtin_types=_AS_THEY_ARE),
            lambda data: convert(data, python_type, builtin_types=_AS_THEY_ARE),
        )
    return _Writing(namespace).convert(described), _Reading().convert(described)


def _is_plain(described: PythonType, seen: set[int]) -> bool:
    """Whether msgspec converts values of the type as a whole."""
    if isinstance(described, Scalar):
        return True
    if isinstance(described, Choice):
        return described.by_value
    if isinstance(described, Items):
        return described.make is list and _is_plain(described.item, seen)
    if isinstance(described, Entries):
        return _is_plain(described.value, seen)
    if isinstance(described, OneOf):
        classes = [member for member in described.members if isinstance(member, Record)]
        return len(classes) <= 1 and all(_is_plain(member, seen) for member in described.members)
    if id(described) in seen:
        return True
    seen.add(id(described))
    fields = described.fields
    return _is_plain_class(described.cls) and all(field.required and _is_plain(field.type, seen) for field in fields)


def _is_plain_class(cls: Any) -> bool:
    config = getattr(cls, "__struct_config__", None)
    if config is not None:
        return config.tag is None and not config.array_like
    return not is_pydantic(cls) and not issubclass(cls, tuple)


def _same(value: Any) -> Any:
    return value


class _Converting:
    """Builds functions for types. Those of records are looked up when they are called: a record may contain itself."""

    def __init__(self) -> None:
        self._records: dict[int, Convert] = {}

    def convert(self, described: PythonType) -> Convert:
        if isinstance(described, Scalar):
            return _same
        if isinstance(described, Choice):
            return self.choice(described)
        if isinstance(described, Items):
            return self.items(described, self.convert(described.item))
        if isinstance(described, Entries):
            convert = self.convert(described.value)
            return lambda value: {key: convert(item) for key, item in value.items()}
        if isinstance(described, OneOf):
            return self.one_of(described)
        records, at = self._records, id(described)
        if at not in records:
            records[at] = _same  # until the function of its fields is there
            records[at] = self.record(described)
        return lambda value: records[at](value)  # noqa: PLW0108  (the function is not there yet)

    def choice(self, described: Choice) -> Convert:
        raise NotImplementedError

    def items(self, described: Items, convert: Convert) -> Convert:
        raise NotImplementedError

    def one_of(self, described: OneOf) -> Convert:
        raise NotImplementedError

    def record(self, described: Record) -> Convert:
        raise NotImplementedError


class _Writing(_Converting):
    def __init__(self, namespace: str | None) -> None:
        super().__init__()
        self._prefix = "" if namespace is None else f"{namespace}."

    def choice(self, described: Choice) -> Convert:
        symbols = {member: symbol for symbol, member in described.symbols.items()}
        return lambda value: symbols[value]

    def items(self, described: Items, convert: Convert) -> Convert:
        return lambda value: [convert(item) for item in value]

    def one_of(self, described: OneOf) -> Convert:
        several = sum(isinstance(member, Record) for member in described.members) > 1
        cases = [
            (accepts(m), self.convert(m), f"{self._prefix}{m.name}" if several and isinstance(m, Record) else None)
            for m in described.members
        ]

        def write(value: Any) -> Any:
            for accepted, convert, name in cases:
                if accepted(value):
                    return convert(value) if name is None else (name, convert(value))
            raise TypeError(f"{type(value).__name__} is not a member of the union")

        return write

    def record(self, described: Record) -> Convert:
        fields = [(field.name, field.attribute, self.convert(field.type)) for field in described.fields]
        if typing.is_typeddict(described.cls):
            return lambda value: {name: convert(value[name]) for name, _, convert in fields if name in value}

        def write(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {name: convert(value[name]) for name, _attribute, convert in fields if name in value}
            return {name: convert(getattr(value, attribute)) for name, attribute, convert in fields}

        return write


class _Reading(_Converting):
    def choice(self, described: Choice) -> Convert:
        return lambda value: described.symbols[value]

    def items(self, described: Items, convert: Convert) -> Convert:
        make = described.make
        return lambda value: make(convert(item) for item in value)

    def one_of(self, described: OneOf) -> Convert:
        records = {m.name: self.convert(m) for m in described.members if isinstance(m, Record)}
        cases = [(plainly_accepts(m), self.convert(m)) for m in described.members]

        def read(value: Any) -> Any:
            if type(value) is tuple:
                name, data = value
                return records[name.rpartition(".")[2]](data)
            for accepted, convert in cases:
                if accepted(value):
                    return convert(value)
            raise TypeError(f"{type(value).__name__} is not a member of the union")

        return read

    def record(self, described: Record) -> Convert:
        cls = described.cls
        fields = [(field.name, field.attribute, self.convert(field.type)) for field in described.fields]
        if typing.is_typeddict(cls):
            optional = {field.name for field in described.fields if not field.required}
            return lambda data: {
                name: convert(data[name])
                for name, _attribute, convert in fields
                if name not in optional or data.get(name) is not None
            }
        if hasattr(cls, "model_validate"):
            validate = cls.model_validate
            return lambda data: validate(
                {attribute: convert(data[name]) for name, attribute, convert in fields}, by_name=True
            )
        return lambda data: cls(**{attribute: convert(data[name]) for name, attribute, convert in fields})


def accepts(described: PythonType) -> Callable[[Any], bool]:
    """Returns the test whether a Python value is of a type."""
    if isinstance(described, Scalar):
        expected = _PYTHON[described.kind]
        if described.kind == "date":  # a datetime is a date, too
            return lambda value: isinstance(value, expected) and not isinstance(value, dt.datetime)
        if described.kind in {"int32", "int64", "float32", "float64"}:
            return lambda value: isinstance(value, expected) and not isinstance(value, bool)
        if described.kind == "string":
            return lambda value: isinstance(value, str) and not isinstance(value, enum.Enum)
        return lambda value: isinstance(value, expected)
    if isinstance(described, Choice):
        members = list(described.symbols.values())
        return lambda value: value in members
    if isinstance(described, Items):
        return lambda value: isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)
    if isinstance(described, Record) and not typing.is_typeddict(described.cls):
        cls = described.cls
        return lambda value: isinstance(value, cls)
    return lambda value: isinstance(value, Mapping)


def plainly_accepts(described: PythonType) -> Callable[[Any], bool]:
    """Returns the test whether plain data is of a type."""
    if isinstance(described, Choice):
        symbols = described.symbols
        return lambda value: isinstance(value, str) and value in symbols
    if isinstance(described, Record | Entries):
        return lambda value: isinstance(value, Mapping)
    return accepts(described)
