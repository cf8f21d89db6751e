"""The base class of the store interfaces, and the types of their results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from millstream.core.durations import END_OF_TIME
from millstream.errors import MillstreamError, StateError

V = TypeVar("V")

EARLIEST = -(2**63)
"""The earliest timestamp that a changelog can hold."""


class ValueAndTimestamp(NamedTuple, Generic[V]):
    """A row of a timestamped store: a value and its timestamp."""

    value: V
    timestamp: int


class VersionedRecord(NamedTuple, Generic[V]):
    """A version: a value, and the times from and until which it is valid; ``valid_to`` is None if it is the latest."""

    value: V
    timestamp: int
    valid_to: int | None = None


class ReadOnlyRows:
    """Forwards reads to a store, and raises a `StateError` for writes.

    A read-only `StateStore` holds it in place of the store, so that writable stores need no check for each write.
    """

    __slots__ = ("_hint", "_reason", "_rows")

    def __init__(self, rows: Any, reason: str, hint: str | None = None) -> None:
        self._rows = rows
        self._reason = reason
        self._hint = hint

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def __len__(self) -> int:
        return len(self._rows)

    def _refuse(self, *_: Any) -> NoReturn:
        raise StateError(f"store {self._rows.spec.name!r} {self._reason}", hint=self._hint)

    put = delete = remove = _refuse


class StateStore:
    """The base class of the store interfaces.

    A plain store over timestamped rows returns the values alone. It is read-only, because a put needs a timestamp.
    """

    __slots__ = ("_rows", "_to_value")

    _kind = ""
    _timestamped = False
    _rows: Any

    def __init__(self, rows: Any, *, read_only: bool = False) -> None:
        spec = rows.spec
        if spec.kind != self._kind:
            raise StateError(f"store {spec.name!r} is a {spec.kind} store, not a {self._kind} store")
        if self._timestamped and not spec.timestamped:
            raise StateError(f"store {spec.name!r} has no timestamps", hint="open it without timestamps")
        if read_only:
            rows = ReadOnlyRows(rows, "is read-only here")
        elif spec.timestamped and not self._timestamped:
            rows = ReadOnlyRows(rows, "has timestamps, so a value alone cannot be put", "open it with timestamps")
        self._rows = rows
        self._to_value = _with_timestamp if self._timestamped else _value if spec.timestamped else _as_is

    def _check_key(self, key: object) -> None:
        if key is None:
            raise StateError(f"store {self._rows.spec.name!r}: the key of a row cannot be None")

    def _check_row(self, row: Any, *times: int) -> None:
        """Raises a `StateError` if a changelog cannot hold one of the times, or the timestamp of a row."""
        if self._timestamped and row is not None:
            times = (*times, row[1])
        for time in times:
            if not isinstance(time, int) or not EARLIEST <= time <= END_OF_TIME:
                raise StateError(
                    f"store {self._rows.spec.name!r}: {time!r} ({type(time).__name__}) is no timestamp",
                    hint="a timestamp is an int of at most 2**63 - 1, in milliseconds since the epoch",
                )

    @property
    def name(self) -> str:
        """The name of the store."""
        name: str = self._rows.spec.name
        return name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _repr_html_(self) -> str:
        """The first rows, for a notebook."""
        from millstream.text.html import facts, first_rows  # noqa: PLC0415  (only a notebook needs it)

        title = f"{self._kind} store {self.name!r}"
        try:
            header, rows = self._shown_rows()
            return first_rows(title, header, rows, len(self._rows))
        except MillstreamError as error:
            return facts(title, [("", error.message)])

    def _shown_rows(self) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        """The names of the columns, and the rows."""
        raise StateError(f"a {self._kind} store is read by key")


def _as_is(row: Any) -> Any:
    return row


def _value(row: Any) -> Any:
    return None if row is None else row[0]


def _with_timestamp(row: Any) -> Any:
    return None if row is None else ValueAndTimestamp(row[0], row[1])
