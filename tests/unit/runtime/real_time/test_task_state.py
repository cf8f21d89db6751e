"""What a task's state publishes, which offsets it still needs, and when it writes its local store."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from millstream.errors import StateError
from millstream.runtime.real_time.live_offsets import LiveOffsets
from millstream.runtime.real_time.task_state import INTERVAL, TaskState
from millstream.serde import LONG, STRING
from millstream.state.spec import ChangelogRecord, StoreSpec

ROWS = StoreSpec("rows", "key-value", STRING, LONG, logged=False)
TIMED = StoreSpec("timed", "key-value", STRING, LONG, timestamped=True)
VERSIONS = StoreSpec("versions", "versioned", STRING, STRING, retention_ms=1_000)
PAIRS = StoreSpec("pairs", "window", STRING, LONG, retention_ms=1_000, duplicates=True)


def state_of(*specs: StoreSpec, path: Path | None = None, **options: Any) -> TaskState:
    return TaskState("app", "0_0", specs, path, **{"memory_limit": 10**9, **options})


def test_every_store_has_a_changelog_also_one_without_logging() -> None:
    state = state_of(ROWS)
    store = state.open(ROWS)
    store.put("a", 1)
    store.put("b", 1)
    store.put("a", None)
    blocks = state.changes(latest=42)
    assert blocks == [("rows", "app-rows-changelog", [b"a", b"b"], [None, (1).to_bytes(8, "big")], [42, 42])]
    assert state.changes() == []


def test_a_deleted_row_has_the_time_of_the_task() -> None:
    state = state_of(TIMED)
    store = state.open(TIMED)
    store.put("a", (1, 5))
    store.put("b", None)
    assert state.changes(latest=42)[0].timestamps == [5, 42]


def test_each_version_has_a_changelog_key_of_its_own() -> None:
    state = state_of(VERSIONS)
    store = state.open(VERSIONS)
    store.put("a", "x", 10)
    store.put("a", None, 20)
    block = state.changes()[0]
    times = [(10).to_bytes(8, "big"), (20).to_bytes(8, "big")]
    assert block.keys == [b"a" + time for time in times]
    assert block.values == [b"\0x", b"\1"]


def test_versions_that_leave_the_history_are_deleted_once() -> None:
    state = state_of(VERSIONS)
    store = state.open(VERSIONS)
    for time in (10, 20):
        store.put("a", "x", time)
    state.changes()
    store.put("a", "x", 5_000)
    store.put("b", "y", 9_000)
    block = state.changes()[0]
    deleted = [key for key, value in zip(block.keys, block.values, strict=True) if value is None]
    assert deleted == [b"a" + (10).to_bytes(8, "big"), b"a" + (20).to_bytes(8, "big")]
    store.put("b", "z", 9_001)
    assert None not in state.changes()[0].values


def test_versions_that_left_the_history_before_a_restart_are_deleted_after_it(tmp_path: Path) -> None:
    state = state_of(VERSIONS, path=tmp_path / "store.db")
    for time in (10, 500, 1_000):
        state.open(VERSIONS).put("a", "x", time)
    state.changes()
    snapshot = state.snapshot(0, force=True)
    assert snapshot is not None
    state.write(snapshot, {"app-versions-changelog": 3})
    state.close()
    again = state_of(VERSIONS, path=tmp_path / "store.db")
    again.resume({"store.versions": 9_000})
    again.restore("app-versions-changelog", [])
    assert again.changes() == []
    again.open(VERSIONS).put("b", "y", 9_001)
    assert again.changes()[0].values.count(None) == 2
    again.close()


def test_a_version_of_a_new_key_is_kept_when_its_page_was_evicted_meanwhile(tmp_path: Path) -> None:
    state = state_of(VERSIONS, path=tmp_path / "store.db", page_bytes=60, memory_limit=0)
    store = state.open(VERSIONS)
    for n in range(50):
        store.put(f"key{n}", "x", 100)
    state.changes()
    state.snapshot(0, force=True)
    for n in range(50, 100):
        store.put(f"key{n}", None, 200)
        assert store.get(f"key{n % 50}") == ("x", 100)
    state.changes()
    state.snapshot(1, force=True)
    assert {store.valid_to(f"key{n}", 0) for n in range(50, 100)} == {200}
    state.close()


def test_sequence_numbers_continue_when_no_row_is_left_to_tell_them() -> None:
    state = state_of(PAIRS)
    for n in range(3):
        state.open(PAIRS).put("a", n, n)
    state.changes()
    again = state_of(PAIRS)
    again.resume({**state.cells(), "store.pairs": 2})
    again.open(PAIRS).put("a", 2, 7)
    assert [key[-1] for key in again.changes()[0].keys] == [4]


def test_records_of_expired_rows_are_not_needed_once_their_expiry_is_committed() -> None:
    live = LiveOffsets(["topic"])
    for time, floor, end, expected in (
        (100, -900, 10, {}),
        (100, -900, 20, {}),
        (1_050, 50, 30, {}),
        (1_150, 150, 40, {"topic": 20}),
        (9_000, 8_000, 50, {"topic": 40}),
    ):
        live.publish({"topic": (time, floor)})
        assert live.committed({"topic": end}) == expected


def test_a_snapshot_before_the_changes_are_published_is_refused(tmp_path: Path) -> None:
    state = state_of(ROWS, path=tmp_path / "store.db")
    store = state.open(ROWS)
    store.put("a", 1)
    state.changes()
    store.put("b", 1)
    with pytest.raises(StateError, match="has changes that were not published"):
        state.snapshot(0, force=True)
    state.close()


def test_pages_are_written_a_few_at_once(tmp_path: Path) -> None:
    state = state_of(ROWS, path=tmp_path / "store.db", page_bytes=64)
    store = state.open(ROWS)
    assert state.snapshot(0) is None
    for n in range(2_000):
        store.put(f"key{n}", n)
    state.changes()
    assert state.snapshot(INTERVAL - 0.1) is None
    snapshots = [state.snapshot(INTERVAL + n / 10) for n in range(115)]
    written = [snapshot for snapshot in snapshots if snapshot is not None]
    assert len(written) > 15
    assert [snapshot.is_advance for snapshot in written] == [True] + [False] * (len(written) - 1)
    assert (written[0].complete, written[-1].complete) == (0, 1)
    state.close()


def test_a_store_larger_than_memory_is_processed_while_another_thread_writes(tmp_path: Path) -> None:
    topic, records, end = "app-rows-changelog", list[ChangelogRecord](), 0
    state = state_of(ROWS, path=tmp_path / "store.db", page_bytes=256, memory_limit=40_000)
    store, expected = state.open(ROWS), dict[str, int]()
    written: Future[None] | None = None
    with ThreadPoolExecutor(1) as other:
        for n in range(400):
            for step in range(20):
                key = f"key{(n * 7919 + step * 104_729) % 1_500}"
                assert store.get(key) == expected.get(key)
                store.put(key, n)
                expected[key] = n
            for block in state.changes(0):
                records += map(ChangelogRecord._make, zip(*block[2:], strict=True))
            end = len(records)
            snapshot = state.snapshot(n)
            if snapshot is not None:
                written = other.submit(state.write, snapshot, {topic: end})
    assert written is not None
    written.result()
    assert state.figures()["pages-evicted"] > 100
    state.close()
    again = state_of(ROWS, path=tmp_path / "store.db", page_bytes=256, memory_limit=40_000)
    assert again.tags[topic] > end / 2
    again.restore(topic, records[again.tags[topic] :])
    assert dict(again.open(ROWS).range()) == expected
    again.close()
