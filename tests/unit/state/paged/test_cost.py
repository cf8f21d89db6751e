"""Reads and writes, and the size of the remote map."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.state.paged.remote import (
    PAIRS,
    ROWS,
    SESSIONS,
    WINDOWS,
    Remote,
    Twins,
    filled,
    rows_of,
)

from millstream.serde import BYTES, LONG, STRING
from millstream.state.paged import MANIFEST_KEY
from millstream.state.spec import StoreSpec

# --- reads and writes -------------------------------------------------------------------------------------------------


def cost_of_hot_keys(size: int) -> tuple[int, int]:
    """Keys and bytes written in 50 batches that change the same few rows of a store of this size."""
    remote = Remote()
    state = remote.state(log_limit=400_000)
    store: Any = state.open(ROWS)
    for n in range(size):
        store.put(f"key{n}", n)
    remote.apply(state.commit(b""))
    keys = octets = 0
    for batch in range(50):
        for n in range(10):
            store.put(f"key{n}", batch)
        remote.apply(state.commit(b""))
        keys += len(remote.last.puts) + len(remote.last.deletes)
        octets += sum(len(value) for _, value in remote.last.puts)
    assert remote.fetches == 0
    return keys, octets


def test_the_writes_of_a_batch_do_not_grow_with_the_state() -> None:
    small, large = cost_of_hot_keys(20_000), cost_of_hot_keys(100_000)
    assert large[0] <= small[0] + 20
    assert large[1] <= small[1] * 1.5


def test_a_look_up_reads_one_page_once() -> None:
    remote = Remote()
    filled(remote, [ROWS], 20_000, log_limit=0)
    state = remote.state(memory_limit=300_000)
    store: Any = state.open(ROWS)
    assert remote.fetched == []
    assert store.get("key77") == 77
    assert store.get("key77") == 77
    assert store.get("no such key") is None
    assert store.get("no such key") is None
    assert len(remote.fetched) == 2


def test_a_small_state_is_loaded_at_once() -> None:
    remote = Remote()
    filled(remote, [ROWS], 20_000, log_limit=0)
    store: Any = remote.state().open(ROWS)
    fetches = remote.fetches
    assert [value for _, value in store.range()] == sorted(range(20_000), key=lambda n: f"key{n}")
    assert remote.fetches == fetches
    assert store.get("no such key") is None
    assert remote.fetches == fetches


def test_the_rows_of_a_group_are_in_one_page() -> None:
    def key(group: int, n: int) -> bytes:
        name = b"group%d" % group
        return len(name).to_bytes(4, "big") + name + b"%d" % n

    remote = Remote()
    spec = StoreSpec("rows", "key-value", BYTES, LONG, grouped=True)
    state = remote.state(log_limit=0)
    store: Any = state.open(spec)
    for group in range(2_000):
        for n in range(10):
            store.put(key(group, n), n)
    remote.apply(state.commit(b""))
    again: Any = remote.state(memory_limit=300_000).open(spec)
    assert [row for _, row in again.prefix(key(77, 1)[:-1])] == list(range(10))
    assert len(remote.fetched) == 1
    assert again.get(key(77, 3)) == 3
    assert len(remote.fetched) == 1
    assert len(list(again.prefix(b"\0\0\0\6group9"))) == 10
    assert len(list(again.prefix(b"\0\0\0\x07group"))) == 900
    assert len(remote.fetched) > 20


def test_rows_are_read_in_few_requests() -> None:
    remote = Remote()
    filled(remote, [ROWS], 20_000, log_limit=0)
    store: Any = remote.state(memory_limit=300_000).open(ROWS)
    assert len(list(store.range())) == 20_000
    assert len(remote.fetched) > 50
    assert remote.fetches == 1


def test_windows_that_expire_before_write_back_are_written_to_the_log_only() -> None:
    remote = Remote()
    state = remote.state()
    store: Any = state.open(WINDOWS)
    for window in range(0, 400_000, 10_000):
        for part in range(4):
            for n in range(part * 500, part * 500 + 500):
                store.put(f"key{n}", window, n)
            remote.apply(state.commit(b""))
    assert remote.count(b"p") == 0
    again: Any = remote.state().open(WINDOWS)
    assert len(again) == len(list(store.all())) == 4 * 2_000
    assert list(again.all()) == list(store.all())


@pytest.mark.parametrize("memory", [10**9, 0])
def test_a_window_begins_with_the_pages_of_the_one_before_and_is_written_with_those_it_needs(
    memory: int,
) -> None:
    """Until a page is written back its rows are in the log, and the page is empty."""
    remote = Remote()
    state = remote.state(page_bytes=400, log_limit=60_000, memory_limit=memory)
    store: Any = state.open(WINDOWS)
    sizes = [2_000, 2_000, 30, 2_000]
    for window, size in enumerate(sizes):
        for n in range(size):
            store.put(f"key{n}", window * 10_000, n)
            if n % 400 == 399:
                remote.apply(state.commit(b""))
                again: Any = remote.state(page_bytes=400, memory_limit=memory).open(WINDOWS)
                assert again.get("key7", window * 10_000) == 7
                assert again.get("key399", window * 10_000) == 399
                assert again.get("key1999", window * 10_000) == (1999 if n == 1999 else None)
        remote.apply(state.commit(b""))
    again = remote.state(page_bytes=400, memory_limit=memory).open(WINDOWS)
    assert [sum(1 for _ in again.fetch_all(at * 10_000, at * 10_000)) for at in range(4)] == sizes
    for _ in range(40):  # until all rows are in pages
        store.put("key0", 30_000, 0)
        remote.apply(state.commit(b"x" * 4_000))
    pages = [key for key in remote.map if key[:1] == b"p"]
    small = [key for key in pages if int.from_bytes(key[3:11], "big", signed=True) == 20_000 // 1_000]
    assert len(pages) > 200
    assert 0 < len(small) < 10
    again = remote.state(page_bytes=400, memory_limit=memory).open(WINDOWS)
    assert [sum(1 for _ in again.fetch_all(at * 10_000, at * 10_000)) for at in range(4)] == sizes


def test_no_page_becomes_large_before_write_back() -> None:
    remote = Remote()
    state = remote.state(page_bytes=2_000, log_limit=200_000)
    store: Any = state.open(ROWS)
    for batch in range(20):  # few rows, many times in the log
        for n in range(100):
            store.put(f"key{n}", batch)
        remote.apply(state.commit(b""))
    for n in range(1_000):
        store.put(f"key{n}", n)
    while not remote.count(b"p"):
        store.put("key0", 0)
        remote.apply(state.commit(b""))
    pages = [len(data) for key, data in remote.map.items() if key[:1] == b"p"]
    assert len(pages) > 5
    assert max(pages) < 6_000


def test_few_rows_have_few_pages_also_after_many_rows() -> None:
    remote = Remote()
    state = remote.state(page_bytes=400, log_limit=2_000_000)
    store: Any = state.open(WINDOWS)
    for n in range(20_000):
        store.put(f"key{n}", 0, n)
    remote.apply(state.commit(b""))
    for window in range(1, 8):
        for batch in range(120):
            for n in range(200):
                store.put(f"key{n}", window * 10_000, batch)
            remote.apply(state.commit(b""))
    assert 0 < remote.count(b"p") < 300


# --- the size of the remote map ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [WINDOWS, PAIRS, SESSIONS], ids=lambda spec: spec.name)
def test_expired_pages_are_deleted_without_being_read(spec: StoreSpec) -> None:
    remote = Remote()
    state = remote.state(log_limit=50_000, page_bytes=400)
    store: Any = state.open(spec)
    sizes: list[int] = []
    for batch in range(100):
        for n in range(40):
            time = batch * 2_000 + n
            arguments = (time, time) if spec.kind == "session" else (time,)
            store.put(f"key{n}", *arguments, n)
        remote.apply(state.commit(b""))
        sizes.append(len(remote.map))
    assert remote.fetched == []
    assert max(sizes[50:]) <= max(sizes[:50]) * 1.2
    assert remote.wrongly_deleted == []
    assert remote.count(b"l") <= 50_000 // 4096 + 1
    assert len(remote.map[MANIFEST_KEY]) < 500


@pytest.mark.parametrize("spec", [WINDOWS, SESSIONS], ids=lambda spec: spec.name)
def test_held_rows_are_dropped_only_when_released(spec: StoreSpec) -> None:
    own = StoreSpec(spec.name, spec.kind, STRING, LONG, retention_ms=8_000, held=True)
    remote = Remote()
    state = remote.state(log_limit=0)
    store: Any = state.open(own)
    for n in range(0, 50_000, 1_000):
        store.put("a", n, *([n] if spec.kind == "session" else []), n)
        remote.apply(state.commit(b""))
    state = remote.state(memory_limit=0)
    store = state.open(own)
    assert len(store.rows_between(-1, 100_000)) == 50
    pages = remote.count(b"p")
    store.release(30_000)
    remote.apply(state.commit(b""))
    assert [row[-1] for row in store.rows_between(-1, 100_000)] == list(range(31_000, 50_000, 1_000))
    assert remote.count(b"p") < pages


def test_a_new_segment_is_not_deleted_with_the_expired_one_of_its_number() -> None:
    spec = StoreSpec("windows", "window", STRING, LONG, retention_ms=8_000, held=True)
    remote = Remote()
    state = remote.state(log_limit=0, page_bytes=60)
    store: Any = state.open(spec)
    for n in range(300):
        store.put(f"key{n}", 5, n)
    remote.apply(state.commit(b""))
    store.put("late", 100_000, 1)
    store.release(50_000)
    remote.apply(state.commit(b""))
    assert remote.count(b"p") > 50  # not all are deleted yet
    state = remote.state(log_limit=0, page_bytes=60)
    store = state.open(spec)  # nothing is released
    store.put("key1", 5, -1)
    for batch in range(10):
        remote.apply(state.commit(b"%d" % batch))
    assert remote.count(b"p") == 2
    again: Any = remote.state().open(spec)
    assert again.rows_between(-1, 100_000) == [("key1", 5, -1), ("late", 100_000, 1)]


def test_pages_become_fewer_with_the_rows() -> None:
    remote = Remote()
    state = filled(remote, [ROWS], 5_000, log_limit=20_000, page_bytes=500)
    store: Any = state.open(ROWS)
    before = remote.count(b"p")
    for n in range(4_990):
        store.put(f"key{n}", None)
    for batch in range(200):
        store.put("key4999", batch)
        remote.apply(state.commit(b""))
    assert remote.count(b"p") < before / 20
    assert list(remote.state().open(ROWS).range()) == list(store.range())  # type: ignore[union-attr]


def change(store: Any, n: int, value: int | None) -> None:
    """Changes a row of `filled`, deletes it, or adds a duplicate of it."""
    if store.spec.kind == "key-value":
        store.put(f"key{n}", value)
    elif store.spec.kind == "window":
        store.put(f"key{n}", n * 10, value)
    elif value is None:
        store.remove(f"key{n}", n * 10, n * 10 + 5)
    else:
        store.put(f"key{n}", n * 10, n * 10 + 5, value)


@pytest.mark.parametrize("spec", [ROWS, WINDOWS, PAIRS, SESSIONS], ids=lambda spec: spec.name)
def test_unused_pages_are_written_back_without_being_loaded(spec: StoreSpec) -> None:
    remote = Remote()
    few: dict[str, Any] = {"page_bytes": 500, "memory_limit": 50_000}
    filled(remote, [spec], 2_000, log_limit=0, **few)
    state = remote.state(**few)
    store: Any = state.open(spec)
    for n in range(0, 2_000, 2):
        change(store, n, None if n % 6 == 0 else n + 1)
    remote.apply(state.commit(b""))
    expected = rows_of(store)

    state = remote.state(log_limit=20_000, **few)
    store = state.open(spec)
    assert state.figures()["pages-dirty"] > 50
    for batch in range(100):
        change(store, 1_999, 1_999)
        remote.apply(state.commit(b"%d" % batch))
    figures = state.figures()
    assert figures["pages-written"] > 50
    assert figures["pages-dirty"] <= 1
    assert figures["pages-resident"] <= figures["pages"] // 3  # split pages are in memory
    again = remote.state().open(spec)
    assert list(dict.fromkeys(rows_of(again))) == list(dict.fromkeys(expected))


def test_the_log_stays_within_its_limit() -> None:
    remote = Remote()
    state = remote.state(log_limit=100_000)
    store: Any = state.open(ROWS)
    for batch in range(60):
        for n in range(batch, 20_000, 40):
            store.put(f"key{n}", batch)
        remote.apply(state.commit(b""))
        assert sum(len(value) for key, value in remote.map.items() if key[:1] == b"l") <= 100_000
    assert remote.count(b"l") > 2


def test_the_pages_of_a_dropped_store_are_deleted_a_few_at_a_time() -> None:
    remote = Remote()
    filled(remote, [ROWS, WINDOWS], 3_000, page_bytes=200, log_limit=0)
    state = remote.state(page_bytes=200)
    store: Any = state.open(WINDOWS)
    rows = rows_of(store)
    deletes: list[int] = []
    for batch in range(20):
        remote.apply(state.commit(b"%d" % batch))
        deletes.append(len(remote.last.deletes))
        if batch == 2:  # the rest is deleted after a restart
            state = remote.state(page_bytes=200)
            store = state.open(WINDOWS)
    assert deletes[0] > 0
    assert deletes[1] > 0
    assert deletes[-1] == 0
    assert max(deletes) < sum(deletes) / 3
    assert remote.wrongly_deleted == []
    assert rows_of(store) == rows
    assert rows_of(remote.state().open(ROWS)) == []


COUNTS = StoreSpec("counts", "key-value", STRING, LONG, timestamped=True)
WINDOW_COUNTS = StoreSpec("counts", "window", STRING, LONG, timestamped=True, retention_ms=40_000)


@pytest.mark.parametrize("spec", [COUNTS, WINDOW_COUNTS], ids=lambda spec: spec.kind)
def test_many_keys_are_counted_with_few_requests_and_little_memory(spec: StoreSpec) -> None:
    twins = Twins(spec, page_bytes=500, memory_limit=100_000, log_limit=20_000)
    start = () if spec is COUNTS else (1_000,)
    for batch in range(6):
        keys = [f"key{(n * 7 + batch) % 4_000}" for n in range(5_000)]
        twins.crash()
        before = twins.remote.fetches
        twins.call("count_all", keys, *start, list(range(batch, 5_000 + batch)))
        assert twins.remote.fetches - before <= 12
        twins.commit()
    assert twins.state.figures()["pages"] > 100
    assert twins.state.memory <= 100_000
    for n in range(0, 4_000, 100):
        twins.read("get", f"key{n}", *start)
