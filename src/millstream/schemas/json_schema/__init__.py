"""JSON Schema: the serde, and schemas from types."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

from millstream.registry.api import Schema
from millstream.schemas.json_schema.from_types import schema_text
from millstream.schemas.json_schema.serde import JsonSchemaSerde
from millstream.schemas.json_text import schema_json
from millstream.schemas.libraries import library
from millstream.schemas.options import SchemaOptions, checked
from millstream.serde.api import Serde

__all__ = ["json_schema"]

T = TypeVar("T")


@overload
def json_schema(schema: type[T], *, validate: bool = ..., **options: Unpack[SchemaOptions]) -> Serde[T]: ...
@overload
def json_schema(
    schema: str | Path | dict[str, Any] | None = ..., *, validate: bool = ..., **options: Unpack[SchemaOptions]
) -> Serde[Any]: ...
def json_schema(schema: Any = None, *, validate: bool = True, **options: Unpack[SchemaOptions]) -> Serde[Any]:
    """Returns a serde for JSON with a JSON Schema.

    With a registry (the default), a record carries the id of its schema, in the format of Confluent's serializers.
    Values are validated when they are written and read. Patterns are matched in linear time, so those with look-around
    and back-references are refused; references to other addresses are refused, too.

    >>> ages = json_schema('{"type": "integer", "minimum": 0}', registry=None)
    >>> ages.serialize(5)
    b'5'
    >>> ages.deserialize(b"-1")
    Traceback (most recent call last):
    ...
    millstream.errors.DeserializationError: json-schema serde: cannot read b'-1': the value is less than the minimum of 0 - at `$`
      hint: was the topic written with another serde?

    Args:
        schema: A type (dataclass, msgspec.Struct, TypedDict, NamedTuple, pydantic model), whose schema is derived, and
            which the values have; or the text of a schema, the path of a ``.json`` file, or a schema as a dict: values
            are plain JSON data. Without one, values have the schema of their record; they are written with the latest
            schema of the subject, else with that of the topic from which they come.
        validate: Whether values are validated.
        **options: ``registry=None``: values without the id of a schema. ``references``: the schemas that the schema
            refers to. ``subject_name_strategy``, ``auto_register_schemas``, ``use_latest_version`` and
            ``normalize_schemas``, with the meaning and the defaults of the configuration keys.

    Raises:
        InvalidSchemaError: The schema is not valid, or a field of the type has no schema.
        SetupError: jsonschema-rs is not installed.
    """  # noqa: E501
    library("jsonschema_rs", "jsonschema-rs", "jsonschema")
    known = checked("json_schema", options, has_schema=schema is not None)
    if schema is None:
        return JsonSchemaSerde(None, known, validate=validate)
    if isinstance(schema, str | Path | dict):
        text = schema_json("json_schema", schema, ".json")
        return JsonSchemaSerde(Schema(text, "JSON", known.references), known, validate=validate)
    return JsonSchemaSerde(Schema(schema_text(schema), "JSON"), known, schema, validate=validate)
