"""Describes the messages of Protobuf schemas."""

from __future__ import annotations

from typing import Any

from millstream.core.frozen import replace
from millstream.expr import description
from millstream.expr.description import UNKNOWN, Description, Limit
from millstream.expr.types import BIGINT, BOOLEAN, BYTES, DOUBLE, INT, STRING, DataType

# By the numbers of `FieldDescriptor.TYPE_…`. An enum is its number in Python.
_TYPES: dict[int, DataType] = {
    1: DOUBLE,
    2: DOUBLE,
    3: BIGINT,
    4: BIGINT,
    5: INT,
    6: BIGINT,
    7: BIGINT,
    8: BOOLEAN,
    9: STRING,
    12: BYTES,
    13: BIGINT,
    14: INT,
    15: INT,
    16: BIGINT,
    17: INT,
    18: BIGINT,
}


def describe_message(message: Any) -> Description:
    """Returns the description of the messages of a descriptor."""
    return _message(message, (), Limit())


def _message(message: Any, inside: tuple[str, ...], limit: Limit) -> Description:
    if not limit.allows(message.full_name, inside):
        return replace(UNKNOWN, name=message.full_name, nullable=False)
    within = (*inside, message.full_name)
    fields = [(field.name, _field(field, within, limit)) for field in message.fields]
    return description.record(message.full_name, fields)


def _field(field: Any, inside: tuple[str, ...], limit: Limit) -> Description:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = message.fields_by_name["key"], message.fields_by_name["value"]
        return description.mapping(_single(value, inside, limit), _TYPES[key.type])
    single = _single(field, inside, limit)
    if field.is_repeated:
        return description.array(single)
    return replace(single, nullable=field.has_presence and not field.is_required)


def _single(field: Any, inside: tuple[str, ...], limit: Limit) -> Description:
    if field.message_type is not None:
        return _message(field.message_type, inside, limit)
    return Description(_TYPES.get(field.type, UNKNOWN.type))
