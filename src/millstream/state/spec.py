"""What a store is made from: its specification."""

from __future__ import annotations

from itertools import compress, repeat
from typing import Any, Literal, NamedTuple, TypeAlias

from millstream.core.frozen import Value
from millstream.serde.api import Serde

StoreKind: TypeAlias = Literal["key-value", "window", "session", "versioned", "buffer"]

NO_TIMESTAMP = -1
"""The timestamp of a changelog record whose row has no time of its own; the writer of the changelog chooses one."""


class ChangelogRecord(NamedTuple):
    """One change of a store, as it is written to the store's changelog.

    ``value`` is None if the row was deleted. ``timestamp`` is the row's own (of a timestamped row), else the time
    in its key (window start, session end, version, buffer time), else ``NO_TIMESTAMP``.
    """

    key: bytes
    value: bytes | None
    timestamp: int


class Changes(NamedTuple):
    """Many changes of a store by column: what `ChangelogRecord` has for each."""

    keys: list[bytes]
    values: list[bytes | None]
    timestamps: list[int]

    def records(self) -> list[ChangelogRecord]:
        """The same by row."""
        return list(map(tuple.__new__, repeat(ChangelogRecord), zip(*self, strict=True)))

    def where(self, chosen: list[bool]) -> Changes:
        """Those that are chosen."""
        keys, values, timestamps = self
        return Changes(list(compress(keys, chosen)), list(compress(values, chosen)), list(compress(timestamps, chosen)))


class StoreSpec(Value):
    """What to make a store from.

    Attributes:
        name: The name of the store.
        kind: The kind of the store, which says which protocol of ``millstream.state.api`` it has.
        key: The serde of the keys (a buffer has none of its own: its order bytes are opaque).
        value: The serde of the values. In a buffer: of its items.
        timestamped: Rows are ``(value, timestamp)`` instead of bare values.
        retention_ms: How long rows stay visible, in the store's own time; None is for ever. In a versioned
            store: how long former versions can be looked up.
        window_size_ms: The size of the windows, from which views compute their ends. None: without end.
        duplicates: A window store that keeps every row put for a key and a start (stores of stream-stream joins).
        held: Rows stay until the operator has released them (emission on close).
        logged: Changes are recorded for the changelog.
        viewed: If it is named, it can be queried from outside.
        inclusive: The end of a window belongs to it (sliding windows).
        named: The user gave the name, so that the store can be queried.
        grouped: A key-value store whose key bytes begin with a group: its length in 4 bytes, and its bytes. The rows of
            a group are kept together, so that listing them by that prefix touches no others.
    """

    name: str
    kind: StoreKind
    key: Serde[Any]
    value: Serde[Any]
    timestamped: bool = False
    retention_ms: int | None = None
    window_size_ms: int | None = None
    duplicates: bool = False
    held: bool = False
    logged: bool = True
    viewed: bool = True
    inclusive: bool = False
    named: bool = False
    grouped: bool = False
