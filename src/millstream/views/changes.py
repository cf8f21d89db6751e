"""The changes of a batch in a store, for the view of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from millstream.serde.key_layouts import split_session_key, split_store_window_key
from millstream.state.spec import StoreKind, StoreSpec

RowChange: TypeAlias = tuple[bytes, bytes | None, int]
"""Key, value and timestamp, as in a `ChangelogRecord`; plain tuples cost less to make."""


class ViewChange(NamedTuple):
    """The changes of a batch in one store of one task.

    A batch has at most one for each store and partition. Without records, it registers the store or advances its time.

    Attributes:
        store: The name of the store.
        kind: The kind of the store; buffers have no view.
        partition: The partition of the task.
        records: The result of ``Store.changes``.
        time: The time of the store after the batch; None in a key-value store.
        retention_ms: How long rows stay visible, in the store's own time; None is for ever.
        held: Rows stay until they are released; a window is then visible for one millisecond more.
    """

    store: str
    kind: StoreKind
    partition: int
    records: Sequence[RowChange]
    time: int | None = None
    retention_ms: int | None = None
    held: bool = False


def row_time(spec: StoreSpec, row: RowChange) -> int:
    """Returns the time of a row in a window, session or versioned store. The time of the store is the greatest one."""
    key, _value, timestamp = row
    if spec.kind == "window":
        return split_store_window_key(key)[1]
    return split_session_key(key)[2] if spec.kind == "session" else timestamp


def change_of(spec: StoreSpec, partition: int, records: Sequence[RowChange], time: int | None = None) -> ViewChange:
    """Returns the changes of a store with this specification."""
    return ViewChange(spec.name, spec.kind, partition, records, time, spec.retention_ms, spec.held)
