"""Serdes of tuples with fixed fields and of headers, for buffers and internal topics."""

from __future__ import annotations

from struct import Struct
from typing import Any

from millstream.core.records import Headers
from millstream.serde.api import Serde, SerdeContext

_SIZE = Struct(">i")


class HeadersSerde(Serde[Headers]):
    """Record headers: for each, the size and bytes of its name, and of its value (-1 for null)."""

    name = "headers"
    python_type = tuple
    immutable = True
    hashable = False

    def serialize(self, value: Headers | None) -> bytes | None:
        if value is None:
            return None
        fields = [field for name, data in value for field in (name.encode(), data)]
        return _join(fields)

    def deserialize(self, data: bytes | None) -> Headers | None:
        if data is None:
            return None
        fields = _split(data)
        return tuple((str(name or b"", "utf-8"), value) for name, value in zip(fields[::2], fields[1::2], strict=True))


class TupleSerde(Serde[tuple[Any, ...]]):
    """A tuple with one serde for each field. Fields may be None. The first fields may be keys of records."""

    def __init__(self, *fields: Serde[Any], keys: int = 0) -> None:
        self.fields = fields
        self._keys = keys
        self.name = f"tuple<{', '.join(field.name for field in fields)}>"
        self.python_type = tuple
        self.immutable = all(field.immutable for field in fields)
        self.hashable = False

    @property
    def inner_serdes(self) -> tuple[Serde[Any], ...]:
        return tuple(self.fields)

    def bind(self, context: SerdeContext) -> Serde[tuple[Any, ...]]:
        contexts = (context._replace(is_key=index < self._keys) for index in range(len(self.fields)))
        fields = [field.bind(own) for field, own in zip(self.fields, contexts, strict=True)]
        if all(field is own for field, own in zip(fields, self.fields, strict=True)):
            return self
        return TupleSerde(*fields, keys=self._keys)

    def serialize(self, value: tuple[Any, ...] | None) -> bytes | None:
        if value is None:
            return None
        return _join([serde.serialize(item) for serde, item in zip(self.fields, value, strict=True)])

    def deserialize(self, data: bytes | None) -> tuple[Any, ...] | None:
        if data is None:
            return None
        return tuple(serde.deserialize(item) for serde, item in zip(self.fields, _split(data), strict=True))


HEADERS = HeadersSerde()


def tuple_of(*fields: Serde[Any], keys: int = 0) -> TupleSerde:
    """Returns the serde of tuples with these fields, of which the first ``keys`` are keys of records.

    >>> from millstream.serde import LONG, STRING
    >>> pair = tuple_of(STRING, LONG)
    >>> pair.deserialize(pair.serialize(("a", None)))
    ('a', None)
    """
    return TupleSerde(*fields, keys=keys)


def _join(fields: list[bytes | None]) -> bytes:
    parts = []
    for field in fields:
        parts.append(_SIZE.pack(-1 if field is None else len(field)))
        parts.append(field or b"")
    return b"".join(parts)


def _split(data: bytes) -> list[bytes | None]:
    fields: list[bytes | None] = []
    position = 0
    while position < len(data):
        (size,) = _SIZE.unpack_from(data, position)
        position += 4
        fields.append(None if size < 0 else data[position : position + size])
        position += max(size, 0)
    return fields
