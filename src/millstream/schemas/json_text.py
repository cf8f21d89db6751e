"""Schemas that are JSON: their text, and their data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from millstream.errors import InvalidSchemaError
from millstream.text.escaping import plain_text

_DEEPEST = 300
"""The nesting of the JSON of a schema. The libraries parse schemas by recursion, outside of Python."""


def schema_json(serde: str, schema: Any, ending: str) -> str:
    """Returns the text of a schema: of a text, a path, or the JSON of a schema as Python data.

    Raises:
        InvalidSchemaError: The file cannot be read.
    """
    if isinstance(schema, str) and schema.lstrip()[:1] in {"{", "[", '"'}:
        return schema
    if isinstance(schema, str | Path):
        return read_schema(serde, schema, f"the JSON text of a schema, or the path of a {ending} file")
    return json.dumps(schema)


def read_schema(serde: str, path: str | Path, expected: str) -> str:
    """Reads a file with a schema.

    Raises:
        InvalidSchemaError: It cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InvalidSchemaError(
            f"{serde}: {str(path)[:200]!r} is neither a schema nor a file that can be read: {plain_text(error)}",
            hint=f"give {expected}",
        ) from None


def load_schema_json(text: str) -> Any:
    """Returns the JSON of a schema as data.

    Raises:
        InvalidSchemaError: It is nested too deeply.
        ValueError: It is not JSON.
    """
    data = json.loads(text)
    parts, depth = [data], 0
    while parts:
        depth += 1
        if depth > _DEEPEST:
            raise InvalidSchemaError(f"the schema is nested more than {_DEEPEST} levels deep")
        parts = [
            item
            for part in parts
            if isinstance(part, dict | list)
            for item in (part.values() if isinstance(part, dict) else part)
        ]
    return data
