"""Protobuf rows of answers as text, as test files have them."""

from __future__ import annotations

from typing import Any

from google.protobuf import text_format

from millstream.registry.api import Schema
from millstream.schemas.protobuf.descriptors import class_of
from millstream.sql.formats.numbers import from_base64
from millstream.sql.formats.protobuf_schemas import message_of


def message_text(row: dict[str, Any], schema: str) -> dict[str, Any]:
    """Returns a row whose message is text instead of bytes, as Java writes it: only with ASCII characters."""
    message = class_of(message_of(Schema(schema, "PROTOBUF"), (), None))
    made = message.FromString(from_base64(row["row"]["protobufBytes"]))
    return {"row": text_format.MessageToString(made, as_utf8=False)}
