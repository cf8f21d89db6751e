"""The number of tasks changes no table, if nothing is late and no result depends on the order between keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fault import smoke

from millstream import App, hopping, session, sliding, tumbling
from millstream.runtime.in_process.batches import InProcessRun

SEED, PER_KEY = 7, 24
EVER = "100d"
"""A grace period that no window reaches: stream time advances per task, so the tasks would close windows differently.
"""

WINDOWS = ("each-tumbling", "each-hop", "each-sliding", "each-session")


def build(directory: Path, tasks: int) -> App:
    """Every family of operators, and windows that are never closed."""
    app = smoke.build(directory, num_tasks=tasks)
    grouped = app.stream("left").group_by_key()
    grouped.windowed_by(tumbling(smoke.TUMBLING, grace=EVER)).count(store="each-tumbling")
    grouped.windowed_by(hopping(smoke.TUMBLING, smoke.HOP, grace=EVER)).count(store="each-hop")
    grouped.windowed_by(sliding(smoke.SLIDING, grace=EVER)).count(store="each-sliding")
    grouped.windowed_by(session(smoke.GAP, grace=EVER)).count(store="each-session")
    return app


def tables(directory: Path, tasks: int, records: int) -> dict[str, dict[Any, Any]]:
    """All rows of all stores that keep their rows to the end, read from their views."""
    smoke.fill(directory, SEED, PER_KEY, distinct=True)
    app = build(directory, tasks)
    with InProcessRun(app, records=records) as local:
        local.run()
    rows = {name: dict(app.store(name).all()) for name in (*smoke.STORES, *WINDOWS[:3])}
    sessions = app.store(WINDOWS[3]).find_sessions_ending(0, 2**62)
    return {**rows, WINDOWS[3]: dict(sessions)}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[Any, Any]]:
    return tables(tmp_path_factory.mktemp("tasks"), 2, 1_000_000)


def test_there_are_tables_to_compare(expected: dict[str, dict[Any, Any]]) -> None:
    assert {name for name, rows in expected.items() if not rows} == set()
    assert sum(expected["counts"].values()) == 20 * PER_KEY // 2 + len(smoke.last_keys())
    assert sum(expected["each-tumbling"].values()) == sum(expected["counts"].values())


@pytest.mark.parametrize("tasks", [1, 2, 4, 8])
def test_the_number_of_tasks_changes_no_table(tmp_path: Path, tasks: int, expected: dict[str, dict[Any, Any]]) -> None:
    assert tables(tmp_path, tasks, 200) == expected
