"""The serde of changes of a table's rows, for the repartition topic of a grouped table."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, error as StructError  # noqa: N812
from typing import Any, Generic, TypeAlias, TypeVar

from millstream.serde.api import Serde, SerdeContext
from millstream.serde.error_messages import cannot_read, cannot_write, wrong_length
from millstream.serde.lookup import serde_for

V = TypeVar("V")

Change: TypeAlias = tuple[V | None, V | None]
"""The new value and the old one."""

_VERSION = 1
_NULL = -1
_HEADER = Struct(">bii")


class ChangeSerde(Serde[Change[V]], Generic[V]):
    """A (new, old) pair of values; each of them may be None.

    The layout is Millstream's own, for internal topics: a version byte (1), the size of the new value and the size of
    the old one (4 bytes each, big-endian, -1 for null), the new value, the old value.
    """

    def __init__(self, inner: Serde[V]) -> None:
        self.inner = inner
        self.name = f"change<{inner.name}>"
        self.python_type = tuple
        self.immutable = inner.immutable
        self.hashable = inner.hashable

    @property
    def inner_serdes(self) -> tuple[Serde[Any], ...]:
        return (self.inner,)

    def bind(self, context: SerdeContext) -> Serde[Change[V]]:
        inner = self.inner.bind(context)
        return self if inner is self.inner else ChangeSerde(inner)

    def serialize(self, value: Change[V] | None) -> bytes | None:
        if value is None:
            return None
        if type(value) is not tuple or len(value) != 2:
            raise cannot_write(self.name, value, hint="a change is a pair (new, old)")
        new, old = map(self.inner.serialize, value)
        header = _HEADER.pack(_VERSION, _NULL if new is None else len(new), _NULL if old is None else len(old))
        return header + (new or b"") + (old or b"")

    def deserialize(self, data: bytes | None) -> Change[V] | None:
        if data is None:
            return None
        try:
            version, new_size, old_size = _HEADER.unpack_from(data)
        except StructError as error:
            raise wrong_length(self.name, data, _HEADER.size, at_least=True) from error
        if version != _VERSION:
            raise cannot_read(self.name, data, f"version {version} of the layout, expected {_VERSION}")
        middle = _HEADER.size + max(new_size, 0)
        end = middle + max(old_size, 0)
        if new_size < _NULL or old_size < _NULL or len(data) != end:
            raise cannot_read(
                self.name, data, f"values of {new_size} and {old_size} bytes in {len(data)} bytes, expected {end}"
            )
        read = self.inner.deserialize
        return (
            None if new_size == _NULL else read(data[_HEADER.size : middle]),
            None if old_size == _NULL else read(data[middle:]),
        )

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Callable[[Any], object], tuple[object]]:
        return ChangeSerde, (self.inner,)


def change(inner: Serde[V] | Any) -> Serde[Change[Any]]:
    r"""Returns a serde for changes of a table's rows: pairs of the new and the old value.

    >>> change(str).serialize(("new", None))
    b'\x01\x00\x00\x00\x03\xff\xff\xff\xffnew'

    Args:
        inner: The serde of the values, or an argument of :func:`serde_for`.
    """
    return ChangeSerde(serde_for(inner, "values of change"))
