"""Values of rows as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from millstream.sql.formats.numbers import to_base64
from millstream.sql.functions.java.calendar import date_text, time_text, timestamp_text
from millstream.sql.functions.java.text import double_text
from millstream.sql.types import BYTES, DATE, DOUBLE, TIME, TIMESTAMP, ArrayType, MapType, SqlType, StructType

_TIMES: dict[SqlType, Callable[[int], str]] = {DATE: date_text, TIME: time_text, TIMESTAMP: timestamp_text}


def json_value(value: Any, type_: SqlType) -> Any:
    """Returns a value as JSON has it. A DECIMAL stays an exact number; a time is text.

    >>> json_value([1, None], ArrayType(DATE))
    ['1970-01-02', None]
    """
    if value is None:
        return None
    match type_:
        case ArrayType():
            return [json_value(item, type_.element) for item in value]
        case MapType():
            return {_key(key, type_.key): json_value(item, type_.value) for key, item in value.items()}
        case StructType():
            return {name: json_value(value[name], part) for name, part in type_.fields}
    if type_ == BYTES:
        return to_base64(value)
    if type_ == DOUBLE and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    text = _TIMES.get(type_)
    return value if text is None else text(value)


def json_text(value: Any) -> str:
    """Returns the compact text of a value that `json_value` made; exact numbers keep their digits, doubles are Java's.

    >>> from decimal import Decimal
    >>> json_text({"a": [Decimal("1.50"), 1e10, None]})
    '{"a":[1.50,1.0E10,null]}'
    """
    return msgspec.json.encode(_raw(value)).decode()


def _raw(value: Any) -> Any:
    match value:
        case Decimal():
            return msgspec.Raw(format(value, "f").encode())
        case float():
            return msgspec.Raw(double_text(value).encode())
        case dict():
            return {name: _raw(item) for name, item in value.items()}
        case list():
            return [_raw(item) for item in value]
    return value


def _key(key: Any, type_: SqlType) -> str:
    return "null" if key is None else str(json_value(key, type_))
