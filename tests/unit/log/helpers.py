"""Helpers for the tests of the log: short records, and child processes that crash or fail on purpose."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from millstream.log import Log, ProducerRecord


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
    child = _fork(action)
    meanwhile()
    return _status(child)


def in_children(actions: Sequence[Callable[[], None]]) -> list[int]:
    """Runs each action in a forked child, concurrently, and returns their exit statuses."""
    children = [_fork(action) for action in actions]
    return [_status(child) for child in children]


def _status(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _fork(action: Callable[[], None]) -> int:
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
