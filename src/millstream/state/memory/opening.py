"""Opens stores in memory, by the kind in their specification."""

from __future__ import annotations

from typing import Literal, TypeAlias, overload

from millstream.errors import StateError
from millstream.state.api import BufferStore, KeyValueRowStore, SessionRowStore, VersionedRowStore, WindowRowStore
from millstream.state.codec import Codec
from millstream.state.coded import coded
from millstream.state.memory.buffer import MemoryBufferStore
from millstream.state.memory.duplicates import MemoryDuplicatesStore
from millstream.state.memory.key_value import MemoryKeyValueStore
from millstream.state.memory.session import MemorySessionStore
from millstream.state.memory.versioned import MemoryVersionedStore
from millstream.state.memory.window import MemoryWindowStore
from millstream.state.spec import StoreSpec

AnyStore: TypeAlias = KeyValueRowStore | WindowRowStore | SessionRowStore | VersionedRowStore | BufferStore

_CLASSES = {
    "key-value": MemoryKeyValueStore,
    "window": MemoryWindowStore,
    "session": MemorySessionStore,
    "versioned": MemoryVersionedStore,
    "buffer": MemoryBufferStore,
}


@overload
def open_store(spec: StoreSpec, kind: Literal["key-value"]) -> KeyValueRowStore: ...
@overload
def open_store(spec: StoreSpec, kind: Literal["window"]) -> WindowRowStore: ...
@overload
def open_store(spec: StoreSpec, kind: Literal["session"]) -> SessionRowStore: ...
@overload
def open_store(spec: StoreSpec, kind: Literal["versioned"]) -> VersionedRowStore: ...
@overload
def open_store(spec: StoreSpec, kind: Literal["buffer"]) -> BufferStore: ...
@overload
def open_store(spec: StoreSpec, kind: None = None) -> AnyStore: ...
def open_store(spec: StoreSpec, kind: str | None = None) -> AnyStore:
    """Opens an empty store in memory.

    The store holds hashable keys and immutable values as objects; others as bytes, with a layer that converts them.

    Args:
        spec: The specification of the store.
        kind: The kind that the caller requires, which determines the type of the result.

    Raises:
        StateError: The specification is contradictory, or of another kind.

    >>> from millstream.serde import LONG, STRING
    >>> store = open_store(StoreSpec("counts", "key-value", STRING, LONG), "key-value")
    >>> store.put("b", 1)
    >>> store.put("a", 2)
    >>> store.put("b", 3)
    >>> list(store.range())
    [('a', 2), ('b', 3)]
    >>> [(record.key, record.value[-1]) for record in store.changes()]
    [(b'b', 3), (b'a', 2)]
    """
    if kind is not None and kind != spec.kind:
        raise StateError(f"store {spec.name!r} is a {spec.kind} store, not a {kind} store")
    check_spec(spec)
    cls = MemoryDuplicatesStore if spec.duplicates else _CLASSES[spec.kind]
    store: AnyStore = coded(spec, cls(spec, Codec(spec)))
    return store


def check_spec(spec: StoreSpec) -> None:
    """Checks a specification.

    Raises:
        StateError: It is contradictory.
    """
    if spec.kind not in _CLASSES:
        raise StateError(f"store {spec.name!r}: unknown kind {spec.kind!r}", hint=f"one of {list(_CLASSES)}")
    if spec.duplicates and (spec.kind != "window" or spec.held):
        raise StateError(f"store {spec.name!r}: only a window store that is not held can keep duplicates")
    if spec.retention_ms is not None and spec.retention_ms < 0:
        raise StateError(f"store {spec.name!r}: the retention is negative: {spec.retention_ms} ms")
    if spec.grouped and spec.kind != "key-value":
        raise StateError(f"store {spec.name!r}: only a key-value store can be grouped")
    if spec.timestamped and spec.kind in ("versioned", "buffer"):
        raise StateError(f"store {spec.name!r}: the rows of a {spec.kind} store cannot be timestamped")
