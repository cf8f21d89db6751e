"""Avro: the serde, and schemas from types."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

from millstream.registry.api import Schema
from millstream.schemas.avro.from_types import schema_text
from millstream.schemas.avro.parsing import text_of
from millstream.schemas.avro.serde import AvroSerde
from millstream.schemas.libraries import library
from millstream.schemas.options import SchemaOptions, checked
from millstream.schemas.python_types import describe_type
from millstream.serde.api import Serde

__all__ = ["avro"]

T = TypeVar("T")


@overload
def avro(schema: type[T], *, namespace: str | None = ..., **options: Unpack[SchemaOptions]) -> Serde[T]: ...
@overload
def avro(
    schema: str | Path | dict[str, Any] | list[Any] | None = ...,
    *,
    namespace: str | None = ...,
    **options: Unpack[SchemaOptions],
) -> Serde[Any]: ...
def avro(schema: Any = None, *, namespace: str | None = None, **options: Unpack[SchemaOptions]) -> Serde[Any]:
    r"""Returns a serde for Avro.

    With a registry (the default), a record carries the id of the schema with which it was written, in the format of
    Confluent's serializers. A record that was written with another schema is read with the serde's own: new fields get
    their defaults, numbers are promoted, unknown fields are dropped.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Order:
    ...     id: str
    ...     quantity: int = 1
    >>> orders = avro(Order, registry=None)
    >>> orders.serialize(Order("o1", 3))
    b'\x04o1\x06'
    >>> orders.deserialize(b"\x04o1\x06")
    Order(id='o1', quantity=3)

    Args:
        schema: A type (dataclass, msgspec.Struct, TypedDict, NamedTuple, pydantic model), whose schema is derived, and
            which the values have; or the text of a schema, the path of a ``.avsc`` file, or a schema as a dict: values
            are dicts. Without one, values are dicts and have the schema of their record; they are written with the
            latest schema of the subject, else with that of the topic from which they come.
        namespace: The namespace of the records of a type.
        **options: ``registry=None``: values without the id of a schema. ``references``: the schemas that the schema
            refers to. ``subject_name_strategy``, ``auto_register_schemas``, ``use_latest_version`` and
            ``normalize_schemas``, with the meaning and the defaults of the configuration keys.

    Raises:
        InvalidSchemaError: The schema is not valid, or a field of the type has no schema.
        SetupError: fastavro is not installed.
    """
    library("fastavro", "fastavro", "avro")
    known = checked("avro", options, has_schema=schema is not None)
    if schema is None:
        return AvroSerde(None, known)
    if isinstance(schema, str | Path | dict | list):
        return AvroSerde(Schema(text_of(schema), "AVRO", known.references), known)
    described = describe_type(schema)
    return AvroSerde(Schema(schema_text(described, namespace), "AVRO"), known, schema, namespace)
