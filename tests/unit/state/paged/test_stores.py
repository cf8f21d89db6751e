"""Added and dropped stores, and the page cache."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.state.paged.remote import (
    BUFFER,
    PAIRS,
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
from millstream.serde import LONG, STRING
from millstream.state.spec import StoreSpec

# --- added and dropped stores -----------------------------------------------------------------------------------------


def test_a_store_of_another_kind_starts_empty() -> None:
    remote = Remote()
    filled(remote, [ROWS])
    spec = StoreSpec("rows", "window", STRING, LONG, retention_ms=1_000)
    state = remote.state()
    store: Any = state.open(spec)
    assert store.all() == []
    store.put("a", 5, 1)
    remote.apply(state.commit(b""))
    again: Any = remote.state().open(spec)
    assert again.all() == [("a", 5, 1)]


def test_a_store_that_comes_back_starts_empty() -> None:
    remote = Remote()
    filled(remote, [ROWS, WINDOWS])
    state = remote.state()
    state.open(WINDOWS)
    remote.apply(state.commit(b"without"))
    state = remote.state()
    store: Any = state.open(ROWS)
    state.open(WINDOWS)
    assert list(store.range()) == []
    store.put("a", 1)
    remote.apply(state.commit(b""))
    again: Any = remote.state().open(ROWS)
    assert list(again.range()) == [("a", 1)]


def test_a_new_store_with_the_id_of_a_dropped_one_does_not_replay_its_log() -> None:
    remote = Remote()
    filled(remote, [WINDOWS, ROWS])
    state = remote.state()
    state.open(WINDOWS)
    remote.apply(state.commit(b"without"))
    state = remote.state()
    state.open(WINDOWS)
    other = StoreSpec("other", "key-value", STRING, LONG)
    store: Any = state.open(other)
    store.put("a", 1)
    remote.apply(state.commit(b""))
    again: Any = remote.state().open(other)
    assert list(again.range()) == [("a", 1)]


def test_an_open_store_is_opened_once() -> None:
    state = Remote().state()
    assert state.open(ROWS) is state.open(ROWS)


def test_a_dropped_store_cannot_be_opened() -> None:
    remote = Remote()
    filled(remote, [ROWS])
    state = remote.state()
    state.commit(b"")
    state.open(WINDOWS)  # a new one is opened
    with pytest.raises(StateError, match="'rows' was opened after the first batch, which has deleted its rows"):
        state.open(ROWS)


def test_a_specification_is_checked() -> None:
    with pytest.raises(StateError, match="only a key-value store can be grouped"):
        Remote().state().open(StoreSpec("s", "window", STRING, LONG, grouped=True))


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [ROWS, WINDOWS, PAIRS, SESSIONS, VERSIONS], ids=lambda spec: spec.name)
def test_a_state_larger_than_memory_is_evicted_and_loaded(spec: StoreSpec) -> None:
    remote = Remote()
    state = filled(remote, [spec], 500, memory_limit=20_000, page_bytes=500)
    assert state.memory <= 20_000
    figures = state.figures()
    assert 0 < figures["pages-resident"] < figures["pages"]
    assert 400 <= figures["rows"] <= 600  # rows that are not in memory are estimated
    everything: Any = Remote()
    assert rows_of(state.open(spec)) == rows_of(filled(everything, [spec], 500).open(spec))
    state.commit(b"read")
    assert state.memory <= 20_000


def test_memory_is_bounded_while_a_batch_reads() -> None:
    remote = Remote()
    filled(remote, [ROWS], 20_000, log_limit=0)
    state = remote.state(memory_limit=300_000)
    store: Any = state.open(ROWS)
    for n in range(0, 20_000, 7):
        assert store.get(f"key{n}") == n
        assert state.memory < 500_000


def test_changed_rows_are_not_evicted_by_reads_of_others() -> None:
    twins = Twins(ROWS, memory_limit=5_000, page_bytes=500)
    for n in range(500):
        twins.call("put", f"key{n}", n)
    twins.commit()
    for n in range(0, 500, 50):
        if n % 100:  # some of the pages are in memory when they change
            twins.read("get", f"key{n}")
        twins.call("put", f"key{n}", -n)
        twins.call("put", f"key{n + 1}", None)
    for n in range(500):
        twins.read("get", f"key{n}")
    twins.commit()
    twins.read("range")


def test_a_buffer_is_never_evicted() -> None:
    remote = Remote()
    filled(remote, [BUFFER], 500, memory_limit=0, page_bytes=500)
    state = remote.state(memory_limit=0)
    store: Any = state.open(BUFFER)
    fetches = remote.fetches
    assert [store.pop_first()[2] for _ in range(500)] == list(range(500))
    assert remote.fetches == fetches
