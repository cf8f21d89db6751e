"""State stores: what a task remembers, by key, by window, by session, by version, and until later.

``StoreSpec`` says what a store is, ``open_store`` opens it, ``api`` has the protocols that the engine uses, and
``views`` has what processors and tests see. Stores are in memory; nothing outside this package knows how they are kept.
"""

from __future__ import annotations

from millstream.state.api import (
    LATEST,
    NOT_PUT,
    BufferStore,
    KeyValueStore,
    SessionStore,
    Store,
    VersionedStore,
    WindowStore,
)
from millstream.state.memory import AnyStore, open_store
from millstream.state.spec import NO_TIMESTAMP, ChangelogRecord, StoreKind, StoreSpec

__all__ = [
    "LATEST",
    "NOT_PUT",
    "NO_TIMESTAMP",
    "AnyStore",
    "BufferStore",
    "ChangelogRecord",
    "KeyValueStore",
    "SessionStore",
    "Store",
    "StoreKind",
    "StoreSpec",
    "VersionedStore",
    "WindowStore",
    "open_store",
]
