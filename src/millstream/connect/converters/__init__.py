"""Converters: they write the keys and values of sources as bytes, with or without their schemas."""

from __future__ import annotations

from typing import Any

from millstream.connect.converters.api import Converter, SerdeConverter
from millstream.connect.converters.avro import AvroConverter
from millstream.connect.converters.json import JsonConverter
from millstream.serde import serde_for

__all__ = ["Converter", "converter_for"]

_BY_NAME: dict[str, Converter] = {
    "json": JsonConverter(schemas=False),
    "json-schemas": JsonConverter(schemas=True),
    "avro": AvroConverter(),
}


def converter_for(given: Any, part: str) -> Converter:
    """Returns the converter for an argument of `App.connect`.

    Args:
        given: ``"json"``, ``"json-schemas"`` (with the schema in each record), ``"avro"`` (with the schema in the
            registry), a `Converter`, or a type or serde as for `App.stream`.
        part: ``key`` or ``value``, for errors.

    >>> converter_for("json", "value").bind(None)(None, {"id": 1})
    b'{"id":1}'
    """
    if isinstance(given, str) and given in _BY_NAME:
        return _BY_NAME[given]
    if isinstance(given, Converter):
        return given
    return SerdeConverter(serde_for(given, part))
