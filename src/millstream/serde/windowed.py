"""Serdes of windowed keys, in the formats of Kafka's TimeWindowedSerializer and SessionWindowedSerializer."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, ClassVar, Generic, TypeVar, cast

from millstream.core.durations import END_OF_TIME, later
from millstream.core.records import Windowed
from millstream.errors import ConfigError
from millstream.serde.api import Serde, SerdeContext
from millstream.serde.error_messages import cannot_read, cannot_write
from millstream.serde.key_layouts import session_key, split_session_key, split_window_key, window_key
from millstream.serde.lookup import serde_for

K = TypeVar("K")

_START = Struct(">q").pack


class _WindowedSerde(Serde[Windowed[K]], Generic[K]):
    """The common part of both kinds of windowed keys."""

    suffix: ClassVar[int]
    """The number of bytes of a serialized key that are its window."""

    def __init__(self, kind: str, inner: Serde[K]) -> None:
        self.inner = inner
        self.name = f"{kind}<{inner.name}>"
        self.python_type = cast("Any", Windowed)[inner.python_type]

    @property
    def inner_serdes(self) -> tuple[Serde[Any], ...]:
        return (self.inner,)

    def bind(self, context: SerdeContext) -> Serde[Windowed[K]]:
        inner = self.inner.bind(context)
        if inner is self.inner:
            return self
        make, (_inner, *options) = self.__reduce__()
        return cast("Serde[Windowed[K]]", make(inner, *options))

    def _key_bytes(self, value: Windowed[K]) -> bytes:
        """Returns the bytes of the key without the window, after checking the window."""
        if not isinstance(value, Windowed):
            raise cannot_write(self.name, value, hint="the key of a windowed table is Windowed(key, start, end)")
        data = self.inner.serialize(value.key)
        if data is None:
            raise cannot_write(self.name, value, "its key is None")
        if value.start < 0 or value.end < value.start:
            raise cannot_write(self.name, value, "a window starts at 0 or later, and does not end before it starts")
        return data

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return type(self), (self.inner,)


class TimeWindowedSerde(_WindowedSerde[K], Generic[K]):
    """The key and the start of a window; see :func:`time_windowed`."""

    suffix = 8

    def __init__(self, inner: Serde[K], size_ms: int | None) -> None:
        super().__init__("time-windowed", inner)
        self._inner_bytes = inner.serialize
        self.size_ms = size_ms
        # Without a size, the end of a window is lost when it is serialized.
        self.immutable = inner.immutable and size_ms is not None
        self.hashable = inner.hashable and size_ms is not None
        self.exact = inner.exact and size_ms is not None

    def serialize(self, value: Windowed[K] | None) -> bytes | None:
        if type(value) is Windowed:
            key, start, end = value
            if end - start == self.size_ms and 0 <= start < END_OF_TIME:
                data = self._inner_bytes(key)  # the common case, in one step
                if data is not None:
                    return data + _START(start)
        if value is None:
            return None
        data = self._key_bytes(value)
        if self.size_ms is not None and value.end != later(value.start, self.size_ms):
            raise cannot_write(
                self.name,
                value,
                f"its window is not of {self.size_ms} ms",
                hint="the end is not written; time_windowed(key, None) takes windows of any size",
            )
        return window_key(data, value.start)

    def deserialize(self, data: bytes | None) -> Windowed[K] | None:
        if data is None:
            return None
        key, start = split_window_key(data)
        if start < 0:
            raise cannot_read(self.name, data, f"the window would start at {start}")
        end = END_OF_TIME if self.size_ms is None else later(start, self.size_ms)
        return Windowed(cast("K", self.inner.deserialize(key)), start, end)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return TimeWindowedSerde, (self.inner, self.size_ms)


class SessionWindowedSerde(_WindowedSerde[K], Generic[K]):
    """The key, the end and the start of a window; see :func:`session_windowed`."""

    suffix = 16

    def __init__(self, inner: Serde[K]) -> None:
        super().__init__("session-windowed", inner)
        self.immutable = inner.immutable
        self.hashable = inner.hashable
        self.exact = inner.exact

    def serialize(self, value: Windowed[K] | None) -> bytes | None:
        if value is None:
            return None
        return session_key(self._key_bytes(value), value.start, value.end)

    def deserialize(self, data: bytes | None) -> Windowed[K] | None:
        if data is None:
            return None
        key, start, end = split_session_key(data)
        if not 0 <= start <= end:
            raise cannot_read(self.name, data, f"the window would be from {start} to {end}")
        return Windowed(cast("K", self.inner.deserialize(key)), start, end)


def time_windowed(inner: Serde[K] | Any, size_ms: int | None) -> Serde[Windowed[Any]]:
    r"""Returns a serde for keys of tumbling, hopping, sliding and unlimited windows: the key, then the start (8 bytes).

    The end is not written. ``deserialize`` computes it: ``start + size_ms``, at most 2**63 - 1.

    >>> serde = time_windowed(str, 60_000)
    >>> serde.serialize(Windowed("k", 1, 60_001))
    b'k\x00\x00\x00\x00\x00\x00\x00\x01'
    >>> serde.deserialize(b"k\x00\x00\x00\x00\x00\x00\x00\x01")
    Windowed(key='k', start=1, end=60001)

    Args:
        inner: The serde of the key, or an argument of :func:`serde_for`.
        size_ms: The time from start to end: the size of tumbling and hopping windows (the end is exclusive), the
            time difference of sliding windows (the end is inclusive), 2**63 - 1 for unlimited windows. Windows of
            another size are refused. None if the size is not known: windows of all sizes are accepted, and
            deserialized without an end (2**63 - 1).
    """
    if size_ms is not None and (type(size_ms) is not int or size_ms < 0):
        raise ConfigError(
            f"time_windowed: {size_ms!r} is not a size of windows",
            hint="give milliseconds as an int, or None if it is not known",
        )
    return TimeWindowedSerde(serde_for(inner, "windowed key"), size_ms)


def session_windowed(inner: Serde[K] | Any) -> Serde[Windowed[Any]]:
    r"""Returns a serde for keys of session windows: the key, then the end, then the start (8 bytes each).

    >>> session_windowed(str).serialize(Windowed("k", 1, 2))
    b'k\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01'

    Args:
        inner: The serde of the key, or an argument of :func:`serde_for`.
    """
    return SessionWindowedSerde(serde_for(inner, "windowed key"))


def window_bytes(serde: Serde[Any]) -> int:
    """Returns the number of bytes at the end of a serialized key that are its window; 0 if it has no window.

    >>> (
    ...     window_bytes(time_windowed(str, 60_000)),
    ...     window_bytes(session_windowed(str)),
    ...     window_bytes(serde_for(str, "key")),
    ... )
    (8, 16, 0)
    """
    return serde.suffix if isinstance(serde, _WindowedSerde) else 0
