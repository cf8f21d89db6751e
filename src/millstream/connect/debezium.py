"""Reads topics of change data capture, in Debezium's envelope, as rows."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, overload

import msgspec

from millstream.core.records import Headers
from millstream.errors import DeserializationError, SerializationError
from millstream.serde import serde_for
from millstream.serde.api import Serde, SerdeContext
from millstream.text.escaping import error_text

T = TypeVar("T")

_DELETED = "__deleted"
"""The field that Debezium's transform ExtractNewRecordState adds to rows."""

_WITH_SCHEMA = {"schema", "payload"}


@overload
def debezium(row: type[T], *, format: Any = ...) -> Serde[T]: ...
@overload
def debezium(row: None = ..., *, format: Any = ...) -> Serde[dict[str, Any]]: ...
def debezium(row: Any = None, *, format: Any = "json") -> Serde[Any]:
    """Returns a serde for values of change data capture: the row after the change, and None for a deleted row.

    It reads Debezium's envelope, with or without the schema in the record, and rows that Debezium's transform
    ExtractNewRecordState has unwrapped.

    >>> products = debezium()
    >>> products.deserialize(b'{"before": null, "after": {"id": 1, "name": "pen"}, "op": "c", "source": {}}')
    {'id': 1, 'name': 'pen'}
    >>> products.deserialize(b'{"before": {"id": 1, "name": "pen"}, "after": null, "op": "d", "source": {}}')

    Args:
        row: The type of the rows: a dataclass, msgspec.Struct, TypedDict or NamedTuple. Default: dicts.
        format: The format of the records: ``"json"``, or a serde such as `avro()`.
    """
    return DebeziumSerde(serde_for(format, "value"), row)


@overload
def debezium_key(*columns: str, type: type[T], format: Any = ..., unwrap_schema: bool = ...) -> Serde[T]: ...
@overload
def debezium_key(*columns: str, type: None = ..., format: Any = ..., unwrap_schema: bool = ...) -> Serde[Any]: ...
def debezium_key(*columns: str, type: Any = None, format: Any = "json", unwrap_schema: bool = False) -> Serde[Any]:
    """Returns a serde for keys of change data capture.

    A key of one column is the value of the column, one of several columns is a tuple. Without names, a key is a dict.
    The serde writes the bytes that the topic has, so that joins and aggregations find the partitions of the keys.

    >>> products = debezium_key("id", type=int)
    >>> products.deserialize(b'{"id":7}')
    7
    >>> products.serialize(7)
    b'{"id":7}'
    >>> debezium_key("shop", "id").deserialize(b'{"shop":1,"id":7}')
    (1, 7)

    Args:
        columns: The columns of the key, in their order in the topic.
        type: The type of a key of one column.
        format: The format of the keys: ``"json"``, or a serde such as `avro()`.
        unwrap_schema: Whether keys may have their schema beside them, as JSON. They are written without it, to other
            partitions: repartition the stream of the topic before it becomes a table.
    """
    return DebeziumKeySerde(serde_for(format, "key"), columns, type, unwrap_schema=unwrap_schema)


class DebeziumSerde(Serde[T], Generic[T]):
    """Values of change data capture; see `debezium`. It writes rows as JSON envelopes."""

    name = "debezium"

    def __init__(self, inner: Serde[Any], row: type[T] | None) -> None:
        self._inner = inner
        self._row = row
        self.python_type = dict[str, Any] if row is None else row
        self.uses_headers = inner.uses_headers

    def bind(self, context: SerdeContext) -> Serde[T]:
        return DebeziumSerde(self._inner.bind(context), self._row)

    def serialize(self, value: T | None) -> bytes | None:
        if value is None:
            return None
        try:
            return msgspec.json.encode({"after": value, "op": "r"})
        except (TypeError, ValueError) as error:
            raise SerializationError(f"{self.name} serde: {error_text(error)}") from error

    def deserialize(self, data: bytes | None) -> T | None:
        return self.deserialize_with_headers(data, ())

    def deserialize_with_headers(self, data: bytes | None, headers: Headers) -> T | None:
        if data is None:
            return None
        row = _row_of(_unwrapped(self.name, self._inner, data, headers))
        if row is None or self._row is None:
            return row  # type: ignore[no-any-return]
        return _converted(self.name, row, self._row)


class DebeziumKeySerde(Serde[T], Generic[T]):
    """Keys of change data capture; see `debezium_key`."""

    name = "debezium-key"

    def __init__(
        self, inner: Serde[Any], columns: tuple[str, ...], of: type[T] | None, *, unwrap_schema: bool = False
    ) -> None:
        self._inner = inner
        self._columns = columns
        self._type = of
        self._unwraps = unwrap_schema
        self.python_type = object if of is None else of
        self.uses_headers = inner.uses_headers

    def bind(self, context: SerdeContext) -> Serde[T]:
        return DebeziumKeySerde(self._inner.bind(context), self._columns, self._type, unwrap_schema=self._unwraps)

    def serialize(self, value: T | None) -> bytes | None:
        if value is None:
            return None
        columns = self._columns
        if not columns:
            return self._inner.serialize(value)
        parts: Any = (value,) if len(columns) == 1 else value
        if len(columns) > 1 and not (isinstance(value, tuple | list) and len(value) == len(columns)):
            raise SerializationError(f"{self.name} serde: the key is {value!r}, not a tuple of {', '.join(columns)}")
        return self._inner.serialize(dict(zip(columns, parts, strict=True)))

    def deserialize(self, data: bytes | None) -> T | None:
        return self.deserialize_with_headers(data, ())

    def deserialize_with_headers(self, data: bytes | None, headers: Headers) -> T | None:
        if data is None:
            return None
        key = _unwrapped(self.name, self._inner, data, headers)
        if not self._unwraps and data.startswith(b'{"schema":'):
            raise DeserializationError(
                f"{self.name} serde: the key has its schema beside it",
                hint="have the connector write keys without schemas (key.converter.schemas.enable=false); or read the "
                "topic as a stream with debezium_key(…, unwrap_schema=True), then .repartition().to_table()",
            )
        columns = self._columns
        if not columns:
            return key  # type: ignore[no-any-return]
        if not isinstance(key, dict) or key.keys() != set(columns):
            has = ", ".join(key) if isinstance(key, dict) else f"a {type(key).__name__}"
            raise DeserializationError(
                f"{self.name} serde: the key has {has}, and not {', '.join(columns)}",
                hint="name the columns of the key: debezium_key('id')",
            )
        if len(columns) > 1:
            return tuple(key[name] for name in columns)  # type: ignore[return-value]
        part = key[columns[0]]
        return part if self._type is None else _converted(self.name, part, self._type)


def _unwrapped(name: str, inner: Serde[Any], data: bytes, headers: Headers) -> Any:
    """Returns the value of a record: without the schema that a JSON record may have beside it.

    Stores keep rows as JSON also if the topic has another format.
    """
    if data[:1] == b"{":
        try:
            value = msgspec.json.decode(data)
        except (ValueError, RecursionError) as error:
            raise DeserializationError(f"{name} serde: {error_text(error)}") from error
    elif inner.uses_headers:
        value = inner.deserialize_with_headers(data, headers)
    else:
        value = inner.deserialize(data)
    if isinstance(value, dict) and value.keys() == _WITH_SCHEMA:
        return value["payload"]
    return value


def _row_of(value: Any) -> Any:
    """The row after the change; None for a deleted row, and for what changes no row, such as a truncation."""
    if not isinstance(value, dict):
        if value is None:
            return None
        raise DeserializationError(
            f"debezium serde: the value is a {type(value).__name__}, neither an envelope nor a row",
            hint="is it a topic of change data capture?",
        )
    if "op" in value and "after" in value:
        return value["after"]
    if "op" in value and "before" in value and "source" in value:  # an envelope without nulls
        return None
    if _DELETED in value:
        row = {name: item for name, item in value.items() if name != _DELETED}
        return None if str(value[_DELETED]).lower() == "true" else row
    return value


def _converted(name: str, value: Any, to: type[T]) -> T:
    try:
        return msgspec.convert(value, to, strict=False)
    except (ValueError, TypeError) as error:
        raise DeserializationError(f"{name} serde: {error_text(error)}", hint=f"the type is {to}") from error
