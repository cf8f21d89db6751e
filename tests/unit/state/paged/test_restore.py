"""Stores are restored from a checkpoint in pages and the rest of the changelog."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.state.paged.remote import ALL, BUFFER, PAIRS, PUTS, ROWS, VERSIONS, Remote, rows_of

from millstream.errors import StateError
from millstream.serde import JSON
from millstream.serde.key_layouts import store_window_key
from millstream.state.memory import open_store
from millstream.state.spec import ChangelogRecord, StoreSpec

TIMED = [spec for spec in ALL if spec not in (ROWS, BUFFER)]


def changed_again(store: Any) -> None:
    """Replaces rows, deletes rows and adds rows, beyond those of the checkpoint."""
    put = PUTS[store.spec.name]
    for n in (3, 5, 200, 201):
        put(store, n)
    if store.spec.kind == "key-value":
        store.put("key7", None)
    elif store.spec.kind == "session":
        store.remove("key7", 70, 75)
    elif store.spec.kind == "versioned":
        store.put("key7", None, 71)
    elif store.spec.kind == "buffer":
        store.pop_first()
    elif not store.spec.duplicates:
        store.put("key7", 70, None)


def checkpoint(remote: Remote, spec: StoreSpec) -> Any:
    """Writes pages of 100 rows to the map; returns a store in memory with the same rows."""
    state = remote.state(page_bytes=200, log_limit=0)
    stores: list[Any] = [state.open(spec), open_store(spec)]
    for store in stores:
        for n in range(100):
            PUTS[spec.name](store, n)
    remote.apply(state.commit(b""))
    stores[1].changes()
    return stores[1]


@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.name)
def test_the_rest_of_the_changelog_is_restored_over_a_checkpoint(spec: StoreSpec) -> None:
    remote = Remote()
    expected = checkpoint(remote, spec)
    changed_again(expected)
    state = remote.state(page_bytes=200, log_limit=0, memory_limit=0)
    store: Any = state.open(spec)
    store.restore(expected.changes())
    assert (rows_of(store), store.time) == (rows_of(expected), expected.time)
    assert store.changes() == []
    remote.apply(state.commit(b""))
    again: Any = remote.state(memory_limit=0).open(spec)
    assert (rows_of(again), again.time) == (rows_of(expected), expected.time)


def test_a_restored_row_replaces_that_of_a_page_which_is_loaded_later() -> None:
    remote = Remote()
    assert checkpoint(remote, PAIRS).fetch("key5", 0, 1_000) == [(50, 5)]
    store: Any = remote.state(page_bytes=200, memory_limit=0).open(PAIRS)
    store.restore(
        [
            ChangelogRecord(store_window_key(b"key5", 50, 6), (99).to_bytes(8, "big"), 50),
            ChangelogRecord(store_window_key(b"key6", 60, 7), None, 60),
        ]
    )
    assert (store.fetch("key5", 0, 1_000), store.fetch("key6", 0, 1_000)) == ([(50, 99)], [])


def test_sequence_numbers_continue_behind_those_of_the_changelog() -> None:
    source: Any = open_store(PAIRS)
    for n in range(3):
        source.put("a", n, n)
    state = Remote().state()
    store: Any = state.open(PAIRS)
    store.restore(source.changes())
    store.put("a", 5, 5)
    assert [record.key[-1] for record in store.changes()] == [4]


def test_versions_older_than_the_horizon_are_not_restored() -> None:
    remote = Remote()
    state = remote.state()
    store: Any = state.open(VERSIONS)
    store.restore([ChangelogRecord(b"a", (1).to_bytes(8, "big"), 100_000)])
    store.restore([ChangelogRecord(b"b", (2).to_bytes(8, "big"), 10)])
    remote.apply(state.commit(b""))
    again: Any = remote.state(memory_limit=0).open(VERSIONS)
    assert (again.get("a"), again.get("b")) == ((1, 100_000), None)


@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.name)
def test_a_store_with_uncommitted_changes_is_not_restored(spec: StoreSpec) -> None:
    store: Any = Remote().state().open(spec)
    PUTS[spec.name](store, 1)
    with pytest.raises(StateError, match="cannot be restored: it has changes that were not committed"):
        store.restore([])


@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.name)
@pytest.mark.parametrize("coded", [False, True])
def test_every_store_reports_its_time(spec: StoreSpec, coded: bool) -> None:
    value = JSON if coded else spec.value
    own = StoreSpec(spec.name, spec.kind, spec.key, value, False, spec.retention_ms, duplicates=spec.duplicates)
    stores: list[Any] = [open_store(own), Remote().state().open(own)]
    timed = spec in TIMED
    assert [store.time for store in stores] == [-1 if timed else None] * 2
    for store in stores:
        PUTS[spec.name](store, 7)
    assert [store.time for store in stores] == [75 if spec.kind == "session" else 70 if timed else None] * 2
