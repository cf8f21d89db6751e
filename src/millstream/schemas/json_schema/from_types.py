"""JSON Schemas of Python types."""

from __future__ import annotations

import json
from typing import Any

from millstream.errors import InvalidSchemaError
from millstream.schemas.python_types import TAGS, describe_type, fields_of_class
from millstream.schemas.tags import tagged_attributes
from millstream.serde.json_codec import is_pydantic
from millstream.serde.json_serde import type_text

_ROOT = "#/$defs/"


def schema_text(python_type: Any) -> str:
    """Returns the JSON Schema of a type, as text.

    Raises:
        InvalidSchemaError: The type has no schema; the error names the field.
    """
    try:
        schema = _of_model(python_type) if is_pydantic(python_type) else _of_type(python_type)
    except (TypeError, ValueError, NameError, RecursionError) as error:
        describe_type(python_type)  # raises an error that names the field, if it is that
        raise InvalidSchemaError(f"{type_text(python_type)}: there is no JSON Schema for it: {error}") from error
    _add_tags(schema, python_type)
    # As in the schemas that Confluent's serializers derive: a version that admits any other property forbids all
    # later versions to declare one.
    for part in (schema, *schema.get("$defs", {}).values()):
        if part.get("type") == "object" and "properties" in part:
            part.setdefault("additionalProperties", False)
    return json.dumps(schema)


def _add_tags(schema: dict[str, Any], python_type: Any) -> None:
    """Adds the tags of fields to their properties."""
    for cls, attribute, tags in tagged_attributes(python_type):
        names = {own: name for own, name, *_ in fields_of_class(cls)}
        for title, part in ((schema.get("title"), schema), *schema.get("$defs", {}).items()):
            if title == cls.__name__:
                part.get("properties", {}).get(names.get(attribute), {})[TAGS] = tags


def _of_type(python_type: Any) -> dict[str, Any]:
    import msgspec

    schema = msgspec.json.schema(python_type)
    reference = schema.get("$ref", "")
    if not reference.startswith(_ROOT):
        return schema
    # The record itself, and not a reference to it: the title of the root is the name of the record.
    name, definitions = reference[len(_ROOT) :], schema["$defs"]
    record: dict[str, Any] = definitions[name]
    is_recursive = f'"{reference}"' in json.dumps(definitions)
    others = definitions if is_recursive else {key: value for key, value in definitions.items() if key != name}
    return {**record, "$defs": others} if others else record


def _of_model(python_type: Any) -> dict[str, Any]:
    from pydantic import PydanticUserError, TypeAdapter

    try:
        schema: dict[str, Any] = TypeAdapter(python_type).json_schema(by_alias=True)
    except PydanticUserError as error:
        raise TypeError(error.message.partition("\n")[0]) from error
    return schema
