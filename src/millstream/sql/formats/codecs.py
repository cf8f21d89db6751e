"""Codecs: from rows and keys to bytes and back, in a format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, Self

from millstream.errors import DeserializationError, SchemaError, SerdeError, SerializationError
from millstream.schemas.registries import ApplicationRegistry
from millstream.serde import serde_for
from millstream.serde.api import Serde, SerdeContext
from millstream.serde.error_messages import shorten
from millstream.sql.catalog.sources import Column, FormatInfo
from millstream.sql.formats.declarations import DELIMITER, format_of
from millstream.sql.formats.rows import Values, joiner, splitter
from millstream.sql.types import BIGINT, BYTES, INTEGER, STRING, SqlType

_HASHABLE = (INTEGER, BIGINT, STRING, BYTES)
_LIKE: dict[SqlType, Serde[Any]] = {
    INTEGER: serde_for("int", "key"),
    BIGINT: serde_for("long", "key"),
    STRING: serde_for("string", "key"),
}
"""Serdes that treat valid keys in KAFKA format in the same way, many at once."""
Encode = Callable[[Values], bytes | None]
Decode = Callable[[bytes], Values | None]
WriteItem = Callable[[Any], bytes | None]
ReadItem = Callable[[bytes], Any]
WriteItems = Callable[[Collection[Any]], list[bytes | None]]
ReadItems = Callable[[Collection[bytes | None]], list[Any]]


class Codec:
    """Writes rows or keys of columns in a format, and reads them.

    Values are dicts of columns; None is a tombstone. Keys are None without columns, the bare value of one column, or a
    tuple. Another process can unpickle a codec: it holds neither a client nor a secret.
    """

    def __init__(
        self,
        spec: FormatInfo,
        columns: Sequence[Column],
        *,
        is_key: bool,
        topic: str | None = None,
        registry: ApplicationRegistry | None = None,
    ) -> None:
        self.spec = spec
        self.format = format_of(spec.name)
        self.columns = tuple(columns)
        self.is_key = is_key
        self.topic = topic
        self.registry = registry
        self.wrapped = self.format.wraps(self.columns, spec.wrap, is_key=is_key)
        self._split = splitter(self.columns, is_key=is_key)
        self._join = joiner(self.columns, is_key=is_key)
        self._encode: Encode
        self._decode: Decode
        self._nothing = not self.columns and (is_key or spec.name == "NONE")
        self._encode, self._decode = _functions(self)
        self._write, self._read, self._write_all, self._read_all = _item_functions(self)

    def encode(self, item: Any) -> bytes | None:
        """Returns the bytes of a row or key; None for None.

        Raises:
            SerializationError: The format does not support a value.
        """
        if item is None or self._nothing:
            return None
        return self._written(item, self._write)

    def encode_all(self, items: Collection[Any]) -> list[bytes | None]:
        """Returns the bytes of rows or keys.

        Raises:
            SerializationError: The format does not support a value.
        """
        if not self._nothing:
            with suppress(Exception):  # one by one, the first error is raised as it must be
                return self._write_all(items)
        return [self.encode(item) for item in items]

    def encode_values(self, values: Values) -> bytes | None:
        """Returns the bytes of the values of the columns, in order; a key whose only column is NULL is written too.

        Raises:
            SerializationError: The format does not support a value.
        """
        return self._written(values, self._encode)

    def _written(self, item: Any, write: Callable[[Any], bytes | None]) -> bytes | None:
        try:
            return write(item)
        except (SerdeError, SchemaError):
            raise
        except Exception as error:  # the libraries of the formats raise many types
            side = "key" if self.is_key else "value"
            raise SerializationError(
                f"{self.spec.name} format: cannot write the {side} {shorten(item)}: {_reason(error)}"
            ) from error

    def decode(self, data: bytes | None) -> Any:
        """Returns the row or key of bytes; None for None.

        Raises:
            DeserializationError: The bytes are not in the format, or do not fit the columns.
        """
        if data is None or self._nothing:
            return None
        try:
            return self._read(data)
        except (SerdeError, SchemaError):
            raise
        except Exception as error:
            side = "key" if self.is_key else "value"
            raise DeserializationError(
                f"{self.spec.name} format: cannot read the {side} {shorten(data)}: {_reason(error)}"
            ) from error

    def decode_all(self, data: Collection[bytes | None]) -> list[Any]:
        """Returns the rows or keys of several byte strings.

        Raises:
            DeserializationError: One of them is not in the format, or does not fit the columns.
        """
        if not self._nothing:
            with suppress(Exception):  # likewise
                return self._read_all(data)
        return [self.decode(item) for item in data]

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _codec, (self.spec, self.columns, self.is_key, self.topic, self.registry)


def _codec(
    spec: FormatInfo,
    columns: tuple[Column, ...],
    is_key: bool,
    topic: str | None,
    registry: ApplicationRegistry | None,
) -> Codec:
    return Codec(spec, columns, is_key=is_key, topic=topic, registry=registry)


def codec(
    spec: FormatInfo,
    columns: Sequence[Column],
    *,
    is_key: bool,
    topic: str | None = None,
    registry: ApplicationRegistry | None = None,
) -> Codec:
    """Returns the codec of columns in a format.

    >>> from millstream.sql.types import DOUBLE, INTEGER
    >>> made = codec(FormatInfo("JSON"), (Column("A", INTEGER), Column("B", DOUBLE)), is_key=False)
    >>> made.encode({"A": 1, "B": 1e7})
    b'{"A":1,"B":1.0E7}'
    >>> made.decode(b'{"a": "2"}')
    {'A': 2, 'B': None}

    Args:
        spec: The format.
        columns: The columns.
        is_key: They are key columns.
        topic: The topic, for the subject of a schema.
        registry: The registry of schemas, for the formats that use one.

    Raises:
        SqlStatementError: There is no such format.
    """
    return Codec(spec, columns, is_key=is_key, topic=topic, registry=registry)


def _functions(made: Codec) -> tuple[Encode, Decode]:
    name, columns = made.spec.name.upper(), made.columns
    if made._nothing:
        return lambda _values: None, lambda _data: None
    if name == "JSON":
        from millstream.sql.formats.json_format import json_decoder, json_encoder  # noqa: PLC0415  (the library of a format)

        return json_encoder(columns, wrapped=made.wrapped), json_decoder(columns, wrapped=made.wrapped)
    if name == "DELIMITED":
        from millstream.sql.formats.delimited import delimited_decoder, delimited_encoder  # noqa: PLC0415  (the library of a format)

        delimiter = dict(made.spec.properties).get(DELIMITER, ",")
        return delimited_encoder(columns, delimiter), delimited_decoder(columns, delimiter)
    if name == "KAFKA":
        return _kafka(columns)
    from millstream.sql.formats.with_schemas import schema_functions  # noqa: PLC0415  (the library of a format)

    return schema_functions(made)


def _item_functions(made: Codec) -> tuple[WriteItem, ReadItem, WriteItems, ReadItems]:
    """Returns the functions that write and read a row or key that is not None, and several that may be."""
    name, encode, decode, split, join = made.spec.name.upper(), made._encode, made._decode, made._split, made._join

    def write(item: Any) -> bytes | None:
        return encode(split(item))

    def read(data: bytes) -> Any:
        values = decode(data)
        return None if values is None else join(values)

    if name == "JSON" and made.wrapped and not made.is_key:
        from millstream.sql.formats.json_rows import JsonRows  # noqa: PLC0415  (the library of a format)

        rows = JsonRows(made.columns)
        return rows.write, rows.read, rows.write_all, rows.read_all
    if name == "KAFKA" and made.is_key and made.columns and made.columns[0].type in _LIKE:
        like = _LIKE[made.columns[0].type]
        return write, read, like.serialize_all, like.deserialize_all
    return write, read, _each(write), _each(read)


def _each(function: Callable[[Any], Any]) -> Callable[[Collection[Any]], list[Any]]:
    return lambda items: [None if item is None else function(item) for item in items]


def _kafka(columns: tuple[Column, ...]) -> tuple[Encode, Decode]:
    from millstream.sql.formats.kafka import kafka_decoder, kafka_encoder  # noqa: PLC0415  (the library of a format)

    if not columns:  # values without columns
        return lambda _values: None, lambda _data: ()
    write, read = kafka_encoder(columns[0].type), kafka_decoder(columns[0].type)
    return lambda values: None if values[0] is None else write(values[0]), lambda data: (read(data),)


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return f"there is no value of column {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__


class FormatSerde(Serde[Any]):
    """A codec as a serde, for topics and stores."""

    def __init__(
        self, spec: FormatInfo, columns: Sequence[Column], *, is_key: bool, context: SerdeContext | None = None
    ) -> None:
        self.spec = spec
        self.columns = tuple(columns)
        self.is_key = is_key
        self.context = context
        side = "key" if is_key else "value"
        options = [f"{name}={value}" for name, value in spec.properties]
        if spec.wrap is not None:
            options.append(f"wrap={spec.wrap}")
        if spec.schema_id is not None:
            options.append(f"schema={spec.schema_id}")
        shown = "; ".join((", ".join(map(str, self.columns)), *options))
        self.name = f"sql-{spec.name.lower()}-{side}<{shown}>"
        topic, registry = (None, None) if context is None else (context.topic, context.registry)
        self.codec = Codec(spec, self.columns, is_key=is_key, topic=topic, registry=registry)
        # Stores keep such keys as they are. A text may have several forms: bytes that are not UTF-8 are replaced.
        self.immutable = self.hashable = (
            spec.name == "KAFKA" and is_key and bool(self.columns) and self.columns[0].type in _HASHABLE
        )
        self.exact = self.hashable and self.columns[0].type != STRING

    def serialize(self, value: Any) -> bytes | None:
        """Returns the bytes of a row or key."""
        return self.codec.encode(value)

    def deserialize(self, data: bytes | None) -> Any:
        """Returns the row or key of bytes."""
        return self.codec.decode(data)

    def serialize_all(self, values: Collection[Any]) -> list[bytes | None]:
        """Returns the bytes of rows or keys."""
        return self.codec.encode_all(values)

    def deserialize_all(self, data: Collection[bytes | None]) -> list[Any]:
        """Returns the rows or keys of several byte strings."""
        return self.codec.decode_all(data)

    def bind(self, context: SerdeContext) -> Self | FormatSerde:
        """Returns the serde for a topic: schemas have their subject by it."""
        if not self.codec.format.infers:
            return self
        if self.context is not None and context.registry is None:
            context = context._replace(registry=self.context.registry)
        return FormatSerde(self.spec, self.columns, is_key=self.is_key, context=context)

    def __eq__(self, other: object) -> bool:
        return type(other) is FormatSerde and self.__reduce__()[1] == other.__reduce__()[1]

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _format_serde, (self.spec, self.columns, self.is_key, self.context)


def _format_serde(
    spec: FormatInfo, columns: tuple[Column, ...], is_key: bool, context: SerdeContext | None
) -> FormatSerde:
    return FormatSerde(spec, columns, is_key=is_key, context=context)
