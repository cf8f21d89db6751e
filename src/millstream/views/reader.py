"""Opens stores of applications for queries."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from millstream.errors import StateError
from millstream.state.spec import StoreSpec
from millstream.state.stores import VersionedKeyValueStore, VersionedRecord, user_store
from millstream.views.database import ViewDatabase
from millstream.views.stores import ViewKeyValueStore, ViewSessionStore, ViewVersionedStore, ViewWindowStore

__all__ = ["ViewDatabase", "open_view"]

K = TypeVar("K")
V = TypeVar("V")

_STORES = {
    "key-value": ViewKeyValueStore,
    "window": ViewWindowStore,
    "session": ViewSessionStore,
    "versioned": ViewVersionedStore,
}


def open_view(
    source: ViewDatabase | str | Path | Callable[[], sqlite3.Connection],
    application: str,
    spec: StoreSpec,
    *,
    timestamped: bool = False,
) -> Any:
    """Opens a store of an application for reading, with the interface that the test driver returns.

    It may be used by several threads, in any process that can open the database. Each call sees the last batch that
    was committed when it began; for several calls that see the same batch, use ``ViewDatabase.snapshot``.

    Args:
        source: The database, its file, or a function that returns new connections to it. Stores that are read in one
            snapshot need the same ``ViewDatabase``.
        application: The application.
        spec: The specification of the store.
        timestamped: Return rows of a timestamped store with their timestamps.

    Raises:
        UnknownStoreError: The application has no such store, or has not published a batch yet.
        StateError: The store is a buffer or of another kind, or the database does not exist or cannot be read.
    """
    if spec.kind not in _STORES:
        raise StateError(f"store {spec.name!r} is a {spec.kind} store, which has no view")
    database = source if isinstance(source, ViewDatabase) else ViewDatabase(source)
    rows = _STORES[spec.kind](database, application, spec)
    if isinstance(rows, ViewVersionedStore):
        return _SnapshotVersionedStore(rows, read_only=True)
    return user_store(rows, read_only=True, timestamped=timestamped)


class _SnapshotVersionedStore(VersionedKeyValueStore[K, V]):
    """A versioned store that reads a version and its end from the same snapshot."""

    __slots__ = ()
    _rows: Any

    def get(self, key: K, as_of: int | None = None) -> VersionedRecord[V] | None:
        with self._rows.snapshot():
            return super().get(key, as_of)
