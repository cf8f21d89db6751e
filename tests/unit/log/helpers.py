"""Helpers for the tests of the log: short records, and child processes that crash or fail on purpose."""

from __future__ import annotations

import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from millstream.log import Fetched, Follower, Log, ProducerRecord


def record(key: str | None, value: str | None, timestamp: int | None = 0, **more: Any) -> ProducerRecord:
    """Returns a record of text."""
    return ProducerRecord(
        None if key is None else key.encode(), None if value is None else value.encode(), timestamp, **more
    )


def rows(log: Log, topic: str, partition: int = 0, start: int | None = None) -> list[tuple[int, Any, Any]]:
    """Returns the (offset, key, value) of all records of a partition, as text."""
    first = log.starts([topic])[topic][partition] if start is None else start
    table = log.read(topic, partition, first, log.ends([topic])[topic][partition])
    columns = (table[name].to_pylist() for name in ("offset", "key", "value"))
    return [(offset, _text(key), _text(value)) for offset, key, value in zip(*columns, strict=True)]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def in_child(action: Callable[[], None], *, meanwhile: Callable[[], None] = lambda: None) -> int:
    """Runs an action in a forked child and returns the child's exit status: 0 if it ends well, 1 if it raises."""
    child = forked(action)
    meanwhile()
    return status_of(child)


def in_children(actions: Sequence[Callable[[], None]]) -> list[int]:
    """Runs each action in a forked child, concurrently, and returns their exit statuses."""
    children = [forked(action) for action in actions]
    return [status_of(child) for child in children]


def status_of(child: int) -> int:
    """Waits for a child, and returns its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def forked(action: Callable[[], None]) -> int:
    """Runs an action in a forked child, and returns the id of the child at once."""
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Python 3.12 warns of a fork with other threads; those of the libraries are idle here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            action()
            status = 0
        except BaseException:  # noqa: BLE001  (a child must never return to pytest)
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def follow(follower: Follower, count: int, seconds: float = 30.0) -> list[tuple[str, int, int, Any]]:
    """Polls until there are so many records, and returns their (topic, partition, offset, value), as text."""
    read: list[tuple[str, int, int, Any]] = []
    deadline = time.monotonic() + seconds
    while len(read) < count:
        assert time.monotonic() < deadline, f"only {len(read)} of {count} records arrive"
        read += fetched_rows(follower.poll(0.1))
    return read


def fetched_rows(fetched: Iterable[Fetched]) -> list[tuple[str, int, int, Any]]:
    """Returns the (topic, partition, offset, value) of fetched records, as text."""
    return [
        (some.topic, some.partition, offset, _text(value))
        for some in fetched
        for offset, value in zip(some.offsets, some.values, strict=True)
    ]


def follow_to_end(follower: Follower, *places: tuple[str, int], seconds: float = 30.0) -> list[Any]:
    """Polls until partitions have no more records, and returns the values that arrive, as text."""
    values: list[Any] = []
    deadline = time.monotonic() + seconds
    while any(follower.has_more(*place) for place in places):
        assert time.monotonic() < deadline, "the end is not reached"
        values += [value for *_, value in fetched_rows(follower.poll(0.1))]
    return values
