"""The writes of a commit, and the stores after a restart."""

from __future__ import annotations

import time
from typing import Any
from zlib import crc32

import msgspec
import pytest
from tests.unit.state.paged.remote import (
    ALL,
    BUFFER,
    PAIRS,
    PUTS,
    ROWS,
    SESSIONS,
    VERSIONS,
    WINDOWS,
    Remote,
    Twins,
    filled,
    rows_of,
)

from millstream.errors import StateError
from millstream.serde import BYTES, JSON, LONG, STRING, Serde
from millstream.state.paged import MANIFEST_KEY, PagedState
from millstream.state.spec import StoreSpec

# --- writes of a commit -----------------------------------------------------------------------------------------------


def test_a_new_task_has_no_extra_and_the_last_extra_comes_back() -> None:
    remote = Remote()
    assert remote.state().load(None) is None
    state = remote.state()
    state.open(ROWS)
    remote.apply(state.commit(b"first"))
    remote.apply(state.commit(b"second"))
    assert PagedState(remote.fetch, memory_limit=1).load(remote.map[MANIFEST_KEY]) == b"second"


def test_nothing_is_written_if_nothing_has_changed_also_after_a_restart() -> None:
    remote = Remote()
    state = filled(remote, ALL)
    assert state.commit(b"") == ([], [])
    again = remote.state()
    for spec in reversed(ALL):
        rows_of(again.open(spec))
    assert again.changes() == {}
    assert again.commit(b"") == ([], [])


def test_only_the_manifest_is_written_if_only_the_extra_has_changed() -> None:
    remote = Remote()
    writes = filled(remote, ALL).commit(b"other")
    assert [key for key, _ in writes.puts] == [MANIFEST_KEY]
    assert writes.deletes == []


def test_a_batch_writes_one_log_segment_of_the_rows_it_changed() -> None:
    remote = Remote()
    state = filled(remote, [ROWS])
    store: Any = state.open(ROWS)
    store.put("key7", 8)
    writes = state.commit(b"")
    assert [key[:1] for key, _ in writes.puts] == [b"l", b"m"]
    assert sum(len(value) for _, value in writes.puts) < 200


def test_changes_of_all_stores_are_reported_once() -> None:
    state = Remote().state()
    rows: Any = state.open(ROWS)
    unlogged: Any = state.open(StoreSpec("unlogged", "key-value", STRING, LONG, logged=False))
    state.open(WINDOWS)
    rows.put("a", 1)
    unlogged.put("b", 2)
    changes = state.changes()
    assert {name: [record.key for record in records] for name, records in changes.items()} == {
        "rows": [b"a"],
        "unlogged": [b"b"],
    }
    assert state.changes() == {}


@pytest.mark.parametrize("logged", [True, False])
@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.name)
def test_rows_survive_a_restart_also_if_their_changes_were_reported(spec: StoreSpec, logged: bool) -> None:
    remote = Remote()
    state = remote.state()
    own = StoreSpec(
        spec.name, spec.kind, spec.key, spec.value, False, spec.retention_ms, duplicates=spec.duplicates, logged=logged
    )
    store: Any = state.open(own)
    for n in range(50):
        PUTS[spec.name](store, n)
    store.changes()
    remote.apply(state.commit(b""))
    assert rows_of(remote.state().open(own)) == rows_of(store)


@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.name)
def test_rows_restored_from_a_changelog_are_committed_but_not_reported_as_changes(spec: StoreSpec) -> None:
    source = Remote().state()
    store: Any = source.open(spec)
    for n in range(50):
        PUTS[spec.name](store, n)
    changelog = store.changes()
    remote = Remote()
    state = remote.state()
    restored: Any = state.open(spec)
    restored.restore(iter(changelog))
    assert restored.changes() == []
    remote.apply(state.commit(b""))
    assert rows_of(remote.state().open(spec)) == rows_of(store)


def test_large_log_segments_are_cut_into_pieces() -> None:
    remote = Remote()
    spec = StoreSpec("rows", "key-value", STRING, BYTES)
    state = remote.state(page_bytes=10**9)
    store: Any = state.open(spec)
    for n in range(10):
        store.put(f"key{n}", bytes([n]) * 200_000)
    remote.apply(state.commit(b""))
    pieces = [value for key, value in remote.map.items() if key[:1] == b"l"]
    assert len(pieces) == 4
    assert max(map(len, pieces)) <= 512 * 1024
    again: Any = remote.state().open(spec)
    assert [again.get(f"key{n}") for n in range(10)] == [bytes([n]) * 200_000 for n in range(10)]


# --- after a restart --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [WINDOWS, PAIRS, SESSIONS, VERSIONS], ids=lambda spec: spec.name)
def test_the_time_of_a_store_survives_the_row_that_set_it(spec: StoreSpec) -> None:
    remote = Remote()
    state = remote.state(log_limit=0)
    store: Any = state.open(spec)
    PUTS[spec.name](store, 100)
    if spec.kind == "session":
        store.remove("key100", 1_000, 1_005)
    elif not spec.duplicates and spec.kind == "window":
        store.put("key100", 1_000, None)
    remote.apply(state.commit(b""))
    again: Any = remote.state().open(spec)
    assert again.time == store.time >= 1_000


def test_sequence_numbers_of_duplicates_continue_after_a_restart() -> None:
    remote = Remote()
    state = remote.state(log_limit=0)
    store: Any = state.open(PAIRS)
    store.put("a", 5, 1)
    remote.apply(state.commit(b""))
    state = remote.state()
    store = state.open(PAIRS)
    store.put("a", 5, 2)
    store.put("a", 5, 3)
    assert [int.from_bytes(record.key[-4:], "big") for record in store.changes()] == [2, 3]
    assert store.fetch("a", 0, 10) == [(5, 1), (5, 2), (5, 3)]


@pytest.mark.parametrize("limit", [0, 10**9], ids=["in pages", "in the log"])
@pytest.mark.parametrize("memory", [0, 10**9], ids=["loaded by page", "loaded at once"])
@pytest.mark.parametrize(
    "puts",
    [
        [(1, 20), (2, 10), (None, 20), (3, 15), (None, 10), (4, 20), (None, 20), (5, 12)],
        [(1, 20), (None, 10), (None, 20), (5, 15)],  # a version ends at 20
    ],
)
def test_versions_behave_the_same_after_each_restart(
    puts: list[tuple[int | None, int]], memory: int, limit: int
) -> None:
    twins = Twins(VERSIONS, memory_limit=memory, log_limit=limit)
    for value, timestamp in puts:
        twins.call("put", "a", value, timestamp)
        twins.commit()
        twins.crash()
        for as_of in range(25):
            twins.read("get_as_of", "a", as_of)


def test_versions_in_a_page_are_not_replayed_from_the_log() -> None:
    remote = Remote()
    state = remote.state(page_bytes=100, log_limit=0)
    state.open(ROWS)
    versions: Any = state.open(VERSIONS)
    versions.put("b", 1, 1)  # a page exists, so it is written back early when it grows
    remote.apply(state.commit(b""))
    assert remote.count(b"p") == 1
    state = remote.state(page_bytes=100)
    rows: Any = state.open(ROWS)
    versions = state.open(VERSIONS)
    rows.put("a", 1)  # its page needs the log from here on
    for value, timestamp in [(1, 20), (None, 20), (3, 15)]:
        versions.put("a", value, timestamp)
        remote.apply(state.commit(b""))
    for n in range(60):  # enough for the page of the versions to be written back
        versions.put(f"key{n}", n, 30)
    remote.apply(state.commit(b""))
    assert remote.count(b"l") == 4
    assert remote.count(b"p") > 1
    state = remote.state()
    state.open(ROWS)
    again: Any = state.open(VERSIONS)
    assert again.get("a") == (3, 15)


def test_a_page_without_versions_still_needs_the_log_of_the_deleted_ones() -> None:
    """A tombstone removes a version of the same time. Replayed without that version, it would stay."""
    remote = Remote()
    spec = StoreSpec("versions", "versioned", STRING, STRING, retention_ms=40_000)
    odd = crc32(b"key") & 1
    others = [name for name in map(str, range(99)) if crc32(name.encode()) & 1 != odd][:2]
    state = remote.state(page_bytes=1000, log_limit=30_000)
    rows: Any = state.open(ROWS)
    versions: Any = state.open(spec)
    versions.put("key", "x", 20)
    remote.apply(state.commit(b""))
    versions.put("key", None, 20)
    rows.put("a", 1)
    remote.apply(state.commit(b""))
    for other in others:  # in the other page, once there are two
        versions.put(other, "y" * 5_000, 10)
    remote.apply(state.commit(b""))
    state = remote.state(page_bytes=1000)
    state.open(ROWS)
    again: Any = state.open(spec)
    assert versions.put("key", "z", 10) == again.put("key", "z", 10)
    assert versions.get("key") == again.get("key") == ("z", 10)


def test_a_buffer_of_many_pages_stays_in_memory() -> None:
    remote = Remote()
    state = remote.state(page_bytes=60, log_limit=0, memory_limit=0)
    buffer: Any = state.open(BUFFER)
    for n in range(300):
        buffer.put(n, b"x%d" % n, n)
        if n % 50 == 49:
            remote.apply(state.commit(b""))
    again: Any = remote.state(page_bytes=60, memory_limit=0).open(BUFFER)
    assert rows_of(again) == rows_of(buffer)
    assert len(again) == 300


def test_the_log_is_kept_while_a_store_needs_it_in_any_order_of_opening() -> None:
    remote = Remote()
    state = remote.state()
    rows: Any = state.open(ROWS)
    windows: Any = state.open(WINDOWS)
    rows.put("a", 1)
    remote.apply(state.commit(b""))
    windows.put("a", 5, 1)
    remote.apply(state.commit(b""))
    for _ in range(2):
        state = remote.state()
        windows = state.open(WINDOWS)
        rows = state.open(ROWS)
        assert rows.get("a") == 1
        windows.put("b", 5, 1)
        remote.apply(state.commit(b""))


WRITES_WITHOUT_READING = [
    (ROWS, [("put", "a", 2), ("put", "b", None)], [("get", "c"), ("get", "a"), ("get", "b"), ("range",)]),
    (
        WINDOWS,
        [("put", "a", 7, 2), ("put", "b", 7, None)],
        [("get", "c", 7), ("fetch", "a", 0, 9), ("get", "b", 7), ("all",)],
    ),
    (PAIRS, [("put", "a", 7, 2)], [("fetch", "c", 0, 9), ("fetch", "a", 0, 9), ("all",)]),
    (
        SESSIONS,
        [("put", "a", 7, 7, 2), ("remove", "b", 7, 7)],
        [("fetch", "c"), ("fetch", "a"), ("fetch", "b"), ("fetch_keys",)],
    ),
    (VERSIONS, [("put", "a", 2, 7), ("put", "b", None, 8)], [("get", "c"), ("get", "a"), ("get", "b")]),
]


@pytest.mark.parametrize("between", ["read", "changes", "commit"])
@pytest.mark.parametrize(("spec", "puts", "reads"), WRITES_WITHOUT_READING, ids=lambda case: getattr(case, "name", ""))
def test_a_page_that_is_loaded_later_does_not_undo_puts(
    spec: StoreSpec, puts: list[Any], reads: list[Any], between: str
) -> None:
    twins = Twins(spec, memory_limit=0)
    for key in "abc":
        arguments = {"session": (7, 7, 1), "window": (7, 1), "versioned": (1, 7)}.get(spec.kind, (1,))
        twins.call("put", key, *arguments)
    twins.commit()
    for name, *arguments in puts:
        twins.call(name, *arguments)
    if between == "changes":
        twins.state.changes()
        twins.memory.changes()
    elif between == "commit":
        twins.commit()
    for name, *arguments in reads:
        twins.read(name, *arguments)
    twins.commit()
    twins.crash()
    for name, *arguments in reads:
        twins.read(name, *arguments)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "what", "known"), [(b"m", "the manifest", 1), (b"l", "segment . of the log", 2), (b"p", "page . of", 1)]
)
@pytest.mark.parametrize("version", [0, 99])
def test_another_format_is_refused(kind: bytes, what: str, known: int, version: int) -> None:
    remote = Remote()
    filled(remote, [ROWS], memory_limit=20_000, page_bytes=500)
    other = bytes([version])
    remote.map = {key: other + data[1:] if key[:1] == kind else data for key, data in remote.map.items()}

    def read() -> None:
        store: Any = remote.state().open(ROWS)
        store.get("key1")

    with pytest.raises(
        StateError, match=f"{what}.* in format {version}; this version of Millstream reads format {known}"
    ):
        read()


@pytest.mark.parametrize(("kind", "what"), [(b"l", "segment . of the log is missing"), (b"p", "page .* is missing")])
def test_a_missing_page_or_log_segment_is_an_error(kind: bytes, what: str) -> None:
    remote = Remote()
    filled(remote, [ROWS], memory_limit=20_000, page_bytes=500)
    remote.map = {key: data for key, data in remote.map.items() if key[:1] != kind}

    def read() -> None:
        store: Any = remote.state().open(ROWS)
        store.get("key1")

    with pytest.raises(StateError, match=f"damaged: {what}"):
        read()


def test_an_unreadable_manifest_is_an_error() -> None:
    remote = Remote()
    filled(remote, [ROWS])
    remote.map[MANIFEST_KEY] = remote.map[MANIFEST_KEY][:-1]
    with pytest.raises(StateError, match="damaged: the manifest cannot be read"):
        remote.state()


def test_a_log_segment_with_columns_of_different_lengths_is_an_error() -> None:
    remote = Remote()
    filled(remote, [ROWS], log_limit=10**9)
    data = msgspec.msgpack.encode([(0, ([b"key1"], [], []))])
    key = next(key for key in remote.map if key[:1] == b"l")
    remote.map[key] = remote.map[key][:3] + data
    with pytest.raises(StateError, match=r"damaged: segment . of the log cannot be read"):
        remote.state()


def test_an_error_of_fetch_is_raised_to_the_caller() -> None:
    remote = Remote()
    filled(remote, [ROWS], 20_000, log_limit=0)
    store: Any = remote.state(memory_limit=300_000).open(ROWS)
    remote.error = ConnectionError("no answer")
    with pytest.raises(ConnectionError, match="no answer"):
        store.get("key1")
    remote.error = None
    assert store.get("key1") == 1


def test_mutable_values_are_held_as_bytes() -> None:
    twins = Twins(StoreSpec("s", "key-value", JSON, JSON), memory_limit=0)
    value = {"n": 1}
    twins.call("put", ["a"], value)
    value["n"] = 2
    twins.commit()
    assert twins.read("get", ["a"]) == {"n": 1}


class _Point:
    """A value that cannot be compared with None."""

    def __init__(self, x: int) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return self.x == other.x  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return self.x


class _Points(Serde[_Point]):
    name = "point"
    immutable = True

    def serialize(self, value: _Point | None) -> bytes | None:
        return None if value is None else b"%d" % value.x

    def deserialize(self, data: bytes | None) -> _Point | None:
        return None if data is None else _Point(int(data))


def test_values_are_not_compared() -> None:
    remote = Remote()
    state = remote.state(log_limit=0)
    store: Any = state.open(StoreSpec("points", "key-value", STRING, _Points()))
    store.put("a", _Point(1))
    remote.apply(state.commit(b""))
    again = remote.state()
    again.load(remote.map[MANIFEST_KEY])
    loaded: Any = again.open(store.spec)
    assert loaded.get("a").x == 1


def test_rows_of_large_stores_are_not_counted_with_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some stores iterate over all keys for it, and the cost of a batch must not depend on their number."""
    state = Remote().state()
    store = state.open(SESSIONS)
    counts: list[int] = []

    def long(_store: object) -> int:
        counts.append(1)
        end = time.thread_time() + 0.002
        while time.thread_time() < end:
            pass
        return 7

    monkeypatch.setattr(type(store), "__len__", long)
    for _ in range(10):
        assert state.sizes()[SESSIONS.name].rows == 7
    assert len(counts) == 1
