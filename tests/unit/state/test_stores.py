"""Properties of stores beyond the models: changelog bytes, isolation from users' values, expiry."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.errors import StateError
from millstream.serde import JSON, LONG, STRING
from millstream.state.memory import open_store
from millstream.state.spec import NO_TIMESTAMP, ChangelogRecord, StoreSpec


def spec(kind: Any, value: Any = STRING, **options: Any) -> StoreSpec:
    return StoreSpec("st", kind, STRING, value, **options)


def long(number: int) -> bytes:
    return number.to_bytes(8, "big")


# --- wire formats ---------------------------------------------------------------------------------------------------


def test_changes_contain_the_last_row_in_order_of_the_first_change() -> None:
    store: Any = open_store(spec("key-value"))
    store.put("b", "1")
    store.put("a", "2")
    store.put("b", "3")
    store.put("c", "4")
    store.put("c", None)
    assert store.changes() == [
        ChangelogRecord(b"b", b"3", NO_TIMESTAMP),
        ChangelogRecord(b"a", b"2", NO_TIMESTAMP),
        ChangelogRecord(b"c", None, NO_TIMESTAMP),
    ]
    assert store.changes() == []


@pytest.mark.parametrize("serde", [STRING, JSON])
def test_the_record_of_a_timestamped_row_has_its_value_and_timestamp(serde: Any) -> None:
    store: Any = open_store(spec("key-value", serde, timestamped=True))
    store.put("a", ("x", 17))
    assert store.changes() == [(b"a", serde.serialize("x"), 17)]


def test_wire_format_of_windows() -> None:
    store: Any = open_store(spec("window", retention_ms=100))
    store.put("a", 5, "x")
    assert store.changes() == [(b"a" + long(5) + bytes(4), b"x", 5)]


def test_wire_format_of_duplicates_has_sequence_numbers() -> None:
    store: Any = open_store(spec("window", retention_ms=100, duplicates=True))
    store.put("a", 5, "x")
    store.put("a", 5, "x")
    keys = [record.key for record in store.changes()]
    assert keys == [b"a" + long(5) + bytes([0, 0, 0, 1]), b"a" + long(5) + bytes([0, 0, 0, 2])]


def test_wire_format_of_sessions_has_the_end_first() -> None:
    store: Any = open_store(spec("session", retention_ms=100))
    store.put("a", 5, 9, "x")
    store.remove("a", 5, 8)
    assert store.changes() == [(b"a" + long(9) + long(5), b"x", 9), (b"a" + long(8) + long(5), None, 8)]


def test_a_versioned_store_logs_every_version() -> None:
    store: Any = open_store(spec("versioned", retention_ms=100))
    store.put("a", "x", 200)
    store.put("a", "y", 150)
    store.put("a", "z", 50)  # too old
    store.delete("a", 150)
    assert store.changes() == [(b"a", b"x", 200), (b"a", b"y", 150), (b"a", None, 150)]


def test_wire_format_of_buffers() -> None:
    store: Any = open_store(spec("buffer"))
    store.put(5, b"k", "x")
    store.put(6, b"k", "y")
    store.pop_first()
    assert store.changes() == [(long(5) + b"k", None, 5), (long(6) + b"k", b"y", 6)]


@pytest.mark.parametrize("kind", ["key-value", "window", "session", "versioned", "buffer"])
@pytest.mark.parametrize("duplicates", [False, True])
def test_a_store_that_is_not_logged_records_nothing(kind: Any, duplicates: bool) -> None:
    if duplicates and kind != "window":
        return
    store: Any = open_store(spec(kind, retention_ms=100, logged=False, duplicates=duplicates))
    arguments: dict[str, tuple[Any, ...]] = {
        "key-value": ("a", "x"),
        "window": ("a", 5, "x"),
        "session": ("a", 5, 9, "x"),
        "versioned": ("a", "x", 5),
        "buffer": (5, b"a", "x"),
    }
    store.put(*arguments[kind])
    assert store.changes() == []
    assert len(store) == 1
    store.restore([])
    store.put(*arguments[kind])
    assert store.changes() == []


# --- isolation ------------------------------------------------------------------------------------------------------


def test_a_function_that_changes_a_value_does_not_change_the_store() -> None:
    original = {"n": [1]}
    kv: Any = open_store(spec("key-value", JSON, timestamped=True))
    kv.put("a", (original, 5))
    windows: Any = open_store(spec("window", JSON, retention_ms=10))
    windows.put("a", 5, original)
    joined: Any = open_store(spec("window", JSON, retention_ms=10, duplicates=True))
    joined.put("a", 5, original)
    sessions: Any = open_store(spec("session", JSON, retention_ms=10))
    sessions.put("a", 5, 6, original)
    versions: Any = open_store(spec("versioned", JSON, retention_ms=10))
    versions.put("a", original, 5)
    buffer: Any = open_store(spec("buffer", JSON))
    buffer.put(5, b"a", original)

    def read() -> list[Any]:
        return [
            kv.get("a")[0],
            next(kv.range())[1][0],
            next(kv.prefix(b"a"))[1][0],
            windows.get("a", 5),
            windows.fetch("a", 0, 9)[0][1],
            windows.all()[0][2],
            windows.rows_between(0, 9)[0][2],
            joined.fetch("a", 0, 9)[0][1],
            sessions.get("a", 5, 6),
            sessions.find("a", 0, 9)[0][2],
            sessions.fetch_keys()[0][3],
            versions.get("a")[0],
            versions.get_as_of("a", 7)[0],
            buffer.get(5, b"a"),
            buffer.first()[2],
        ]

    original["n"].append(2)
    for value in read():
        assert value == {"n": [1]}
        value["n"].append(3)
    assert all(value == {"n": [1]} for value in read())


def test_immutable_values_are_held_as_objects() -> None:
    row = ("x" * 100, 5)
    store: Any = open_store(spec("key-value", timestamped=True))
    store.put("a", row)
    assert store.get("a") is row


def test_keys_that_are_not_hashable_are_found_by_their_bytes() -> None:
    store: Any = open_store(StoreSpec("st", "key-value", JSON, LONG))
    store.put({"id": 1}, 5)
    assert store.get({"id": 1}) == 5
    assert list(store.range()) == [({"id": 1}, 5)]
    assert store.changes()[0].key == JSON.serialize({"id": 1})


def test_keys_are_ordered_by_their_bytes() -> None:
    store: Any = open_store(StoreSpec("st", "key-value", LONG, LONG))
    for key in (-1, 5, 0, -7):
        store.put(key, key)
    assert [key for key, _ in store.range()] == [0, 5, -7, -1]


def test_a_listing_is_a_snapshot() -> None:
    store: Any = open_store(spec("key-value"))
    for key in "abc":
        store.put(key, "1")
    seen = []
    for key, row in store.range():
        store.put("b", None)
        store.put("c", "2")
        store.put("d", "1")
        seen.append((key, row))
    assert seen == [("a", "1"), ("b", "1"), ("c", "1")]


def test_the_order_of_many_keys_is_kept_up_to_date() -> None:
    store: Any = open_store(spec("key-value"))
    names = [f"{number * 7919 % 10_007:05}" for number in range(10_000)]
    for number, name in enumerate(names):
        store.put(name, "x")
        if number % 500 == 0:
            store.put(names[number // 2], None)
            assert [key for key, _ in store.range()] == sorted(set(names[: number + 1]) - set(deleted(names, number)))
    for name in names[:9_990]:
        store.put(name, None)
    assert [key for key, _ in store.range()] == sorted(names[9_990:])


def deleted(names: list[str], number: int) -> list[str]:
    return [names[at // 2] for at in range(0, number + 1, 500)]


# --- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"duplicates": True}, {"held": True}], ids=str)
def test_a_window_store_drops_expired_rows(options: dict[str, bool]) -> None:
    store: Any = open_store(spec("window", retention_ms=80, **options))
    for time in range(10_000):
        store.put(f"k{time}", time, "x")
        store.fetch("k1", time - 80, time)
        store.release(time - 5)
        assert len(store) <= 100
    if "duplicates" not in options:
        assert len(store._index) <= 100


@pytest.mark.parametrize("held", [False, True])
def test_a_session_store_drops_expired_rows(held: bool) -> None:
    store: Any = open_store(spec("session", retention_ms=80, held=held))
    for time in range(10_000):
        store.put(f"k{time}", time - 2, time, "x")
        store.release(time - 5)
        assert len(store) <= 100
    assert len(store._rows) <= 100
    assert len(store._index._order) <= 100


def test_a_versioned_store_drops_history_and_tombstones_of_idle_keys() -> None:
    store: Any = open_store(spec("versioned", retention_ms=80))
    for time in range(0, 10_000, 2):
        store.put(f"k{time}", "x", time)
        store.put(f"k{time}", None, time + 1)
        assert len(store) <= 120
    assert len(store._rows) <= 60


def test_a_buffer_drops_removed_items() -> None:
    store: Any = open_store(spec("buffer"))
    store.put(0, b"", "x")
    for time in range(1, 10_000):
        store.put(time, b"k", "x")
        store.remove(time, b"k")
    assert len(store._heap) <= 70
    assert store.pop_first() == (0, b"", "x")


def test_a_held_store_keeps_expired_rows_until_they_are_released() -> None:
    store: Any = open_store(spec("window", retention_ms=10, held=True))
    store.put("b", 0, "x")
    store.put("a", 0, "y")
    store.put("a", 1_000, "z")
    store.put("c", 3, "late, and not visible")
    assert store.get("a", 0) is None
    assert store.all() == [("a", 1_000, "z")]
    assert store.rows_between(-1, 500) == [("a", 0, "y"), ("b", 0, "x"), ("c", 3, "late, and not visible")]
    store.release(500)
    assert store.rows_between(-1, 500) == []
    assert len(store) == 1


def test_a_held_session_store_finds_sessions_that_share_their_end() -> None:
    store: Any = open_store(spec("session", retention_ms=10, held=True))
    for start in (1, 2, 3):
        store.put("a", start, 9, str(start))
    store.remove("a", 3, 9)
    store.remove("a", 1, 9)
    assert store.rows_between(0, 9) == [("a", 2, 9, "2")]
    store.remove("a", 2, 9)
    assert store.rows_between(0, 9) == []
    store.put("a", 4, 9, "4")
    store.put("b", 4, 8, "5")
    assert store.rows_between(0, 9) == [("b", 4, 8, "5"), ("a", 4, 9, "4")]


# --- time -----------------------------------------------------------------------------------------------------------


def test_removing_advances_the_time_of_a_session_store() -> None:
    store: Any = open_store(spec("session", retention_ms=10))
    store.put("a", 0, 5, "x")
    store.remove("b", 0, 15)
    assert store.time == 15
    assert store.fetch("a") == []


def test_a_null_does_not_advance_the_time_of_a_store_with_duplicates() -> None:
    store: Any = open_store(spec("window", retention_ms=10, duplicates=True))
    store.put("a", 5, "x")
    store.put("a", 50, None)
    assert store.time == 5
    assert store.fetch("a", 0, 9) == [(5, "x")]


@pytest.mark.parametrize("kind", ["window", "session", "versioned"])
@pytest.mark.parametrize("serde", [STRING, JSON])
def test_time_can_be_set(kind: Any, serde: Any) -> None:
    store: Any = open_store(spec(kind, serde, retention_ms=10))
    assert store.time == -1
    store.time = 100
    assert store.time == 100
    if kind == "versioned":
        assert store.put("a", "x", 89) < 0
        assert store.get("a") is None
    else:
        store.put("a", *([90] if kind == "window" else [90, 90]), "x")
        assert len(store) == 0


def test_without_retention_rows_do_not_expire() -> None:
    store: Any = open_store(spec("window"))
    store.put("a", 0, "x")
    store.put("a", 2**62, "y")
    assert store.fetch("a", 0, 2**63) == [(0, "x"), (2**62, "y")]


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("list", {}, "unknown kind 'list'"),
        ("session", {"duplicates": True}, "only a window store"),
        ("window", {"duplicates": True, "held": True}, "only a window store"),
        ("window", {"retention_ms": -1}, "retention is negative"),
        ("versioned", {"timestamped": True}, "cannot be timestamped"),
    ],
)
def test_contradictory_specifications_are_refused(kind: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(StateError, match=message):
        open_store(spec(kind, **options))


def test_a_store_of_another_kind_is_refused() -> None:
    with pytest.raises(StateError, match="is a window store, not a key-value store"):
        open_store(spec("window"), "key-value")
