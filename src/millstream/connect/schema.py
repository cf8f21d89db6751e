"""Schemas of records that connectors move: the types of Kafka Connect, with its names and Debezium's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, Self, TypeAlias

ConnectType: TypeAlias = Literal[
    "int8",
    "int16",
    "int32",
    "int64",
    "float32",
    "float64",
    "boolean",
    "string",
    "bytes",
    "array",
    "map",
    "struct",
]

DECIMAL = "org.apache.kafka.connect.data.Decimal"
"""The name of decimal numbers: their values are of type `decimal.Decimal`, with the parameter ``scale``."""


class _NoDefault:
    """The type of `NO_DEFAULT`."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"

    def __reduce__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()
"""In place of a default value: there is none. None is a default value."""


class ConnectField(NamedTuple):
    """A field of a struct."""

    name: str
    schema: ConnectSchema


@dataclass(frozen=True, slots=True)
class ConnectSchema:
    """The schema of a value.

    Attributes:
        type: The type.
        name: The name of a logical type or of a struct, such as ``io.debezium.time.Date``.
        optional: Whether the value may be None.
        version: The version of the logical type.
        parameters: Further attributes of the logical type, such as the scale of decimal numbers.
        default: The default value.
        fields: The fields of a struct.
        items: The schema of the items of an array, or of the values of a map.
        keys: The schema of the keys of a map.

    >>> STRING.as_optional()
    ConnectSchema('string', optional=True)
    """

    type: ConnectType
    name: str | None = None
    optional: bool = False
    version: int | None = None
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)
    default: Any = field(default=NO_DEFAULT, hash=False)
    fields: tuple[ConnectField, ...] = ()
    items: ConnectSchema | None = None
    keys: ConnectSchema | None = None

    def __repr__(self) -> str:
        named = {"name": self.name, "optional": self.optional, "fields": self.fields, "items": self.items}
        shown = "".join(f", {name}={value!r}" for name, value in named.items() if value)
        return f"ConnectSchema({self.type!r}{shown})"

    def as_optional(self) -> Self:
        """Returns this schema for a value that may be None."""
        return replace(self, optional=True)


INT16: Final = ConnectSchema("int16")
INT32: Final = ConnectSchema("int32")
INT64: Final = ConnectSchema("int64")
FLOAT32: Final = ConnectSchema("float32")
FLOAT64: Final = ConnectSchema("float64")
BOOLEAN: Final = ConnectSchema("boolean")
STRING: Final = ConnectSchema("string")
BYTES: Final = ConnectSchema("bytes")


def struct_of(name: str | None, fields: Mapping[str, ConnectSchema], *, optional: bool = False) -> ConnectSchema:
    """Returns the schema of a struct.

    >>> struct_of("shop.Order.Key", {"id": INT64}).fields[0].name
    'id'
    """
    own = tuple(ConnectField(name, schema) for name, schema in fields.items())
    return ConnectSchema("struct", name=name, optional=optional, fields=own)


def array_of(items: ConnectSchema, *, optional: bool = False) -> ConnectSchema:
    """Returns the schema of an array."""
    return ConnectSchema("array", items=items, optional=optional)
