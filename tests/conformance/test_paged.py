"""Every vector with paged stores, which are committed and loaded again after every step.

In `make check`, `test_vectors` restarts every vector after every step with stores in memory, and
`tests.unit.state.paged` compares paged stores with those.
"""

from __future__ import annotations

from typing import Any

import pytest

from millstream.engine import Task
from millstream.state.paged import MANIFEST_KEY, PagedState
from millstream.testing import tasks
from tests.conformance import vectors
from tests.conformance.interpreter import run_vector

pytestmark = pytest.mark.slow

VECTORS = [v for v in vectors.load() if all(node.get("processor") != "ticker" for node in v["topology"])]


class PagedTasks:
    """Creates the tasks of a driver; a new task of a partition continues with the committed state of the one before."""

    def __init__(self) -> None:
        self._maps: dict[int, dict[bytes, bytes]] = {}
        self._states: dict[int, PagedState] = {}

    def __call__(self, topology: Any, config: Any, partition: int, *, now: int, state: Any) -> Task:
        remote = self._maps.setdefault(partition, {})
        if partition in self._states:
            writes = self._states[partition].commit(b"")
            for key in writes.deletes:
                del remote[key]
            remote.update(writes.puts)
        paged = self._states[partition] = PagedState(
            lambda keys: [remote.get(key) for key in keys], memory_limit=0, log_limit=20_000, page_bytes=64
        )
        paged.load(remote.get(MANIFEST_KEY))
        cells: Any = None if state is None else ({}, state[1])
        return Task(topology, config, partition, now=now, state=cells, open_store=paged.open)


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_restart_from_pages_after_every_step_changes_no_result(
    vector: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "Task", PagedTasks())
    vectors.check(vector, run_vector(vectors.question(vector), restart=True))
