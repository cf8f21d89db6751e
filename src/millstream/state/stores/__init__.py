"""The interfaces of state stores that processors, tests and queries use, named as in Kafka Streams.

Ranges include both ends. Listings are ordered by the bytes of the keys and are snapshots: the store may change while
one is read. None means that there is no row. Times are in milliseconds.
"""

from __future__ import annotations

from typing import Any

from millstream.state.stores.base import StateStore, ValueAndTimestamp, VersionedRecord
from millstream.state.stores.key_value import KeyValueStore, ReadOnlyKeyValueStore, TimestampedKeyValueStore
from millstream.state.stores.session import ReadOnlySessionStore, SessionStore
from millstream.state.stores.versioned import VersionedKeyValueStore
from millstream.state.stores.window import ReadOnlyWindowStore, TimestampedWindowStore, WindowStore

__all__ = [
    "KeyValueStore",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyWindowStore",
    "SessionStore",
    "StateStore",
    "TimestampedKeyValueStore",
    "TimestampedWindowStore",
    "ValueAndTimestamp",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "WindowStore",
]

_PLAIN: dict[str, type[StateStore]] = {
    "key-value": KeyValueStore,
    "window": WindowStore,
    "session": SessionStore,
    "versioned": VersionedKeyValueStore,
}
_TIMESTAMPED: dict[str, type[StateStore]] = {
    **_PLAIN,
    "key-value": TimestampedKeyValueStore,
    "window": TimestampedWindowStore,
}


def user_store(rows: Any, *, read_only: bool = False, timestamped: bool = False) -> Any:
    """Returns the interface of a store that users get, by the kind of the store.

    Args:
        rows: A store with a protocol of ``millstream.state.api``; not a buffer.
        read_only: Writes raise a ``StateError``.
        timestamped: Rows of a timestamped store are returned, and put, with their timestamps.
    """
    spec = rows.spec
    classes = _TIMESTAMPED if timestamped and spec.timestamped else _PLAIN
    return classes[spec.kind](rows, read_only=read_only)
