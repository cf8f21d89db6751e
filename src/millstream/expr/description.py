"""Descriptions of keys and values: their types, with names, documentation and tags."""

from __future__ import annotations

import types
import typing
from typing import Any

from millstream.core.frozen import Frozen, replace
from millstream.expr.schema import field_names, schema_of
from millstream.expr.types import (
    ANY,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    ArrayType,
    DataType,
    MapType,
    StructType,
)

_IN_JSON = frozenset({BOOLEAN, INT, BIGINT, DOUBLE, STRING, TIMESTAMP, NULL})


class Description(Frozen):
    """The description of a value, and of its parts.

    Attributes:
        type: The type, as expressions see it; ``ANY`` if it is not known.
        nullable: The value may be null, or absent.
        name: The full name of a record.
        doc: The documentation in the schema.
        tags: The tags of the field.
        fields: The fields of a record, by name.
        items: The items of an array, or the values of a map.
    """

    type: DataType
    nullable: bool = False
    name: str | None = None
    doc: str | None = None
    tags: tuple[str, ...] = ()
    fields: tuple[tuple[str, Description], ...] = ()
    items: Description | None = None

    def plain(self) -> dict[str, Any]:
        """Returns the description as plain data: ``type``, ``nullable``, and what else is known."""
        data: dict[str, Any] = {"type": str(self.type), "nullable": self.nullable}
        if self.name is not None:
            data["name"] = self.name
        if self.doc is not None:
            data["doc"] = self.doc
        if self.tags:
            data["tags"] = list(self.tags)
        if self.fields:
            # The name of a field comes first; a record in it has its own name in `record`.
            data["fields"] = [_field(name, field) for name, field in self.fields]
        if self.items is not None:
            data["items"] = self.items.plain()
        return data


UNKNOWN = Description(ANY, nullable=True)


class Limit:
    """Limits a description: a schema in which types refer to types many times has no description of useful size."""

    def __init__(self, records: int = 1000, levels: int = 20) -> None:
        self._left = records
        self._levels = levels

    def allows(self, name: str, inside: tuple[str, ...]) -> bool:
        """Whether the fields of a record are described. Those of a record inside of itself are not."""
        self._left -= 1
        return self._left >= 0 and len(inside) < self._levels and name not in inside


def _field(name: str, field: Description) -> dict[str, Any]:
    plain = field.plain()
    record = plain.pop("name", None)
    return {"name": name, **plain, **({} if record is None else {"record": record})}


def record(name: str | None, fields: list[tuple[str, Description]], doc: str | None = None) -> Description:
    """Returns the description of a record."""
    struct = StructType(tuple((field, part.type) for field, part in fields))
    return Description(struct, name=name, doc=doc, fields=tuple(fields))


def array(items: Description) -> Description:
    """Returns the description of an array."""
    return Description(ArrayType(items.type), items=items)


def mapping(values: Description, key: DataType = STRING) -> Description:
    """Returns the description of a map."""
    return Description(MapType(key, values.type), items=values)


def union(members: list[Description], *, nullable: bool) -> Description:
    """Returns the description of a value of one of several types."""
    if len(members) != 1:
        return replace(UNKNOWN, nullable=nullable)
    return replace(members[0], nullable=nullable or members[0].nullable)


def of_type(type_: DataType) -> Description:
    """Returns the description of the results of an expression."""
    if isinstance(type_, StructType):
        fields = tuple((name, replace(of_type(part), nullable=True)) for name, part in type_.fields)
        return Description(type_, fields=fields)
    if isinstance(type_, ArrayType):
        return Description(type_, items=of_type(type_.element))
    return Description(type_, items=of_type(type_.value)) if isinstance(type_, MapType) else Description(type_)


def in_json(type_: DataType) -> DataType:
    """Returns the type of a value after it was written as JSON and read again; ``ANY`` for parts that JSON changes.

    >>> from millstream.expr.types import parse_type
    >>> in_json(parse_type("STRUCT<id STRING, day DATE>"))
    STRUCT<id STRING, day ANY>
    """
    if isinstance(type_, StructType):
        return StructType(tuple((name, in_json(part)) for name, part in type_.fields))
    if isinstance(type_, ArrayType):
        return ArrayType(in_json(type_.element))
    if isinstance(type_, MapType):
        return MapType(type_.key, in_json(type_.value)) if type_.key == STRING else ANY
    return type_ if type_ in _IN_JSON else ANY


def of_python(hint: Any, seen: tuple[Any, ...] = ()) -> Description:
    """Returns the description of the values of a Python type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Annotated, typing.Required, typing.NotRequired}:
        return of_python(arguments[0], seen)
    if origin is typing.Union or origin is types.UnionType:
        members = [of_python(member, seen) for member in arguments if member is not type(None)]
        return union(members, nullable=type(None) in arguments)
    type_ = schema_of(hint)
    if isinstance(type_, ArrayType) and len(arguments) > 0:
        return replace(array(of_python(arguments[0], seen)), type=type_)
    if isinstance(type_, MapType) and len(arguments) == 2:
        return replace(mapping(of_python(arguments[1], seen)), type=type_)
    cls = origin or hint
    if not isinstance(type_, StructType) or not isinstance(cls, type) or cls in seen:
        return Description(type_)
    hints = typing.get_type_hints(cls, include_extras=True)
    names = [name for name in field_names(cls) or () if name in hints]
    # `schema_of` knows the arguments of generic classes.
    known = dict(type_.fields)
    parts = tuple((name, replace(of_python(hints[name], (*seen, cls)), type=known[name])) for name in names)
    return Description(type_, name=cls.__name__, fields=parts)
