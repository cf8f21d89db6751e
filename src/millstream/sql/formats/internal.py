"""The form of SQL rows in stores and repartition topics: MessagePack, exact for every type.

A row is the array of its values in the order of the columns. DECIMAL is its text, and STRUCT is the array of its
fields: the static types tell how to read them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from millstream.serde.api import Serde
from millstream.serde.error_messages import cannot_read, cannot_write
from millstream.sql.catalog.sources import Column
from millstream.sql.formats.rows import Convert, Join, Split, joiner, splitter
from millstream.sql.types import DOUBLE, ArrayType, DecimalType, MapType, SqlType, StructType


class RowSerde(Serde[Any]):
    """Writes rows (dicts) or keys (bare values, tuples) of SQL exactly.

    >>> from millstream.sql.types import DOUBLE, INTEGER
    >>> serde = RowSerde((Column("A", INTEGER), Column("B", DOUBLE)), is_key=False)
    >>> serde.deserialize(serde.serialize({"A": 1, "B": None}))
    {'A': 1, 'B': None}
    """

    def __init__(self, columns: Sequence[Column], *, is_key: bool) -> None:
        self.columns = tuple(columns)
        self.is_key = is_key
        self.name = f"sql-{'key' if is_key else 'row'}<{', '.join(map(str, columns))}>"
        plain = all(not c.type.parts and c.type != DOUBLE and not isinstance(c.type, DecimalType) for c in columns)
        self.exact = True
        self.immutable = self.hashable = is_key and plain
        self._write = _encoder(self.columns, splitter(columns, is_key=is_key))
        self._read = _decoder(self.columns, joiner(columns, is_key=is_key))

    def serialize(self, value: Any) -> bytes | None:
        """Returns the bytes of a row or key."""
        if value is None:
            return None
        try:
            return self._write(value)
        except Exception as error:  # a value that is not of the type of its column
            raise cannot_write(self.name, value, _reason(error)) from error

    def deserialize(self, data: bytes | None) -> Any:
        """Returns the row or key of bytes."""
        if data is None:
            return None
        try:
            return self._read(data)
        except Exception as error:
            raise cannot_read(self.name, data, _reason(error)) from error

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and (self.columns, self.is_key) == (other.columns, other.is_key)

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _row_serde, (self.columns, self.is_key)


def _row_serde(columns: tuple[Column, ...], is_key: bool) -> RowSerde:
    return RowSerde(columns, is_key=is_key)


class StateSerde(RowSerde):
    """Writes the states of aggregate functions: a tuple of the values of columns.

    A store keeps a state without arrays, maps and structs as it is, and writes it when it is committed.

    >>> from millstream.sql.types import INTEGER
    >>> serde = StateSerde((Column("N", INTEGER),))
    >>> serde.immutable, serde.deserialize(serde.serialize((1,)))
    (True, (1,))
    """

    python_type = tuple

    def __init__(self, columns: Sequence[Column]) -> None:
        super().__init__(columns, is_key=False)
        self.name = f"sql-state<{', '.join(map(str, columns))}>"
        self.immutable = all(not column.type.parts for column in columns)
        self._write = _encoder(self.columns, tuple)
        self._read = _decoder(self.columns, tuple)

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return StateSerde, (self.columns,)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _encoder(columns: Sequence[Column], split: Split) -> Callable[[Any], bytes]:
    converts = [_plain(column.type) for column in columns]
    write = msgspec.msgpack.encode
    if not any(converts):
        return lambda item: write(split(item))
    return lambda item: write(
        [
            value if convert is None or value is None else convert(value)
            for convert, value in zip(converts, split(item), strict=True)
        ]
    )


def _decoder(columns: Sequence[Column], join: Join) -> Callable[[bytes], Any]:
    converts = [_restored(column.type) for column in columns]
    read, some = msgspec.msgpack.decode, any(converts)
    count = len(columns)

    def decode(data: bytes) -> Any:
        values = read(data)
        if type(values) is not list or len(values) != count:
            raise ValueError(f"expected an array of {count} values")
        if some:
            values = [
                value if convert is None or value is None else convert(value)
                for convert, value in zip(converts, values, strict=True)
            ]
        return join(values)

    return decode


def _plain(type_: SqlType) -> Convert | None:
    """Returns the function that prepares a value, which is not None, for MessagePack."""
    if isinstance(type_, DecimalType):
        return str
    if isinstance(type_, StructType):
        fields = [(name, _plain(part)) for name, part in type_.fields]
        return lambda struct: [_applied(part, struct[name]) for name, part in fields]
    return _inside(type_, _plain)


def _restored(type_: SqlType) -> Convert | None:
    """Returns the function that makes a value of what MessagePack holds."""
    if isinstance(type_, DecimalType):
        return Decimal
    if isinstance(type_, StructType):
        fields = [(name, _restored(part)) for name, part in type_.fields]
        return lambda values: {name: _applied(part, value) for (name, part), value in zip(fields, values, strict=True)}
    return _inside(type_, _restored)


def _inside(type_: SqlType, convert: Callable[[SqlType], Convert | None]) -> Convert | None:
    if isinstance(type_, ArrayType):
        element = convert(type_.element)
        return None if element is None else lambda items: [_applied(element, item) for item in items]
    if isinstance(type_, MapType):
        key, value = convert(type_.key), convert(type_.value)
        if key is None and value is None:
            return None
        return lambda entries: {_applied(key, k): _applied(value, v) for k, v in entries.items()}
    return None


def _applied(convert: Convert | None, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)
