"""What the views of stores share: their results, and how a view is kept from writing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from millstream.core.durations import END_OF_TIME
from millstream.errors import MillstreamError, StateError

V = TypeVar("V")

EARLIEST = -(2**63)
"""The earliest timestamp that a changelog holds."""


class ValueAndTimestamp(NamedTuple, Generic[V]):
    """A value and the timestamp that is stored with it: a row of a timestamped store."""

    value: V
    timestamp: int


class VersionedRecord(NamedTuple, Generic[V]):
    """A version: a value, the time from which it is valid, and the time until which it is; None: it is the latest."""

    value: V
    timestamp: int
    valid_to: int | None = None


class Frozen:
    """A store that refuses to be changed and is otherwise the one it was made from.

    A view puts it in place of the store when it is made, so that its methods need not ask each time.
    """

    __slots__ = ("_reason", "_store", "_hint")

    def __init__(self, store: Any, reason: str, hint: str | None = None) -> None:
        self._store = store
        self._reason = reason
        self._hint = hint

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def __len__(self) -> int:
        return len(self._store)

    def _refuse(self, *_: Any) -> NoReturn:
        raise StateError(f"store {self._store.spec.name!r} {self._reason}", hint=self._hint)

    put = delete = remove = _refuse


class View:
    """The base of the views: which rows it shows, and whether it may write.

    A plain view of a timestamped store shows the values alone. It cannot write: it would not know the timestamp.
    """

    __slots__ = ("_row", "_store")

    _kind = ""
    _timestamped = False
    _store: Any

    def __init__(self, store: Any, *, read_only: bool = False) -> None:
        spec = store.spec
        if spec.kind != self._kind:
            raise StateError(f"store {spec.name!r} is a {spec.kind} store, not a {self._kind} store")
        if self._timestamped and not spec.timestamped:
            raise StateError(f"store {spec.name!r} keeps no timestamps", hint="use the plain view of the store")
        if read_only:
            store = Frozen(store, "is read-only here")
        elif spec.timestamped and not self._timestamped:
            store = Frozen(store, "keeps timestamps, so a value alone cannot be put", "use its timestamped view")
        self._store = store
        self._row = _with_timestamp if self._timestamped else _value if spec.timestamped else _as_is

    def _check_key(self, key: object) -> None:
        if key is None:
            raise StateError(f"store {self._store.spec.name!r}: a row needs a key, and None is none")

    def _check_row(self, row: Any, *times: int) -> None:
        """Raises a `StateError` if a changelog cannot hold one of the times, or that of a timestamped row."""
        if self._timestamped and row is not None:
            times = (*times, row[1])
        for time in times:
            if not isinstance(time, int) or not EARLIEST <= time <= END_OF_TIME:
                raise StateError(
                    f"store {self._store.spec.name!r}: {time!r} ({type(time).__name__}) is no timestamp",
                    hint="a timestamp is an int of at most 2**63 - 1, in milliseconds since the epoch",
                )

    @property
    def name(self) -> str:
        """The name of the store."""
        name: str = self._store.spec.name
        return name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.name!r}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows."""
        from millstream.text.html import facts, first_rows  # noqa: PLC0415  (only a notebook needs it)

        title = f"{self._kind} store {self.name!r}"
        try:
            header, rows = self._shown_rows()
            return first_rows(title, header, rows, len(self._store))
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
