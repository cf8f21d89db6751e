from __future__ import annotations

from typing import Any

import pytest

from millstream.core.records import Windowed
from millstream.errors import StateError
from millstream.serde import LONG, STRING
from millstream.state.memory import open_store
from millstream.state.spec import StoreSpec
from millstream.state.views import (
    KeyValueView,
    SessionView,
    TimestampedKeyValueView,
    TimestampedWindowView,
    ValueAndTimestamp,
    VersionedRecord,
    VersionedView,
    WindowView,
    view_of,
)


def opened(kind: Any, **options: Any) -> Any:
    return open_store(StoreSpec("st", kind, STRING, LONG, **options))


def test_key_value_view() -> None:
    view: KeyValueView[str, int] = KeyValueView(opened("key-value"))
    view.put_all([("a", 1), ("ab", 2), ("b", 3), ("c", 4), ("c", None)])
    assert view.put_if_absent("a", 9) == 1
    assert view.put_if_absent("d", 9) is None
    assert view.delete("d") == 9
    assert view.delete("d") is None
    assert list(view.all()) == [("a", 1), ("ab", 2), ("b", 3)]
    assert list(view.reverse_all()) == [("b", 3), ("ab", 2), ("a", 1)]
    assert list(view.range("ab", "z")) == [("ab", 2), ("b", 3)]
    assert list(view.reverse_range(None, "ab")) == [("ab", 2), ("a", 1)]
    assert list(view.prefix_scan("a")) == [("a", 1), ("ab", 2)]
    assert view.approximate_num_entries() == 3
    assert repr(view) == "<KeyValueView of 'st'>"


def test_a_plain_view_of_a_timestamped_store_shows_values_and_cannot_write() -> None:
    store = opened("key-value", timestamped=True)
    view: TimestampedKeyValueView[str, int] = TimestampedKeyValueView(store)
    view.put("a", ValueAndTimestamp(1, 5))
    assert view.get("a") == ValueAndTimestamp(1, 5)
    assert view.get_value("a") == 1
    assert view.get_value("b") is None
    assert list(view.all()) == [("a", ValueAndTimestamp(1, 5))]
    plain: KeyValueView[str, int] = KeyValueView(store)
    assert plain.get("a") == 1
    assert plain.get("b") is None
    assert list(plain.all()) == [("a", 1)]
    with pytest.raises(StateError, match="keeps timestamps"):
        plain.put("a", 2)


def test_window_view() -> None:
    view: WindowView[str, int] = WindowView(opened("window", retention_ms=100, window_size_ms=10))
    for key, value, start in [("a", 1, 0), ("b", 2, 0), ("a", 3, 10)]:
        view.put(key, value, start)
    a0, a10, b0 = (Windowed("a", 0, 10), 1), (Windowed("a", 10, 20), 3), (Windowed("b", 0, 10), 2)
    assert view.fetch("a", 0) == 1
    assert view.fetch("a", 5) is None
    assert view.fetch("a", 0, 10) == [(0, 1), (10, 3)]
    assert view.backward_fetch("a", 0, 10) == [(10, 3), (0, 1)]
    assert view.all() == view.fetch_all(0, 10) == view.fetch_range(None, None, 0, 10) == [a0, a10, b0]
    assert view.backward_all() == view.backward_fetch_all(0, 10) == [b0, a10, a0]
    assert view.fetch_range("b", "c", 0, 10) == [b0]
    assert view.backward_fetch_range("a", "b", 0, 5) == [b0, a0]


def test_timestamped_window_view() -> None:
    store = opened("window", retention_ms=100, window_size_ms=10, timestamped=True)
    view: TimestampedWindowView[str, int] = TimestampedWindowView(store)
    view.put("be", ValueAndTimestamp(2, 7), 0)
    assert view.fetch("be", 0) == ValueAndTimestamp(2, 7)
    plain: WindowView[str, int] = WindowView(store)
    assert plain.fetch("be", 0) == 2
    assert plain.fetch("be", 0, 9) == [(0, 2)]


@pytest.mark.parametrize("size", [None, 2**63 - 1])
def test_a_window_without_end(size: int | None) -> None:
    view: WindowView[str, int] = WindowView(opened("window", window_size_ms=size))
    view.put("a", 1, 5)
    assert view.all() == [(Windowed("a", 5, 2**63 - 1), 1)]


def test_session_view() -> None:
    view: SessionView[str, int] = SessionView(opened("session", retention_ms=100))
    first, second, other = Windowed("a", 0, 10), Windowed("a", 30, 30), Windowed("b", 5, 20)
    for session, value in [(first, 1), (second, 2), (other, 3)]:
        view.put(session, value)
    assert view.fetch_session("a", 0, 10) == 1
    assert view.fetch("a") == view.find_sessions("a", 0, 50) == [(first, 1), (second, 2)]
    assert view.backward_fetch("a") == view.backward_find_sessions("a", 0, 50) == [(second, 2), (first, 1)]
    assert view.fetch_range("a", "b") == [(first, 1), (second, 2), (other, 3)]
    assert view.backward_fetch_range(None, None) == [(other, 3), (second, 2), (first, 1)]
    assert view.find_sessions_range(None, "b", 15, 10) == [(other, 3)]
    assert view.find_sessions_ending(10, 20) == [(first, 1), (other, 3)]
    view.remove(first)
    assert view.fetch("a") == [(second, 2)]


def test_versioned_view() -> None:
    view: VersionedView[str, int] = VersionedView(opened("versioned", retention_ms=100))
    view.put("a", 1, 10)
    view.put("a", 2, 20)
    assert view.get("a") == VersionedRecord(2, 20)
    assert view.get("a", as_of=15) == VersionedRecord(1, 10, 20)
    assert view.delete("a", 15) == VersionedRecord(1, 10, 20)
    assert view.get("a", as_of=15) is None
    assert view.get("a", as_of=12) == VersionedRecord(1, 10, 15)
    assert view.put("b", 1, 500) == -1
    assert view.delete("a", 15) is None  # too old
    assert not view.was_put(view.put("a", 1, 15))


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
def test_a_read_only_view_refuses_to_write(kind: Any, write: str, arguments: tuple[Any, ...]) -> None:
    store = opened(kind)
    with pytest.raises(StateError, match="store 'st' is read-only here"):
        getattr(view_of(store, read_only=True), write)(*arguments)
    assert len(store) == 0


def test_view_of_chooses_by_kind_and_timestamps() -> None:
    assert type(view_of(opened("key-value", timestamped=True))) is KeyValueView
    assert type(view_of(opened("key-value", timestamped=True), timestamped=True)) is TimestampedKeyValueView
    assert type(view_of(opened("window", timestamped=True), timestamped=True)) is TimestampedWindowView
    assert type(view_of(opened("session"), timestamped=True)) is SessionView
    assert view_of(opened("key-value"), read_only=True).approximate_num_entries() == 0


def test_a_view_of_another_kind_is_refused() -> None:
    with pytest.raises(StateError, match="is a session store, not a window store"):
        WindowView(opened("session"))
    with pytest.raises(StateError, match="keeps no timestamps"):
        TimestampedKeyValueView(opened("key-value"))
