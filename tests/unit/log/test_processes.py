"""Several threads and processes with one log."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.unit.log.helpers import in_child, in_children, record, rows

from millstream.errors import LogError
from millstream.log import Log, open_log

PRODUCER = """
import sys
from millstream.log import ProducerRecord, open_log

directory, name, calls, each = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3]), int(sys.argv[4])
with open_log(directory) as log:
    log.create_topic("t", 3, exist_ok=True)
    for call in range(calls):
        first = call * each
        log.produce("t", [ProducerRecord(name, b"%d" % n, n) for n in range(first, first + each)], partition=call % 3)
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> None:
    process.communicate()
    assert process.returncode == 0


def test_processes_produce_and_read_concurrently(directory: Path) -> None:
    """Two processes create the log and write, a third one reads. No record is lost, duplicated or reordered."""
    calls, count, names = 60, 20, ("one", "two")
    producers = [start(PRODUCER, directory, name, calls, count) for name in names]
    total = calls * count * len(names)
    seen: dict[tuple[str, int], list[int]] = {}
    with open_log(directory) as log:
        log.create_topic("t", 3, exist_ok=True)
        positions = dict.fromkeys([("t", partition) for partition in range(3)], 0)
        while sum(positions.values()) < total:
            assert log.wait(positions, 30)
            for (_, partition), position in list(positions.items()):
                end = log.ends(["t"])["t"][partition]
                table = log.read("t", partition, position, end)
                assert table["offset"].to_pylist() == list(range(position, end))
                for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True):
                    seen.setdefault((key.decode(), partition), []).append(int(value))
                positions["t", partition] = end
        for process in producers:
            finish(process)
        assert log.ends(["t"]) == {"t": [positions["t", partition] for partition in range(3)]}
    for name in names:
        for partition in range(3):
            first = [call * count for call in range(partition, calls, 3)]
            assert seen[name, partition] == [number for at in first for number in range(at, at + count)]


def test_many_threads_share_one_log(log: Log) -> None:
    log.create_topic("t")

    def produce(name: int) -> None:
        for number in range(20):
            log.produce("t", [record(str(name), str(number))] * 3)

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(produce, name) for name in range(8)]:
            done.result()
    records = rows(log, "t")
    assert [offset for offset, _, _ in records] == list(range(480))
    for name in range(8):
        assert [value for _, key, value in records if key == str(name)] == [str(n) for n in range(20) for _ in range(3)]


def test_a_fork_has_connections_of_its_own(log: Log) -> None:
    log.create_topic("t")
    log.produce("t", [record("parent", "1")])

    def child() -> None:
        log.produce("t", [record("child", "2")])
        assert rows(log, "t") == [(0, "parent", "1"), (1, "child", "2")]
        log.close()

    assert in_child(child) == 0
    log.produce("t", [record("parent", "3")])
    assert rows(log, "t") == [(0, "parent", "1"), (1, "child", "2"), (2, "parent", "3")]


def test_commits_of_a_child_survive_the_close_by_its_parent(directory: Path) -> None:
    """A child inherits the lock table of SQLite without the locks of its parent."""
    log = open_log(directory)
    log.create_topic("t")
    log.produce("t", [record("parent", "1")])
    opened, closed = os.pipe(), os.pipe()

    def child() -> None:
        assert log.ends(["t"]) == {"t": [1]}
        os.write(opened[1], b"x")
        os.read(closed[0], 1)
        log.produce("t", [record("child", "2")])

    def close() -> None:
        os.read(opened[0], 1)
        log.close()
        os.write(closed[1], b"x")

    assert in_child(child, meanwhile=close) == 0
    for descriptor in (*opened, *closed):
        os.close(descriptor)
    with open_log(directory) as again:
        assert rows(again, "t") == [(0, "parent", "1"), (1, "child", "2")]


@pytest.mark.slow
def test_a_fork_while_threads_use_the_log_works(log: Log) -> None:
    log.create_topic("t")
    stop = threading.Event()
    counts = [0, 0]

    def work(place: int) -> None:
        while not stop.is_set():
            log.produce("t", [record("thread", "v")])
            counts[place] += 1

    threads = [threading.Thread(target=work, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    statuses = [in_child(lambda: void(log.produce("t", [record("child", "v")]))) for _ in range(10)]
    stop.set()
    for thread in threads:
        thread.join()
    assert statuses == [0] * 10
    assert len(rows(log, "t")) == 10 + sum(counts)


def void(_: object) -> None:
    """Discards the result of an action."""


WRITER = """
import sys
from millstream.log import ProducerRecord, open_log

with open_log(sys.argv[1]) as log:
    print("ready", flush=True)
    sys.stdin.readline()
    log.produce("t", [ProducerRecord(b"k", b"v", 0)])
    print("written", flush=True)
    sys.stdin.readline()
"""


def test_wait_returns_when_another_process_writes(log: Log, directory: Path) -> None:
    log.create_topic("t", 2)
    log.create_topic("other")
    writer = start(WRITER, directory)
    assert writer.stdout is not None
    assert writer.stdin is not None
    assert writer.stdout.readline() == "ready\n"
    positions = {("t", 0): 0, ("t", 1): 0}
    woken = threading.Event()

    def wait() -> None:
        assert log.wait(positions, 50)
        woken.set()

    reader = threading.Thread(target=wait)
    reader.start()
    # A commit to other partitions does not end the wait.
    log.produce("other", [record("k", "v")])
    assert not woken.is_set()
    writer.stdin.write("\n")
    writer.stdin.flush()
    assert writer.stdout.readline() == "written\n"
    assert woken.wait(50)
    reader.join()
    finish(writer)


def test_wait_returns_at_once_with_records_and_after_the_timeout_without(log: Log) -> None:
    log.create_topic("t")
    assert not log.wait({("t", 0): 0}, 0)
    assert not log.wait({("t", 0): 0}, 0.03)
    log.produce("t", [record("k", "v")])
    assert log.wait({("t", 0): 0}, 50)
    assert not log.wait({("t", 0): 1}, 0)
    assert not log.wait({}, 0)


def test_a_closed_log_raises_an_error(directory: Path) -> None:
    log = open_log(directory)
    log.close()
    for call in (log.topics, lambda: log.create_topic("t"), lambda: log.wait({}, 0)):
        with pytest.raises(LogError, match="is closed"):
            call()
    log.close()


CLOSED_MEANWHILE = """
import sys, threading
from pathlib import Path
from millstream.errors import LogError
from millstream.log import open_log
from millstream.log.embedded.database import Database

open_log(sys.argv[1]).close()
database = Database(next(Path(sys.argv[1]).glob("*.db")))
working = threading.Event()

def work():
    try:
        with database.write() as connection:
            connection.create_function("begin", 0, working.set)
            numbers = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
            connection.execute(f"{numbers} SELECT sum(x + (x = 1 AND begin())) FROM c")  # for ever
    except LogError as error:
        print(error.message)

thread = threading.Thread(target=work)
thread.start()
working.wait()
database.close()
thread.join()
"""


def test_a_log_can_be_closed_while_another_thread_uses_it(directory: Path) -> None:
    """SQLite ends the process if a connection is closed in the middle of a statement."""
    process = start(CLOSED_MEANWHILE, directory)
    output, _ = process.communicate()
    assert process.returncode == 0
    assert "interrupted" in output


def test_the_connection_of_an_ended_thread_is_closed(log: Log) -> None:
    log.create_topic("t")

    def descriptors() -> int:
        return len(list(Path("/dev/fd").iterdir()))

    def read() -> None:
        log.ends(["t"])

    counts = []
    for _ in range(10):
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        counts.append(descriptors())
    assert counts[-1] == counts[1]


RACER = """
import sys
from millstream.errors import FencedError
from millstream.log import Append, Publication, Scope, open_log
from millstream.log.blocks import encode

name = sys.argv[2].encode()
written = []
with open_log(sys.argv[1]) as log:
    epoch = log.applications.acquire(Scope("app"))
    try:
        while True:
            last = log.applications.published(Scope("app"))
            batch = last.batch + 1 if last else 0
            if batch == 200:
                break
            block = encode([batch], [name], [b"%d" % batch])
            appends = [Append("t", 0, block)]
            log.applications.publish(Publication(Scope("app"), epoch, batch, appends, {("t", 0): batch}))
    except FencedError:
        print("fenced")
"""


def test_only_the_newer_of_two_instances_writes(log: Log, directory: Path) -> None:
    log.create_topic("t")
    racers = [start(RACER, directory, name) for name in ("one", "two")]
    outputs = [racer.communicate()[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    assert sorted(outputs) in (["", ""], ["", "fenced\n"])
    records = rows(log, "t")
    assert [value for _, _, value in records] == [str(batch) for batch in range(200)]
    names = [key for _, key, _ in records]
    assert sum(before != after for before, after in itertools.pairwise(names)) <= 1


def test_concurrent_processes_create_the_log_once(tmp_path: Path) -> None:
    def produce(directory: Path) -> None:
        with open_log(directory) as log:
            log.create_topic("t", exist_ok=True)
            log.produce("t", [record("k", "v")])

    for attempt in range(10):
        directory = tmp_path / str(attempt)
        assert in_children([lambda: produce(directory)] * 3) == [0, 0, 0]  # noqa: B023  (called before the loop goes on)
        assert {path.name for path in directory.iterdir()} == {"log.db", "log.db-commit"}
        with open_log(directory, create=False) as log:
            assert log.ends(["t"]) == {"t": [3]}
