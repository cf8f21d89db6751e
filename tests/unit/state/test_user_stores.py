from __future__ import annotations

from typing import Any

import pytest

from millstream.core.records import Windowed
from millstream.errors import StateError
from millstream.serde import LONG, STRING
from millstream.state.memory import open_store
from millstream.state.spec import StoreSpec
from millstream.state.stores import (
    KeyValueStore,
    SessionStore,
    TimestampedKeyValueStore,
    TimestampedWindowStore,
    ValueAndTimestamp,
    VersionedKeyValueStore,
    VersionedRecord,
    WindowStore,
    user_store,
)


def opened(kind: Any, **options: Any) -> Any:
    return open_store(StoreSpec("st", kind, STRING, LONG, **options))


def test_a_key_value_store_reads_and_writes_by_key() -> None:
    store: KeyValueStore[str, int] = KeyValueStore(opened("key-value"))
    store.put_all([("a", 1), ("ab", 2), ("b", 3), ("c", 4), ("c", None)])
    assert store.put_if_absent("a", 9) == 1
    assert store.put_if_absent("d", 9) is None
    assert store.delete("d") == 9
    assert store.delete("d") is None
    assert list(store.all()) == [("a", 1), ("ab", 2), ("b", 3)]
    assert list(store.reverse_all()) == [("b", 3), ("ab", 2), ("a", 1)]
    assert list(store.range("ab", "z")) == [("ab", 2), ("b", 3)]
    assert list(store.reverse_range(None, "ab")) == [("ab", 2), ("a", 1)]
    assert list(store.prefix_scan("a")) == [("a", 1), ("ab", 2)]
    assert store.approximate_num_entries() == 3
    assert repr(store) == "<KeyValueStore 'st'>"


def test_a_plain_store_over_timestamped_rows_returns_values_and_is_read_only() -> None:
    rows = opened("key-value", timestamped=True)
    store: TimestampedKeyValueStore[str, int] = TimestampedKeyValueStore(rows)
    store.put("a", ValueAndTimestamp(1, 5))
    assert store.get("a") == ValueAndTimestamp(1, 5)
    assert store.get_value("a") == 1
    assert store.get_value("b") is None
    assert list(store.all()) == [("a", ValueAndTimestamp(1, 5))]
    plain: KeyValueStore[str, int] = KeyValueStore(rows)
    assert plain.get("a") == 1
    assert plain.get("b") is None
    assert list(plain.all()) == [("a", 1)]
    with pytest.raises(StateError, match="has timestamps"):
        plain.put("a", 2)


def test_a_window_store_reads_by_key_and_start() -> None:
    store: WindowStore[str, int] = WindowStore(opened("window", retention_ms=100, window_size_ms=10))
    for key, value, start in [("a", 1, 0), ("b", 2, 0), ("a", 3, 10)]:
        store.put(key, value, start)
    a0, a10, b0 = (Windowed("a", 0, 10), 1), (Windowed("a", 10, 20), 3), (Windowed("b", 0, 10), 2)
    assert store.fetch("a", 0) == 1
    assert store.fetch("a", 5) is None
    assert store.fetch("a", 0, 10) == [(0, 1), (10, 3)]
    assert store.backward_fetch("a", 0, 10) == [(10, 3), (0, 1)]
    assert store.all() == store.fetch_all(0, 10) == store.fetch_range(None, None, 0, 10) == [a0, a10, b0]
    assert store.backward_all() == store.backward_fetch_all(0, 10) == [b0, a10, a0]
    assert store.fetch_range("b", "c", 0, 10) == [b0]
    assert store.backward_fetch_range("a", "b", 0, 5) == [b0, a0]


def test_a_timestamped_window_store_returns_timestamps() -> None:
    rows = opened("window", retention_ms=100, window_size_ms=10, timestamped=True)
    store: TimestampedWindowStore[str, int] = TimestampedWindowStore(rows)
    store.put("be", ValueAndTimestamp(2, 7), 0)
    assert store.fetch("be", 0) == ValueAndTimestamp(2, 7)
    plain: WindowStore[str, int] = WindowStore(rows)
    assert plain.fetch("be", 0) == 2
    assert plain.fetch("be", 0, 9) == [(0, 2)]


@pytest.mark.parametrize("size", [None, 2**63 - 1])
def test_a_window_without_a_size_ends_at_the_end_of_time(size: int | None) -> None:
    store: WindowStore[str, int] = WindowStore(opened("window", window_size_ms=size))
    store.put("a", 1, 5)
    assert store.all() == [(Windowed("a", 5, 2**63 - 1), 1)]


def test_a_session_store_finds_sessions_by_end_and_start() -> None:
    store: SessionStore[str, int] = SessionStore(opened("session", retention_ms=100))
    first, second, other = Windowed("a", 0, 10), Windowed("a", 30, 30), Windowed("b", 5, 20)
    for session, value in [(first, 1), (second, 2), (other, 3)]:
        store.put(session, value)
    assert store.fetch_session("a", 0, 10) == 1
    assert store.fetch("a") == store.find_sessions("a", 0, 50) == [(first, 1), (second, 2)]
    assert store.backward_fetch("a") == store.backward_find_sessions("a", 0, 50) == [(second, 2), (first, 1)]
    assert store.fetch_range("a", "b") == [(first, 1), (second, 2), (other, 3)]
    assert store.backward_fetch_range(None, None) == [(other, 3), (second, 2), (first, 1)]
    assert store.find_sessions_range(None, "b", 15, 10) == [(other, 3)]
    assert store.find_sessions_ending(10, 20) == [(first, 1), (other, 3)]
    store.remove(first)
    assert store.fetch("a") == [(second, 2)]


def test_a_versioned_store_reads_as_of_a_time() -> None:
    store: VersionedKeyValueStore[str, int] = VersionedKeyValueStore(opened("versioned", retention_ms=100))
    store.put("a", 1, 10)
    store.put("a", 2, 20)
    assert store.get("a") == VersionedRecord(2, 20)
    assert store.get("a", as_of=15) == VersionedRecord(1, 10, 20)
    assert store.delete("a", 15) == VersionedRecord(1, 10, 20)
    assert store.get("a", as_of=15) is None
    assert store.get("a", as_of=12) == VersionedRecord(1, 10, 15)
    assert store.put("b", 1, 500) == -1
    assert store.delete("a", 15) is None  # too old
    assert not store.was_put(store.put("a", 1, 15))


@pytest.mark.parametrize(
    ("kind", "write", "arguments"),
    [
        ("key-value", "put", ("a", 1)),
        ("key-value", "delete", ("a",)),
        ("key-value", "put_if_absent", ("a", 1)),
        ("key-value", "put_all", ([("a", 1)],)),
        ("window", "put", ("a", 1, 0)),
        ("session", "put", (Windowed("a", 0, 1), 1)),
        ("session", "remove", (Windowed("a", 0, 1),)),
        ("versioned", "put", ("a", 1, 0)),
        ("versioned", "delete", ("a", 0)),
    ],
)
def test_writes_to_a_read_only_store_are_refused(kind: Any, write: str, arguments: tuple[Any, ...]) -> None:
    store = opened(kind)
    with pytest.raises(StateError, match="store 'st' is read-only here"):
        getattr(user_store(store, read_only=True), write)(*arguments)
    assert len(store) == 0


def test_the_class_follows_from_kind_and_timestamps() -> None:
    assert type(user_store(opened("key-value", timestamped=True))) is KeyValueStore
    assert type(user_store(opened("key-value", timestamped=True), timestamped=True)) is TimestampedKeyValueStore
    assert type(user_store(opened("window", timestamped=True), timestamped=True)) is TimestampedWindowStore
    assert type(user_store(opened("session"), timestamped=True)) is SessionStore
    assert user_store(opened("key-value"), read_only=True).approximate_num_entries() == 0


def test_a_store_of_another_kind_is_refused() -> None:
    with pytest.raises(StateError, match="is a session store, not a window store"):
        WindowStore(opened("session"))
    with pytest.raises(StateError, match="has no timestamps"):
        TimestampedKeyValueStore(opened("key-value"))
