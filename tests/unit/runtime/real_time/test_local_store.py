"""The local store of a task: damage is noticed and leads to a replay of the changelogs; a full disk loses nothing."""

from __future__ import annotations

import logging
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.unit.runtime.real_time.changelogs import Twins

from millstream.errors import DamagedLocalStoreError, StateError
from millstream.runtime.real_time import local_store
from millstream.runtime.real_time.local_store import LocalStore
from millstream.runtime.real_time.task_state import TaskState
from millstream.serde import LONG, STRING
from millstream.state.paged import Writes
from millstream.state.spec import StoreSpec

ROWS = StoreSpec("rows", "key-value", STRING, LONG)
TOPIC = "app-rows-changelog"


def filled(path: Path, **options: Any) -> Twins:
    """Returns a store of 300 rows, all of which are in the local store, and 10 that only the changelog has."""
    twins = Twins(ROWS, path, page_bytes=200, **options)
    for n in range(300):
        twins.call("put", f"key{n}", n)
    twins.publish(force=True)
    for n in range(10):
        twins.call("put", f"key{n}", -n)
    twins.publish(0.1)
    return twins


def check(twins: Twins) -> None:
    twins.paged = twins.state.open(ROWS)
    twins.read("range")
    twins.state.close()


def test_a_restarted_task_replays_only_the_rest_of_its_changelog(tmp_path: Path) -> None:
    twins = filled(tmp_path / "store.db")
    twins.crash()
    assert twins.state.tags == {TOPIC: 300}
    check(twins)


@pytest.mark.parametrize("seed", range(12))
def test_flipped_bytes_never_give_wrong_rows(tmp_path: Path, seed: int) -> None:
    twins = filled(tmp_path / "store.db")
    twins.state.close()
    data = bytearray(twins.path.read_bytes())  # type: ignore[union-attr]
    numbers = random.Random(seed)
    for _ in range(1 + seed % 3):
        data[numbers.randrange(len(data))] ^= 1 << numbers.randrange(8)
    (tmp_path / "store.db").write_bytes(data)
    twins.state = twins.restored(twins.path)
    check(twins)


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.3, 0.9])
def test_a_truncated_file_is_replaced(tmp_path: Path, kept: float) -> None:
    twins = filled(tmp_path / "store.db")
    twins.state.close()
    data = (tmp_path / "store.db").read_bytes()
    (tmp_path / "store.db").write_bytes(data[: int(len(data) * kept)])
    twins.state = twins.restored(twins.path)
    assert twins.state.tags == {}
    check(twins)


def test_a_file_that_is_no_database_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"no database" * 1000)
    twins = filled(tmp_path / "store.db")
    twins.crash()
    assert twins.state.tags == {TOPIC: 300}
    check(twins)


def test_a_file_that_was_never_complete_is_replaced_silently(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As that of a worker which ended after a few seconds."""
    caplog.set_level(logging.INFO)
    for _start in range(2):
        state = TaskState("app", "0_0", [ROWS], tmp_path / "store.db", memory_limit=10**9)
        assert state.tags == {}
        state.close()
    assert caplog.text == ""


def test_a_file_of_another_identity_is_replaced(tmp_path: Path) -> None:
    twins = filled(tmp_path / "store.db")
    twins.state.close()
    state = TaskState("app", "0_0", [ROWS], twins.path, memory_limit=10**9, identity=b"other")
    assert (state.tags, list(state.open(ROWS).range())) == ({}, [])
    state.close()


def test_a_file_that_is_ahead_of_its_changelog_is_replaced(tmp_path: Path) -> None:
    twins = filled(tmp_path / "store.db")
    twins.state.close()
    state = twins.new_state(twins.path)
    state.check({TOPIC: 299})
    assert (state.tags, list(state.open(ROWS).range())) == ({}, [])
    state.close()


def test_a_file_is_too_old_when_changelogs_may_have_lost_deletions(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    for hours, expected in ((0, None), (11, {TOPIC: 5}), (24, None)):
        store = LocalStore(path, b"", "0_0", clock=lambda hours=hours: 3600.0 * hours)  # type: ignore[misc]
        assert store.tags == expected
        store.write(store.stage(Writes([(b"k", b"v")], [])), {TOPIC: 5})
        store.close()


@pytest.mark.parametrize(
    "damage",
    ["UPDATE pages SET value = substr(value, 2) WHERE key > x'70'", "DELETE FROM pages WHERE key > x'70'"],
    ids=["changed", "missing"],
)
def test_damage_that_is_found_later_ends_the_task_and_the_next_one_begins_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(local_store, "_VERIFIED", 0)
    twins = filled(tmp_path / "store.db", memory_limit=0)
    twins.state.close()
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute(damage)
    connection.close()
    state = twins.new_state(twins.path)
    with pytest.raises(DamagedLocalStoreError, match=r"is damaged: a page (does not match its checksum|is missing)"):
        list(state.open(ROWS).range())
    state.close()
    twins.state = twins.restored(twins.path)
    check(twins)


def test_a_former_owner_cannot_write(tmp_path: Path) -> None:
    former = LocalStore(tmp_path / "store.db", b"", "0_0")
    former.write(former.stage(Writes([(b"k", b"1")], [])), {})
    owner = LocalStore(tmp_path / "store.db", b"", "0_0")
    with pytest.raises(DamagedLocalStoreError, match="another owner"):
        former.write(former.stage(Writes([(b"k", b"2")], [])), {})
    assert owner.fetch([b"k"]) == [b"1"]
    former.close()
    owner.close()


def test_staged_writes_are_read_before_they_are_written_and_each_commit_writes_its_own(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store.db", b"", "0_0")
    first = store.stage(Writes([(b"a", b"1"), (b"b", b"1")], []))
    second = store.stage(Writes([(b"a", b"2")], [b"b"]))
    store.write(first, {TOPIC: 1})
    assert store.fetch([b"a", b"b"]) == [b"2", None]
    store.close()
    store = LocalStore(tmp_path / "store.db", b"", "0_0")
    assert (store.fetch([b"a", b"b"]), store.tags) == ([b"1", b"1"], {TOPIC: 1})
    store.write(second, {TOPIC: 2})
    assert store.fetch([b"a", b"b"]) == [b"2", None]
    store.close()


def fill_disk(store: LocalStore, pages: int) -> None:
    """Limits the size of the file, so that SQLite reports a full disk."""
    store._writer.execute(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_keeps_pages_in_memory_until_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    twins = filled(tmp_path / "store.db", memory_limit=10**6)
    local = twins.state._local
    assert local is not None
    fill_disk(local, 1)
    for n in range(300, 3_000):
        twins.call("put", f"key{n}", n)
    twins.publish(force=True)
    assert "cannot be written" in caplog.text
    assert twins.state.figures()["unwritten-bytes"] > 0
    twins.read("range")
    fill_disk(local, 1 << 20)
    twins.publish(force=True)
    assert twins.state.figures()["unwritten-bytes"] == 0
    twins.crash()
    assert twins.state.tags == {TOPIC: twins.log.end}
    check(twins)


def test_a_disk_that_stays_full_ends_the_task_before_memory_does(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store.db", b"", "0_0", backlog_limit=1_000)
    fill_disk(store, 1)
    writes = Writes([(b"k%d" % n, bytes(100)) for n in range(2_000)], [])
    with pytest.raises(StateError, match=r"cannot be written .* database or disk is full"):
        store.write(store.stage(writes), {})
    assert store.fetch([b"k7"]) == [bytes(100)]
    store.close()


def test_a_directory_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "store.db").mkdir()
    with pytest.raises(StateError, match="cannot be opened"):
        LocalStore(tmp_path / "store.db", b"", "0_0")
