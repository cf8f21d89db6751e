"""The serde of lists, in the format of Kafka's ListSerializer."""

from __future__ import annotations

import types
from collections.abc import Callable
from struct import Struct, error as StructError, pack, unpack_from  # noqa: N812
from typing import Any, Generic, TypeVar

from millstream.serde.api import Serde, SerdeContext
from millstream.serde.error_messages import cannot_read, cannot_write
from millstream.serde.lookup import serde_for
from millstream.serde.primitives import DOUBLE, FLOAT, INT, LONG, SHORT, UUID

T = TypeVar("T")

_CONSTANT_SIZE, _VARIABLE_SIZE = 0, 1
_NULL = -1
_INT32 = Struct(">i")

# The inner serdes whose entries Kafka writes without their sizes. BOOLEAN is not one of them.
_SIZES: dict[Serde[Any], int] = {SHORT: 2, INT: 4, FLOAT: 4, LONG: 8, DOUBLE: 8, UUID: 36}


class ListSerde(Serde[list[T | None]], Generic[T]):
    """A list whose entries have one serde. Entries may be None. Tuples are accepted, and deserialized as lists.

    The first byte is the serialization strategy. All other numbers have 4 bytes, big-endian:

    - 0, for short, int, long, float, double, uuid: the number of nulls, the index of each, the number of entries,
      then the entries that are not null, one after the other.
    - 1, for all others: the number of entries, then for each its size (-1 for null) and its bytes.
    """

    def __init__(self, inner: Serde[T]) -> None:
        self.inner = inner
        self.name = f"list<{inner.name}>"
        self.python_type = types.GenericAlias(list, (inner.python_type,))
        self._size = _SIZES.get(inner)

    @property
    def inner_serdes(self) -> tuple[Serde[Any], ...]:
        return (self.inner,)

    def bind(self, context: SerdeContext) -> Serde[list[T | None]]:
        inner = self.inner.bind(context)
        return self if inner is self.inner else ListSerde(inner)

    def serialize(self, value: list[T | None] | None) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, (list, tuple)):
            raise cannot_write(self.name, value)
        write = self.inner.serialize
        entries = [write(entry) for entry in value]
        if self._size is not None:
            nulls = [index for index, entry in enumerate(entries) if entry is None]
            header = pack(f">b{len(nulls) + 2}i", _CONSTANT_SIZE, len(nulls), *nulls, len(entries))
            return header + b"".join(filter(None, entries))
        parts = [pack(">bi", _VARIABLE_SIZE, len(entries))]
        size_of = _INT32.pack
        for entry in entries:
            if entry is None:
                parts.append(size_of(_NULL))
            else:
                parts += (size_of(len(entry)), entry)
        return b"".join(parts)

    def deserialize(self, data: bytes | None) -> list[T | None] | None:
        if data is None:
            return None
        try:
            strategy = data[0]
            if strategy == _VARIABLE_SIZE:
                return self._read_variable(data)
            if strategy == _CONSTANT_SIZE:
                return self._read_constant(data)
        except (IndexError, StructError) as error:
            raise cannot_read(self.name, data, f"it ends too early, after {len(data)} bytes") from error
        raise cannot_read(self.name, data, f"it begins with {strategy:#04x}, expected 0x00 or 0x01")

    def _read_variable(self, data: bytes) -> list[T | None]:
        read, size_at = self.inner.deserialize, _INT32.unpack_from
        result: list[T | None] = []
        offset = 5
        for _ in range(size_at(data, 1)[0]):
            (size,) = size_at(data, offset)
            offset += 4
            if size == _NULL:
                result.append(None)
                continue
            if size < 0 or offset + size > len(data):
                raise cannot_read(
                    self.name, data, f"an entry of {size} bytes at byte {offset}, but {len(data) - offset} are left"
                )
            result.append(read(data[offset : offset + size]))
            offset += size
        self._check_count(data, size_at(data, 1)[0], offset)
        return result

    def _read_constant(self, data: bytes) -> list[T | None]:
        size = self._size
        if size is None:
            raise cannot_read(self.name, data, "its entries were written without their sizes")
        (null_count,) = _INT32.unpack_from(data, 1)
        *nulls, count = unpack_from(f">{max(null_count, 0) + 1}i", data, 5)
        offset = 5 + 4 * (len(nulls) + 1)
        absent = set(nulls)
        if null_count < 0 or any(not 0 <= index < count for index in nulls):
            raise cannot_read(self.name, data, f"{null_count} nulls in {count} entries")
        self._check_count(data, count, offset + size * (count - len(absent)))
        read = self.inner.deserialize
        present = [read(data[start : start + size]) for start in range(offset, len(data), size)]
        if not absent:
            return present
        following = iter(present)
        return [None if index in absent else next(following) for index in range(count)]

    def _check_count(self, data: bytes, count: int, end: int) -> None:
        if count < 0 or end != len(data):
            raise cannot_read(self.name, data, f"{count} entries should end at byte {end}, found {len(data)} bytes")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Callable[[Any], object], tuple[object]]:
        return ListSerde, (self.inner,)


def list_of(inner: Serde[T] | Any) -> Serde[list[Any]]:
    r"""Returns a serde for lists, in the format of Kafka's ListSerializer.

    (The type hint ``list[int]`` is JSON; this format must be named.)

    >>> list_of(int).serialize([1, None])
    b'\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01'
    >>> list_of(str).serialize(["hi", None])
    b'\x01\x00\x00\x00\x02\x00\x00\x00\x02hi\xff\xff\xff\xff'

    Args:
        inner: The serde of the entries, or an argument of :func:`serde_for`.
    """
    return ListSerde(serde_for(inner, "entries of list"))
