"""Writes records as Avro with the schema in the registry, in the form of Confluent's AvroConverter."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from millstream.connect.converters.api import Convert, Converter, Form, form_of_items
from millstream.connect.schema import DECIMAL, NO_DEFAULT, ConnectSchema
from millstream.errors import SerializationError
from millstream.serde.api import SerdeContext

_PRIMITIVES = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
_LOGICAL = {
    DECIMAL: "decimal",
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}
_PRECISION = 64
"""The precision of decimal numbers whose schema does not give it."""

_ILLEGAL = re.compile(r"[^A-Za-z0-9_]")


class AvroConverter(Converter):
    """Avro with the id of the schema, which is registered under the subject of the topic."""

    def bind(self, context: SerdeContext) -> Convert:
        """Returns the function that converts values. It registers each schema once."""
        from millstream.schemas.avro import avro

        prepared: dict[int, tuple[ConnectSchema, Callable[[Any], bytes | None], Form | None]] = {}

        def convert(schema: ConnectSchema | None, value: Any) -> bytes | None:
            if value is None:
                return None
            if schema is None:
                raise SerializationError(
                    f"avro converter: a record for topic {context.topic} has no schema",
                    hint="use the converter json, or give the record key_schema and value_schema",
                )
            known = prepared.get(id(schema))
            if known is None or known[0] is not schema:
                serde = avro(avro_schema(schema)).bind(context)
                known = prepared[id(schema)] = (schema, serde.serialize, _form_of(schema))
            _, serialize, form = known
            return serialize(value if form is None else form(value))

        return convert


def legal_name(name: str) -> str:
    """Returns a name that Avro allows: other characters become underscores.

    >>> legal_name("my-shop.public.2fa")
    'my_shop.public._2fa'
    """
    parts = (_ILLEGAL.sub("_", part) for part in name.split("."))
    return ".".join(f"_{part}" if not part or part[0].isdigit() else part for part in parts)


def avro_schema(schema: ConnectSchema) -> Any:
    """Returns the Avro schema of a schema, as JSON values.

    >>> from millstream.connect.schema import INT64, STRING, struct_of
    >>> avro_schema(struct_of("shop.Row", {"id": INT64, "name": STRING.as_optional()}))["fields"][1]
    {'name': 'name', 'type': ['null', 'string'], 'default': None}
    """
    return _avro(schema, set())


def _avro(schema: ConnectSchema, named: set[str]) -> Any:
    form = _required(schema, named)
    if not schema.optional:
        return form
    has_default = schema.default is not NO_DEFAULT and schema.default is not None
    return [form, "null"] if has_default else ["null", form]


def _required(schema: ConnectSchema, named: set[str]) -> Any:
    if schema.type == "struct":
        return _record(schema, named)
    extra = _connect_attributes(schema)
    if schema.type == "array":
        assert schema.items is not None
        return {"type": "array", "items": _avro(schema.items, named), **extra}
    if schema.type == "map":
        assert schema.items is not None
        if schema.keys is None or schema.keys.type != "string" or schema.keys.optional:
            raise SerializationError(
                "avro converter: a map has keys that are not strings", hint="use a list of structs"
            )
        return {"type": "map", "values": _avro(schema.items, named), **extra}
    primitive = _PRIMITIVES[schema.type]
    if schema.type in {"int8", "int16"}:
        extra["connect.type"] = schema.type
    return {"type": primitive, **extra} if extra else primitive


def _connect_attributes(schema: ConnectSchema) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if schema.name is not None:
        extra["connect.name"] = schema.name
        if (logical := _LOGICAL.get(schema.name)) is not None:
            extra["logicalType"] = logical
        if schema.name == DECIMAL:
            extra["scale"] = int(schema.parameters["scale"])
            extra["precision"] = int(schema.parameters.get("connect.decimal.precision", _PRECISION))
    if schema.version is not None:
        extra["connect.version"] = schema.version
    if schema.parameters:
        extra["connect.parameters"] = dict(schema.parameters)
    return extra


def _record(schema: ConnectSchema, named: set[str]) -> Any:
    name = legal_name(schema.name or "ConnectDefault")
    if name in named:
        return name
    named.add(name)
    namespace, _, short = name.rpartition(".")
    fields = []
    for field in schema.fields:
        form: dict[str, Any] = {"name": legal_name(field.name), "type": _avro(field.schema, named)}
        default = field.schema.default
        if default is not NO_DEFAULT and default is not None:
            own = _default(field.schema, default)
            if own is not None:
                form["default"] = own
            elif field.schema.optional:
                form["type"] = list(reversed(form["type"]))
                form["default"] = None
        elif field.schema.optional:
            form["default"] = None
        fields.append(form)
    record: dict[str, Any] = {"type": "record", "name": short, "fields": fields}
    if namespace:
        record["namespace"] = namespace
    if schema.name is not None:
        record["connect.name"] = name
    if schema.version is not None:
        record["connect.version"] = schema.version
    return record


def _default(schema: ConnectSchema, default: Any) -> Any:
    """The JSON form of a default value; None if it has none."""
    if isinstance(default, (bool, int, float, str)) and schema.name != DECIMAL:
        return default
    return None


def _form_of(schema: ConnectSchema) -> Form | None:
    """Returns the function that gives values the form of their Avro schema; None if they have it already.

    Fields get the names that Avro allows.
    """
    if schema.type == "struct":
        forms = [(name, legal_name(name), _form_of(of)) for name, of in schema.fields]
        if all(name == legal and form is None for name, legal, form in forms):
            return None
        return lambda value: (
            None
            if value is None
            else {legal: value.get(name) if form is None else form(value.get(name)) for name, legal, form in forms}
        )
    return form_of_items(schema, _form_of)
