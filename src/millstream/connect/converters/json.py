"""Writes records as JSON in the form of Kafka Connect's JsonConverter."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from millstream.connect.converters.api import Convert, Converter, Form, form_of_items
from millstream.connect.schema import DECIMAL, NO_DEFAULT, ConnectSchema
from millstream.errors import DeserializationError, SerializationError
from millstream.serde.api import Serde, SerdeContext
from millstream.text.escaping import error_text

_TYPES = {"float32": "float", "float64": "double"}
"""The names of types in JSON, where they differ."""


def unscaled_bytes(number: Decimal, scale: int) -> bytes:
    """Returns the unscaled value of a decimal number as big-endian bytes in two's complement, the least that hold it.

    >>> unscaled_bytes(Decimal("-1.5"), 2).hex()
    'ff6a'

    Raises:
        ValueError: The number has more digits after the point, or is not finite.
    """
    whole = _unscaled(number, scale) if number.is_finite() else None
    if whole is None:
        raise ValueError(f"{number} has no exact form with {scale} digits after the point")
    size = (whole + (whole < 0)).bit_length() // 8 + 1
    return whole.to_bytes(size, "big", signed=True)


def _unscaled(number: Decimal, scale: int) -> int | None:
    """The unscaled value, exactly; None if the number has more digits after the point.

    Methods of `Decimal` round to the precision of the context.
    """
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    whole = int("".join(map(str, digits)))
    shift = exponent + scale
    power: int = 10 ** abs(shift)
    if shift >= 0:
        whole *= power
    else:
        whole, rest = divmod(whole, power)
        if rest:
            return None
    return -whole if sign else whole


class JsonConverter(Converter):
    """JSON: plain, or with the schema in each record, as ``{"schema": …, "payload": …}``.

    Bytes are base64. Decimal numbers are the base64 of their unscaled value.

    Args:
        schemas: Whether records have their schema.
    """

    def __init__(self, *, schemas: bool) -> None:
        self._schemas = schemas

    def bind(self, context: SerdeContext) -> Convert:
        """Returns the function that converts values. It prepares each schema once."""
        encoder = msgspec.json.Encoder(enc_hook=_plain)
        if not self._schemas:
            return _plain_json(encoder)
        prepared: dict[int, tuple[ConnectSchema, bytes, Form | None]] = {}

        def convert(schema: ConnectSchema | None, value: Any) -> bytes | None:
            if schema is None:
                if value is None:
                    return None
                return b'{"schema":null,"payload":' + _encode(encoder, value) + b"}"
            known = prepared.get(id(schema))
            if known is None or known[0] is not schema:
                start = b'{"schema":' + encoder.encode(schema_json(schema)) + b',"payload":'
                known = prepared[id(schema)] = (schema, start, _form_of(schema))
            if value is None:
                return None
            _, start, form = known
            return start + _encode(encoder, value if form is None else form(value)) + b"}"

        return convert


class JsonWithSchema(Serde[Any]):
    """Reads JSON that has its schema beside it, as ``{"schema": …, "payload": …}``; and JSON without one."""

    name = "json-schemas"

    def serialize(self, value: Any) -> bytes | None:
        return None if value is None else b'{"schema":null,"payload":' + msgspec.json.encode(value) + b"}"

    def deserialize(self, data: bytes | None) -> Any:
        if data is None:
            return None
        try:
            value = msgspec.json.decode(data)
        except (ValueError, RecursionError) as error:
            raise DeserializationError(f"{self.name} serde: {error_text(error)}") from error
        if isinstance(value, dict) and value.keys() == {"schema", "payload"}:
            return value["payload"]
        return value


JSON_WITH_SCHEMA = JsonWithSchema()


def _plain_json(encoder: msgspec.json.Encoder) -> Convert:
    forms: dict[int, tuple[ConnectSchema, Form | None]] = {}

    def convert(schema: ConnectSchema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if schema is not None:
            known = forms.get(id(schema))
            if known is None or known[0] is not schema:
                known = forms[id(schema)] = (schema, _form_of(schema))
            if known[1] is not None:
                value = known[1](value)
        return _encode(encoder, value)

    return convert


def _encode(encoder: msgspec.json.Encoder, value: Any) -> bytes:
    try:
        return encoder.encode(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise SerializationError(f"json converter: {error_text(error)}") from error


def _plain(value: Any) -> Any:
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


def schema_json(schema: ConnectSchema, field: str | None = None) -> dict[str, Any]:
    """Returns the JSON form of a schema.

    >>> from millstream.connect.schema import INT64
    >>> schema_json(INT64, "id")
    {'type': 'int64', 'optional': False, 'field': 'id'}
    """
    form: dict[str, Any] = {"type": _TYPES.get(schema.type, schema.type)}
    if schema.type == "struct":
        form["fields"] = [schema_json(of, name) for name, of in schema.fields]
    if schema.keys is not None:
        form["keys"] = schema_json(schema.keys)
    if schema.items is not None:
        form["values" if schema.type == "map" else "items"] = schema_json(schema.items)
    form["optional"] = schema.optional
    if schema.name is not None:
        form["name"] = schema.name
    if schema.version is not None:
        form["version"] = schema.version
    if schema.parameters:
        form["parameters"] = dict(schema.parameters)
    if schema.default is not NO_DEFAULT and schema.default is not None:
        own = _form_of(schema)
        form["default"] = schema.default if own is None else own(schema.default)
    if field is not None:
        form["field"] = field
    return form


def _form_of(schema: ConnectSchema) -> Form | None:
    """Returns the function that gives values their JSON form; None if they have it already."""
    if schema.name == DECIMAL:
        scale = int(schema.parameters["scale"])

        def decimal(value: Any) -> Any:
            try:
                return None if value is None else base64.b64encode(unscaled_bytes(value, scale)).decode()
            except ValueError as error:
                raise SerializationError(f"json converter: {error}") from None

        return decimal
    if schema.type == "struct":
        forms = {name: form for name, of in schema.fields if (form := _form_of(of)) is not None}
        return _struct_form(forms) if forms else None
    return form_of_items(schema, _form_of)


def _struct_form(forms: Mapping[str, Form]) -> Form:
    def struct(value: Any) -> Any:
        if value is None:
            return None
        changed = dict(value)
        for name, form in forms.items():
            if changed.get(name) is not None:
                changed[name] = form(changed[name])
        return changed

    return struct
