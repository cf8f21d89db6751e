"""The specification of a store, and its changes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress, repeat
from typing import Any, Literal, NamedTuple, TypeAlias

from millstream.core.frozen import Value
from millstream.serde.api import Serde

StoreKind: TypeAlias = Literal["key-value", "window", "session", "versioned", "buffer"]

NO_TIMESTAMP = -1
"""The timestamp of a changelog record whose row has no time; the writer of the changelog chooses one."""


class ChangelogRecord(NamedTuple):
    """A change of a store, as written to its changelog.

    ``value`` is None if the row was deleted. ``timestamp`` is that of a timestamped row, else the time in its key
    (window start, session end, version, buffer time), else ``NO_TIMESTAMP``.
    """

    key: bytes
    value: bytes | None
    timestamp: int


class Changes(NamedTuple):
    """Changes of a store by column, each as a `ChangelogRecord`."""

    keys: list[bytes]
    values: list[bytes | None]
    timestamps: list[int]

    def records(self) -> list[ChangelogRecord]:
        """Returns the changes as records."""
        return list(map(tuple.__new__, repeat(ChangelogRecord), zip(*self, strict=True)))

    def where(self, chosen: list[bool]) -> Changes:
        """Returns the changes whose flag is set."""
        keys, values, timestamps = self
        return Changes(list(compress(keys, chosen)), list(compress(values, chosen)), list(compress(timestamps, chosen)))


def concatenated(parts: Sequence[Changes]) -> Changes:
    """Returns the concatenation of changes."""
    if len(parts) == 1:
        return parts[0]
    return Changes(
        list(chain.from_iterable([part.keys for part in parts])),
        list(chain.from_iterable([part.values for part in parts])),
        list(chain.from_iterable([part.timestamps for part in parts])),
    )


class StoreSpec(Value):
    """The specification of a store.

    Attributes:
        name: The name of the store.
        kind: The kind of the store, which determines its protocol in ``millstream.state.api``.
        key: The serde of the keys. (The keys of a buffer are opaque bytes.)
        value: The serde of the values; in a buffer, of the items.
        timestamped: Rows are ``(value, timestamp)`` instead of values.
        retention_ms: How long rows stay visible, in the store's own time; None is for ever. In a versioned
            store: how long former versions can be looked up.
        window_size_ms: The size of the windows, from which their ends follow. None: without end.
        duplicates: A window store that keeps every row put for a key and a start (stores of stream-stream joins).
        held: Rows stay until the operator releases them (emission on close).
        logged: Changes are recorded for the changelog.
        viewed: The store has a view for queries, if it is named.
        inclusive: The end of a window belongs to it (sliding windows).
        named: The user has named the store.
        grouped: A key-value store whose key bytes begin with a group: its length in 4 bytes, and its bytes. The rows of
            a group are in one page, so that listing them by that prefix reads no others.
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
