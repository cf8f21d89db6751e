"""Damaged files and full disks: an error, never wrong data."""

from __future__ import annotations

import os
import random
import resource
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.unit.log.helpers import in_child, record, rows

from millstream.errors import CorruptLogError, LogError, LogFormatError, LogFullError, StateError
from millstream.log import ProducerRecord, Publication, Scope, embedded
from millstream.log.embedded import EmbeddedLog, open_log
from millstream.serde import STRING
from millstream.state.memory import open_store
from millstream.state.spec import StoreSpec
from millstream.views.changes import ViewChange, change_of
from millstream.views.reader import ViewDatabase, open_view

STORES = (
    StoreSpec("rows", "key-value", STRING, STRING, timestamped=True),
    StoreSpec("windows", "window", STRING, STRING, timestamped=True, retention_ms=100_000, window_size_ms=10),
    StoreSpec("sessions", "session", STRING, STRING, retention_ms=100_000),
    StoreSpec("versions", "versioned", STRING, STRING, retention_ms=100_000),
)


def view_changes(spec: StoreSpec) -> list[ViewChange]:
    """Rows of two partitions, over several pages."""
    changes = []
    for partition in range(2):
        store: Any = open_store(spec)
        for number in range(120):
            key, value = f"key {2 * number + partition}", f"value {number} " + "v" * (number % 40)
            match spec.kind:
                case "key-value":
                    store.put(key, (value, number))
                case "window":
                    store.put(key, number, (value, number))
                case "session":
                    store.put(key, number, number + 5, value)
                case _:
                    store.put(key, value, number)
                    store.put(key, value + "!", number + 7)
        changes.append(change_of(spec, partition, store.changes(), store.time))
    return changes


def view_rows(directory: Path) -> list[Any]:
    """All results of views: for single keys, for missing keys, and for ranges."""
    database = ViewDatabase(directory / "log.db")
    try:
        keys = [f"key {number}" for number in (0, 1, 77, 119, 239, 240)]
        rows, windows, sessions, versions = (open_view(database, "app", spec) for spec in STORES)
        return [
            [rows.get(key) for key in keys],
            list(rows.all()),
            list(rows.range("key 100", "key 150")),
            rows.approximate_num_entries(),
            [windows.fetch(key, 0, 1_000) for key in keys],
            list(windows.all()),
            [sessions.fetch(key) for key in keys],
            sessions.fetch_range(None, None),
            [versions.get(key) for key in keys],
            [versions.get(key, as_of=40) for key in keys],
        ]
    finally:
        database.close()


def fill(directory: Path) -> None:
    """A log with rows in each of its tables."""
    with open_log(directory) as log:
        log.create_topic("t", 2, {"retention.ms": "-1"})
        log.create_topic("c", 1, {"cleanup.policy": "compact"})
        for number in range(30):
            log.produce("t", [record(str(number), f"value {number} {place}", number) for place in range(20)])
            log.produce("c", [record(str(number % 5), str(number), number)])
        log.produce("t", [ProducerRecord(b"noise", random.Random(7).randbytes(60_000), 0)])
        log.cleanup.compact("c")
        log.commit_offsets("group", {("t", 0): 5})
        epoch = log.applications.acquire(Scope("app"))
        views = [change for spec in STORES for change in view_changes(spec)]
        log.applications.publish(
            Publication(Scope("app"), epoch, 1, offsets={("t", 1): 3}, state={"plan": b"p" * 500}, views=views)
        )
        log.cleanup.hold("app", {("t", 0): 2})


def everything(log: EmbeddedLog) -> Any:
    """Reads everything."""
    topics = log.topics()
    tables = [
        log.read(topic.name, partition, 0, end).to_pylist()
        for topic in topics
        for partition, end in enumerate(log.ends([topic.name])[topic.name])
    ]
    bounds = log.latest_times({(topic.name, 0): (0, 1_000) for topic in topics})
    times = [log.offsets_for_times({("t", 0): time}) for time in range(0, 30, 5)]
    sizes = [log.sizes(topic.name) for topic in topics]
    return (
        topics,
        tables,
        bounds,
        times,
        sizes,
        log.committed("group"),
        log.applications.published(Scope("app")),
        log.applications.state(Scope("app")),
    )


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    directory = tmp_path_factory.mktemp("original") / "data"
    fill(directory)
    with open_log(directory) as log:
        return directory, (everything(log), view_rows(directory))


def damaged(original: tuple[Path, Any], tmp_path: Path, content: bytes) -> Path:
    directory = tmp_path / "data"
    directory.mkdir(mode=0o700, exist_ok=True)
    for old in directory.iterdir():
        old.unlink()
    (directory / "log.db").write_bytes(content)
    return directory


def look(directory: Path, expected: Any) -> str:
    """Reads all and writes a little. Returns whether the damage was detected; fails if it had an undetected effect."""
    noticed = []
    try:
        with open_log(directory, create=False) as log:
            assert everything(log) == expected[0]
            log.produce("t", [record("k", "new")], partition=0)
    except (CorruptLogError, LogFormatError) as error:
        noticed.append(str(error))
    assert all(str(directory) in message for message in noticed)
    try:
        assert view_rows(directory) == expected[1]
    except StateError as error:
        noticed.append(str(error))
    return "noticed" if noticed else "harmless"


@pytest.mark.slow
def test_flipped_bits(original: tuple[Path, Any], tmp_path: Path) -> None:
    path, expected = original
    content = (path / "log.db").read_bytes()
    chance = random.Random(1)
    outcomes = []
    for _ in range(300):
        broken = bytearray(content)
        broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        outcomes.append(look(damaged(original, tmp_path, bytes(broken)), expected))
    assert "noticed" in outcomes


def test_pages_of_zeros(original: tuple[Path, Any], tmp_path: Path) -> None:
    path, expected = original
    content = (path / "log.db").read_bytes()
    outcomes = []
    for start in range(0, len(content), 8192):
        broken = content[:start] + bytes(8192) + content[start + 8192 :]
        outcomes.append(look(damaged(original, tmp_path, broken), expected))
    assert outcomes.count("noticed") > len(outcomes) // 3


def test_swapped_pages(original: tuple[Path, Any], tmp_path: Path) -> None:
    path, expected = original
    content = (path / "log.db").read_bytes()
    pages = [content[start : start + 8192] for start in range(0, len(content), 8192)]
    chance = random.Random(2)
    outcomes = []
    for _ in range(40):
        mixed = list(pages)
        mixed[chance.randrange(len(pages))] = chance.choice(pages)
        outcomes.append(look(damaged(original, tmp_path, b"".join(mixed)), expected))
    assert "noticed" in outcomes


def test_a_truncated_file(original: tuple[Path, Any], tmp_path: Path) -> None:
    path, expected = original
    content = (path / "log.db").read_bytes()
    chance = random.Random(3)
    for _ in range(40):
        size = chance.randrange(len(content) - 8192)
        assert look(damaged(original, tmp_path, content[:size]), expected) == "noticed"


def left_by_a_crash(source: Path, commits: int = 20) -> None:
    """Leaves the write-ahead log of a child, as after kill -9."""
    open_log(source).close()

    def child() -> None:
        log = open_log(source)
        log.create_topic("t")
        for number in range(commits):
            log.produce("t", [record("k", str(number))] * 5)
        os._exit(0)

    assert in_child(child) == 0


def test_commits_lost_by_a_damaged_write_ahead_log_are_detected(tmp_path: Path) -> None:
    """Any part of it may be lost, flipped or zeroed: acknowledged commits exist, or an error reports the loss."""
    source, directory = tmp_path / "source", tmp_path / "data"
    left_by_a_crash(source)
    wal = (source / "log.db-wal").read_bytes()
    assert len(wal) > 100_000
    everything_written = [(at, "k", str(at // 5)) for at in range(100)]
    chance = random.Random(4)
    outcomes = []
    for attempt in range(90):
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(source, directory)
        (directory / "log.db-shm").unlink()
        place = chance.randrange(len(wal))
        broken = bytearray(wal)
        match attempt % 3:
            case 0:
                broken[place] ^= 1 << chance.randrange(8)
            case 1:
                del broken[place:]
            case _:
                broken[place : place + 512] = bytes(len(broken[place : place + 512]))
        (directory / "log.db-wal").write_bytes(broken)
        try:
            with open_log(directory) as log:
                assert rows(log, "t") == everything_written
            outcomes.append("harmless")
        except CorruptLogError:
            outcomes.append("noticed")
    assert outcomes.count("noticed") > 60


def test_the_error_for_lost_commits_names_their_number_and_the_remedy(tmp_path: Path) -> None:
    left_by_a_crash(tmp_path)
    (tmp_path / "log.db-wal").write_bytes((tmp_path / "log.db-wal").read_bytes()[:-1])
    for _ in range(2):  # the error is permanent
        with pytest.raises(
            CorruptLogError, match="has lost data: the last commit was acknowledged, and is missing"
        ) as lost:
            open_log(tmp_path)
    assert "delete log.db-commit" in (lost.value.hint or "")
    (tmp_path / "log.db-commit").unlink()
    with open_log(tmp_path) as log:
        assert len(rows(log, "t")) == 95
        log.produce("t", [record("k", "new")])
    with open_log(tmp_path) as log:
        assert len(rows(log, "t")) == 96


def test_the_commit_note_raises_no_false_alarm(tmp_path: Path) -> None:
    source = tmp_path / "source"
    with open_log(source) as log:
        log.create_topic("t")
    older = tmp_path / "older"
    shutil.copytree(source, older)
    with open_log(source) as log:
        log.produce("t", [record("k", "1")])
        newer = (source / "log.db-commit").read_bytes()
        # Behind: a process was killed between commit and note, or the note was not on the disk when the power failed.
        shutil.copy(older / "log.db-commit", source / "log.db-commit")
        open_log(source).close()
        (source / "log.db-commit").write_bytes(newer[:10])
        open_log(source).close()
        (source / "log.db-commit").write_bytes(bytes(len(newer)))
        open_log(source).close()
        (source / "log.db-commit").unlink()
        open_log(source).close()
    # A copy of a whole directory, a note of another log, and one that cannot be written.
    shutil.copytree(source, tmp_path / "copy")
    open_log(tmp_path / "copy").close()
    with open_log(tmp_path / "another") as other:
        for name in ("a", "b", "c", "d"):
            other.create_topic(name)
    shutil.copy(tmp_path / "another" / "log.db-commit", older / "log.db-commit")
    with open_log(older) as log:
        log.create_topic("more")
    open_log(older).close()
    (older / "log.db-commit").unlink()
    (older / "log.db-commit").mkdir()
    with open_log(older) as log:
        log.create_topic("and-more")


def test_an_older_copy_of_the_database_alone_has_lost_commits(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("t")
    older = (tmp_path / "log.db").read_bytes()
    with open_log(tmp_path) as log:
        for number in range(3):
            log.produce("t", [record("k", str(number))])
    (tmp_path / "log.db").write_bytes(older)
    with pytest.raises(CorruptLogError, match="the last 3 commits were acknowledged, and are missing"):
        open_log(tmp_path)


def test_concurrent_commits_of_processes_raise_no_false_alarm(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("t")

    def child() -> None:
        for number in range(30):
            with open_log(tmp_path) as log:
                log.produce("t", [record("k", str(number))])

    assert in_child(child, meanwhile=child) == 0
    with open_log(tmp_path) as log:
        assert len(rows(log, "t")) == 60


def test_the_error_names_the_damaged_offsets(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("t")
        for number in range(3):
            log.produce("t", [ProducerRecord(b"k", b"%d" % number + random.Random(number).randbytes(5_000), 0)])
    content = (tmp_path / "log.db").read_bytes()
    place = content.index(random.Random(1).randbytes(5_000)[:100])
    (tmp_path / "log.db").write_bytes(content[:place] + b"!" + content[place + 1 :])
    with open_log(tmp_path) as log:
        assert log.read("t", 0, 0, 1).num_rows == 1
        assert log.read("t", 0, 2, 3).num_rows == 1
        with pytest.raises(CorruptLogError, match="topic 't', partition 0, offsets 1 to 1 are damaged: the checksum"):
            log.read("t", 0, 0, 3)


def test_nothing_is_written_to_a_file_that_was_deleted_or_replaced(directory: Path) -> None:
    with open_log(directory) as log:
        log.create_topic("t")
        shutil.rmtree(directory)
        with pytest.raises(LogError, match="was deleted or replaced while it was in use"):
            log.produce("t", [record("k", "v")])
        with open_log(directory) as other:
            other.create_topic("other")
            with pytest.raises(LogError, match="was deleted or replaced while it was in use"):
                log.produce("t", [record("k", "v")])
            assert [topic.name for topic in other.topics()] == ["other"]


def test_a_full_log_refuses_writes_until_space_is_freed(directory: Path) -> None:
    with embedded.open_log(directory, max_size=2_000_000) as log:
        log.create_topic("t", 2, {"retention.bytes": "0"})
        noise = [ProducerRecord(b"k", os.urandom(100_000), 0, partition=place % 2) for place in range(4)]
        for _ in range(3):
            log.produce("t", noise)
        with pytest.raises(LogFullError, match="nothing was written"):
            log.produce("t", noise * 3)
        assert log.ends(["t"]) == {"t": [6, 6]}
        for partition in range(2):
            assert log.read("t", partition, 0, 100)["offset"].to_pylist() == [0, 1, 2, 3, 4, 5]
        log.cleanup.apply_retention()
        assert log.produce("t", noise * 3) == [(0, 6, 6), (1, 6, 6)]


def test_after_an_io_error_no_writes_are_allowed_and_no_partial_write_is_visible(directory: Path) -> None:
    """A limit on file sizes simulates a disk with write errors."""
    with open_log(directory) as log:
        log.create_topic("t", 2)
        log.produce("t", [record("k", "v", partition=place) for place in range(2)])

    def child() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        with open_log(directory) as log:
            noise = [ProducerRecord(b"k", os.urandom(400_000), 0, partition=place) for place in range(2)]
            with pytest.raises(LogError, match="cannot be read or written"):
                log.produce("t", noise)
            with pytest.raises(LogError, match="the disk failed before"):
                log.produce("t", [record("k", "v")])
            assert log.ends(["t"]) == {"t": [1, 1]}

    assert in_child(child) == 0
    with open_log(directory) as log:
        assert log.ends(["t"]) == {"t": [1, 1]}
        log.produce("t", [record("k", "w", partition=0)])
        assert rows(log, "t") == [(0, "k", "v"), (1, "k", "w")]
