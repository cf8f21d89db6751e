"""Records, their headers, and the windowed keys of windowed tables."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, Self, TypeAlias, TypeVar

K = TypeVar("K")
V = TypeVar("V")

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""Record headers: (name, value) pairs in order; a name may occur more than once."""


class UnreadableHeaders(tuple[tuple[str, bytes | None], ...]):  # noqa: SLOT001  (a tuple can have no slots)
    """An empty tuple in place of headers that cannot be decoded.

    Attributes:
        reason: Why they cannot be decoded.
    """

    reason: str

    def __new__(cls, reason: str) -> Self:
        """Creates the empty tuple with a reason."""
        headers = super().__new__(cls)
        headers.reason = reason
        return headers


def check_headers(headers: Any) -> None:
    """Raises a `TypeError` or a `ValueError` that names the invalid header, if there is one.

    >>> check_headers((("trace", b"1"), ("empty", None)))
    >>> check_headers((("trace", "1"),))
    Traceback (most recent call last):
        ...
    TypeError: the value of header 'trace' is str, not bytes
    """
    if not isinstance(headers, tuple | list):
        raise TypeError(f"the headers are {type(headers).__name__}, not a tuple of (name, value) pairs")
    for pair in headers:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"a header is {pair!r}, not a (name, value) pair")
        name, value = pair
        if not isinstance(name, str):
            raise TypeError(f"the name of header {name!r} is {type(name).__name__}, not str")
        if not isinstance(value, bytes | None):
            raise TypeError(f"the value of header {name!r} is {type(value).__name__}, not bytes")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"the name of header {name!r} contains a lone surrogate, which cannot be encoded"
            ) from None


ERROR_HEADER = "__streams.errors."
"""The prefix of the headers of a dead letter that describe its error."""

CONTRACT_HEADER = "__millstream.contract."
"""The prefix of the headers of a dead letter that name the contract which its record violates."""


class Windowed(NamedTuple, Generic[K]):
    """The key of a row of a windowed table: a key and the bounds of its window, in milliseconds.

    ``end`` is exclusive for tumbling, hopping and unlimited windows, inclusive for sliding and session windows.

    >>> str(Windowed("be", 0, 60_000))
    '[be@0/60000]'
    """

    key: K
    start: int
    end: int

    def __str__(self) -> str:
        return f"[{self.key}@{self.start}/{self.end}]"


class Record(NamedTuple, Generic[K, V]):
    """A record: key, value, timestamp in milliseconds since the epoch (UTC), and headers.

    >>> Record("k", "v", 5).with_value("w")
    Record(key='k', value='w', timestamp=5, headers=())
    """

    key: K
    value: V
    timestamp: int = 0
    headers: Headers = ()

    def with_key(self, key: Any) -> Record[Any, V]:
        """Returns the record with another key."""
        return self._replace(key=key)

    def with_value(self, value: Any) -> Record[K, Any]:
        """Returns the record with another value."""
        return self._replace(value=value)

    def with_timestamp(self, timestamp: int) -> Record[K, V]:
        """Returns the record with another timestamp."""
        return self._replace(timestamp=timestamp)

    def with_headers(self, headers: Headers) -> Record[K, V]:
        """Returns the record with other headers."""
        return self._replace(headers=headers)
