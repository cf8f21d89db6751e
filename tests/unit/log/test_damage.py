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

from millstream.errors import CorruptLogError, LogError, LogFormatError, LogFullError
from millstream.log import Log, ProducerRecord, Publication, embedded, open_log


def fill(directory: Path) -> None:
    """A log in which every table that the log itself has holds something."""
    with open_log(directory) as log:
        log.create_topic("t", 2, {"retention.ms": "-1"})
        log.create_topic("c", 1, {"cleanup.policy": "compact"})
        for number in range(30):
            log.produce("t", [record(str(number), f"value {number} {place}", number) for place in range(20)])
            log.produce("c", [record(str(number % 5), str(number), number)])
        log.produce("t", [ProducerRecord(b"noise", random.Random(7).randbytes(60_000), 0)])
        log.compact("c")
        log.commit_offsets("group", {("t", 0): 5})
        epoch = log.acquire("app")
        log.publish(Publication("app", epoch, 1, offsets={("t", 1): 3}, state={"plan": b"p" * 500}))
        log.hold("app", {("t", 0): 2})


def everything(log: Log) -> Any:
    """All that can be read."""
    topics = log.topics()
    tables = [
        log.read(topic.name, partition, 0, end).to_pylist()
        for topic in topics
        for partition, end in enumerate(log.ends([topic.name])[topic.name])
    ]
    bounds = log.latest_times({(topic.name, 0): (0, 1_000) for topic in topics})
    return topics, tables, bounds, log.committed("group"), log.published("app"), log.state("app")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    directory = tmp_path_factory.mktemp("original") / "data"
    fill(directory)
    with open_log(directory) as log:
        return directory, everything(log)


def damaged(original: tuple[Path, Any], tmp_path: Path, content: bytes) -> Path:
    directory = tmp_path / "data"
    directory.mkdir(mode=0o700, exist_ok=True)
    for old in directory.iterdir():
        old.unlink()
    (directory / "log.db").write_bytes(content)
    return directory


def look(directory: Path, expected: Any) -> str:
    """Reads all and writes a little. Says whether the damage was noticed; fails if it was not and did something."""
    noticed = None
    try:
        with open_log(directory, create=False) as log:
            assert everything(log) == expected
            log.produce("t", [record("k", "new")], partition=0)
    except (CorruptLogError, LogFormatError) as error:
        noticed = str(error)
    assert noticed is None or str(directory) in noticed
    return "noticed" if noticed else "harmless"


def test_flipped_bits(original: tuple[Path, Any], tmp_path: Path) -> None:
    path, expected = original
    content = (path / "log.db").read_bytes()
    chance = random.Random(1)
    outcomes = []
    for _ in range(150):
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


def test_pages_in_the_place_of_others(original: tuple[Path, Any], tmp_path: Path) -> None:
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


def test_a_file_cut_short(original: tuple[Path, Any], tmp_path: Path) -> None:
    path, expected = original
    content = (path / "log.db").read_bytes()
    chance = random.Random(3)
    for _ in range(40):
        size = chance.randrange(len(content) - 8192)
        assert look(damaged(original, tmp_path, content[:size]), expected) == "noticed"


def test_a_write_ahead_log_cut_short_or_flipped_gives_a_state_that_was_committed(tmp_path: Path) -> None:
    """A child leaves its write-ahead log behind, as a crash does, and any part of it may be lost or damaged."""
    source = tmp_path / "source"
    open_log(source).close()

    def child() -> None:
        log = open_log(source)
        log.create_topic("t")
        for number in range(20):
            log.produce("t", [record("k", str(number))] * 5)
        os._exit(0)

    assert in_child(child) == 0
    wal = (source / "log.db-wal").read_bytes()
    assert len(wal) > 100_000
    states = [[(at, "k", str(at // 5)) for at in range(5 * count)] for count in range(21)]
    chance = random.Random(4)
    for attempt in range(40):
        directory = tmp_path / "data"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o700)
        shutil.copy(source / "log.db", directory / "log.db")
        place = chance.randrange(len(wal))
        broken = bytearray(wal)
        broken[place] ^= 1 << chance.randrange(8)
        (directory / "log.db-wal").write_bytes(wal[:place] if attempt % 2 else bytes(broken))
        with open_log(directory) as log:
            assert [topic.name for topic in log.topics()] in (["t"], [])
            if log.topics():
                assert rows(log, "t") in states


def test_the_error_says_where_the_damage_is(tmp_path: Path) -> None:
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


def test_a_full_log_refuses_and_goes_on(directory: Path) -> None:
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
        log.apply_retention()
        assert log.produce("t", noise * 3) == [(0, 6, 6), (1, 6, 6)]


def test_a_disk_that_fails_stops_all_writing_but_nothing_partial_is_seen(directory: Path) -> None:
    """Files that may not grow stand for a disk that does not write."""
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
