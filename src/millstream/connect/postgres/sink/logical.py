"""Reads values in the JSON form of Kafka Connect, `{"schema": …, "payload": …}`: logical types become Python's types.

Decimal numbers, dates and times have plain numbers or text in that form, and only the schema tells what they are.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

from millstream.connect.postgres.sink.columns import JsonText
from millstream.connect.postgres.sink.refusals import Refusal

Read: TypeAlias = Callable[[Mapping[str, Any], Any], Any]

_FORM = frozenset({"schema", "payload"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (a timestamp without time zone)


def from_connect(value: Any) -> Any:
    """Returns the value in Kafka Connect's JSON form with Python's types; any other value unchanged."""
    if type(value) is not dict or value.keys() != _FORM or not isinstance(value["schema"], dict | None):
        return value
    schema, payload = value["schema"], value["payload"]
    return payload if schema is None else read(schema, payload)


def read(schema: Mapping[str, Any], value: Any) -> Any:
    """Returns a value with Python's types.

    Raises:
        Refusal: The value does not match its schema, or Python has no such date.
    """
    if value is None:
        return None
    logical = _LOGICAL.get(schema.get("name") or "")
    kind = schema.get("type")
    try:
        if logical is not None:
            return logical(schema, value)
        if kind == "struct":
            return _read_struct(schema, value)
        if kind == "array":
            return [read(schema["items"], item) for item in value]
        if kind == "map" and isinstance(value, dict):
            return {name: read(schema["values"], item) for name, item in value.items()}
        if kind == "bytes" and isinstance(value, str):
            return base64.b64decode(value, validate=True)
        if kind in {"float", "double"} and type(value) is int:
            return float(value)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, ArithmeticError):
        raise Refusal(f"a value does not match its schema, {schema.get('name') or kind}, or is out of range") from None
    return value


def _read_struct(schema: Mapping[str, Any], value: Any) -> Any:
    fields = {field["field"]: field for field in schema["fields"]}
    return {name: read(fields[name], item) if name in fields else item for name, item in value.items()}


def _decimal(schema: Mapping[str, Any], value: Any) -> Any:
    return _unscaled(value, int(schema["parameters"]["scale"]))


def _variable_decimal(_schema: Mapping[str, Any], value: Any) -> Any:
    return _unscaled(value["value"], int(value["scale"]))


def _unscaled(text: str, scale: int) -> Decimal:
    whole = Decimal(int.from_bytes(base64.b64decode(text, validate=True), "big", signed=True)).as_tuple()
    return Decimal((whole.sign, whole.digits, -scale))  # exact; `scaleb` rounds to 28 digits


_INFINITY = {
    2**63 - 1: "infinity",
    -(2**63): "-infinity",
    9223372036825200000: "infinity",
    -9223372036832400000: "-infinity",
    2**31 - 1: "infinity",
    -(2**31): "-infinity",
}
"""The numbers with which Debezium represents the infinite timestamps and dates of PostgreSQL."""


def _date(_schema: Mapping[str, Any], value: Any) -> Any:
    if abs(value) >= 2**31 - 1 and value in _INFINITY:
        return _INFINITY[value]
    return date(1970, 1, 1) + timedelta(days=value)


def _timestamp(unit: timedelta, per_unit: int = 1) -> Read:
    def read_timestamp(_schema: Mapping[str, Any], value: Any) -> Any:
        if abs(value) > 2**62 and value in _INFINITY:
            return _INFINITY[value]
        return _NAIVE_EPOCH + value // per_unit * unit

    return read_timestamp


def _zoned(_schema: Mapping[str, Any], value: Any) -> Any:
    if isinstance(value, str):
        return value if value.endswith("infinity") else datetime.fromisoformat(value)
    return _EPOCH + timedelta(milliseconds=value)


def _time(unit: timedelta, per_unit: int = 1) -> Read:
    def read_time(_schema: Mapping[str, Any], value: Any) -> time:
        moment: datetime = _NAIVE_EPOCH + value // per_unit * unit
        return moment.time()

    return read_time


_MS, _US = timedelta(milliseconds=1), timedelta(microseconds=1)
_CONNECT, _TIMES, _DATA = "org.apache.kafka.connect.data", "io.debezium.time", "io.debezium.data"
_LOGICAL: dict[str, Read] = {
    f"{_CONNECT}.Decimal": _decimal,
    f"{_CONNECT}.Date": _date,
    f"{_CONNECT}.Time": _time(_MS),
    f"{_CONNECT}.Timestamp": _timestamp(_MS),
    f"{_TIMES}.Date": _date,
    f"{_TIMES}.Time": _time(_MS),
    f"{_TIMES}.MicroTime": _time(_US),
    f"{_TIMES}.NanoTime": _time(_US, 1_000),
    f"{_TIMES}.Timestamp": _timestamp(_MS),
    f"{_TIMES}.MicroTimestamp": _timestamp(_US),
    f"{_TIMES}.NanoTimestamp": _timestamp(_US, 1_000),
    f"{_TIMES}.ZonedTimestamp": _zoned,
    f"{_TIMES}.MicroDuration": lambda _schema, value: timedelta(microseconds=value),
    f"{_DATA}.VariableScaleDecimal": _variable_decimal,
    f"{_DATA}.Json": lambda _schema, value: JsonText(value),
    f"{_DATA}.Uuid": lambda _schema, value: UUID(value),
}
