"""The JSON Schema serde: msgspec encodes and decodes, jsonschema-rs validates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar, cast

from millstream.errors import InvalidSchemaError
from millstream.expr.description import Description
from millstream.registry.api import Schema, SchemaType
from millstream.schemas.canonical import in_order_of
from millstream.schemas.json_schema.description import describe_json
from millstream.schemas.json_text import load_schema_json
from millstream.schemas.libraries import library
from millstream.schemas.options import SerdeOptions
from millstream.schemas.serde import Decode, Encode, Parts, SchemaSerde
from millstream.serde.json_serde import JSON, json_of
from millstream.text.escaping import plain_text

T = TypeVar("T")
Validate = Callable[[Any], None]

_BASE = "json-schema:///"
"""Where jsonschema-rs looks for references of a schema without an id."""


class JsonSchemaSerde(SchemaSerde[T], Generic[T]):
    """JSON that is validated; see :func:`json_schema`."""

    name = "json-schema"
    type: ClassVar[SchemaType] = "JSON"

    def __init__(
        self, schema: Schema | None, options: SerdeOptions, python_type: object = object, *, validate: bool = True
    ) -> None:
        super().__init__(schema, options, python_type)
        self._validate = validate
        self._title: str | None = None
        if schema is not None:
            self._title = _title(schema)
            if not schema.references:
                validator(schema, ())  # a wrong schema is an error now

    def _record_name(self) -> str | None:
        return self._title

    def describe_values(self) -> Description | None:
        return None if self.schema is None else describe_json(load_schema_json(self.schema.text))

    def _encoder(self, schema: Schema, parts: Parts, prefix: bytes) -> Encode:
        write = json_of(self.python_type).serialize
        check = validator(schema, parts) if self._validate else None
        is_typed = self.python_type is not object
        properties = load_schema_json(schema.text) if self.is_key and not is_typed else None

        def encode(value: Any) -> bytes:
            if check is not None and not is_typed:
                check(value)
            if properties is not None:
                value = in_order_of(properties, value)
            data = cast("bytes", write(value))
            if check is not None and is_typed:
                check(JSON.deserialize(data))
            return prefix + data

        return encode

    def _decoder(self, schema: Schema, parts: Parts, own: Parts, skip: int) -> Decode:
        read = json_of(self.python_type).deserialize
        if self.python_type is not object or not self._validate:  # decoding into the type validates
            return lambda data: read(data[skip:])
        check = validator(schema, parts) if self.schema is None else validator(self.schema, own)

        def decode(data: bytes) -> Any:
            value = read(data[skip:])
            check(value)
            return value

        return decode


def validator(schema: Schema, parts: Parts) -> Validate:
    """Returns the function that validates plain JSON data; it raises ValueError.

    Only the schemas of references are resolved: nothing is fetched. Patterns are matched in linear time.

    Raises:
        InvalidSchemaError: It is not a valid schema.
    """
    rs = library("jsonschema_rs", "jsonschema-rs", "jsonschema")
    try:
        retrieve = _retriever({name: load_schema_json(part.text) for name, part in parts})
        validate = rs.validator_for(
            load_schema_json(schema.text), retriever=retrieve, pattern_options=rs.RegexOptions(), mask="the value"
        ).validate
    except InvalidSchemaError:
        raise
    except (ValueError, RecursionError) as error:
        reason = plain_text(error).partition("\n")[0]
        raise InvalidSchemaError(f"not a valid JSON Schema: {reason}") from error

    def check(value: Any) -> None:
        try:
            validate(value)
        except rs.ValidationError as error:
            path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
            raise ValueError(f"{error.message} - at `${path}`") from None

    return check


def _retriever(schemas: dict[str, Any]) -> Callable[[str], Any]:
    """Returns the function that finds the schema of a URI among the references."""

    def retrieve(uri: str) -> Any:
        name = uri.removeprefix(_BASE)
        for reference, schema in schemas.items():
            if reference in {uri, name} or uri.endswith(f"/{reference}"):
                return schema
        raise ValueError(f"there is no reference named {name}")

    return retrieve


def _title(schema: Schema) -> str | None:
    try:
        data = load_schema_json(schema.text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchemaError(f"not a valid JSON Schema: {plain_text(error)}") from error
    title = data.get("title") if isinstance(data, dict) else None
    return title if isinstance(title, str) else None
