"""Group commit of the embedded log."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.unit.log.helpers import rows

from millstream.errors import FencedError, LogError
from millstream.log import Append, ColumnBlock, Publication, Scope
from millstream.log.embedded import EmbeddedLog
from millstream.log.embedded.grouping import GroupCommit
from millstream.log.embedded.records import append_all
from millstream.log.embedded.schema import open_database

Change = Callable[[sqlite3.Connection], int]


def appending(value: bytes, error: Exception | None = None) -> Change:
    """Returns a change that appends a record, and then may fail."""

    def change(connection: sqlite3.Connection) -> int:
        (base,) = append_all(connection, [Append("t", 0, ColumnBlock([1], [b"k"], [value]))], 1)
        if error is not None:
            raise error
        return base

    return change


def written_together(directory: Path, changes: list[Change]) -> list[Future[int]]:
    """Writes changes of several threads, all but the first in one transaction; returns what became of these."""
    database = open_database(directory, create=False, max_size=None)
    group: GroupCommit[int] = GroupCommit(database)
    begun, released = threading.Event(), threading.Event()

    def first(_connection: sqlite3.Connection) -> int:
        begun.set()
        assert released.wait(30)
        return 0

    with ThreadPoolExecutor(len(changes) + 1) as pool:
        leader = pool.submit(group.write, first)
        assert begun.wait(30)
        results = []
        for number, change in enumerate(changes, 1):
            results.append(pool.submit(group.write, change))
            deadline = time.monotonic() + 30
            while group.waiting < number:
                assert time.monotonic() < deadline
                time.sleep(0.001)
        before = database.commits.count
        released.set()
        assert leader.result() == 0
    assert database.commits.count <= before + 1
    database.close()
    return results


def test_changes_of_several_threads_share_a_transaction(log: EmbeddedLog, directory: Path) -> None:
    log.create_topic("t")
    results = written_together(directory, [appending(b"a"), appending(b"b"), appending(b"c")])
    assert [result.result() for result in results] == [0, 1, 2]
    assert rows(log, "t") == [(0, "k", "a"), (1, "k", "b"), (2, "k", "c")]


def test_a_refused_change_is_rolled_back_alone(log: EmbeddedLog, directory: Path) -> None:
    log.create_topic("t")
    first, refused, last = written_together(
        directory, [appending(b"a"), appending(b"b", FencedError("too late")), appending(b"c")]
    )
    assert (first.result(), last.result()) == (0, 1)
    with pytest.raises(FencedError, match="too late"):
        refused.result()
    assert rows(log, "t") == [(0, "k", "a"), (1, "k", "c")]


def test_an_unexpected_error_rolls_back_the_group(log: EmbeddedLog, directory: Path) -> None:
    log.create_topic("t")
    results = written_together(directory, [appending(b"a"), appending(b"b", ValueError("a bug"))])
    errors = [result.exception() for result in results]
    assert sorted(type(error).__name__ for error in errors) == ["LogError", "ValueError"]
    assert all(isinstance(error, LogError | ValueError) for error in errors)
    assert rows(log, "t") == []


def test_workers_that_publish_at_the_same_time_publish_each_batch_once(log: EmbeddedLog) -> None:
    log.create_topic("t", 4)

    def work(number: int) -> None:
        scope = Scope("app", f"w{number}")
        epoch = log.applications.acquire(scope)
        for batch in range(20):
            block = ColumnBlock([batch], [b"k"], [b"%d" % batch])
            assert log.applications.publish(Publication(scope, epoch, batch, [Append("t", number, block)]))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    for partition in range(4):
        assert rows(log, "t", partition) == [(batch, "k", str(batch)) for batch in range(20)]
