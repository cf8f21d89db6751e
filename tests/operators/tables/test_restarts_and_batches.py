"""Results depend neither on restarts nor on batch boundaries."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.operators.harness import rows, run, send

from millstream import App, Materialized, TestDriver, until_time_limit


def total(table: Any) -> Any:
    return table.group_by(lambda n: ("all", n), value=int).sum(value=int)


TABLES: dict[str, Callable[[App], Any]] = {
    "table": lambda app: app.table("in", value=int, store="rows"),
    "filter": lambda app: app.table("in", value=int, store="rows").filter(lambda n: n > 2, store="large"),
    "versioned": lambda app: app.table("in", value=int, store=Materialized("rows", history=5)),
    "ttl": lambda app: app.table("in", value=int, ttl=5),
    "time limit": lambda app: app.table("in", value=int).suppress(until_time_limit(5)),
    "time limit, few rows": lambda app: app.table("in", value=int).suppress(until_time_limit(50, max_records=2)),
    "time limit, few bytes": lambda app: app.table("in", value=int).suppress(until_time_limit(50, max_bytes=20)),
    "group": lambda app: total(app.table("in", value=int)),
    "group of ttl": lambda app: total(app.table("in", value=int, ttl=5)),
    "group of time limit": lambda app: total(app.table("in", value=int).suppress(until_time_limit(5))),
    "group of versioned": lambda app: total(app.table("in", value=int, store=Materialized("rows", history=5))),
}


def records(seed: int) -> list[tuple[Any, ...]]:
    chance, time, generated = random.Random(seed), 0, []
    for _ in range(60):
        time += chance.choice([0, 1, 1, 2, 5])
        behind = chance.choice([0, 0, 3, 12])
        key, value = chance.choice(["a", "b", "c", "d", None]), chance.choice([1, 2, 3, 4, None])
        generated.append((key, value, max(0, time - behind)))
    return generated


def build(name: str) -> App:
    app = App("test")
    TABLES[name](app).to_stream().to("out")
    return app


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TABLES)
def test_a_restart_after_every_record_changes_nothing(name: str, seed: int) -> None:
    expected = run(build(name), *records(seed))
    driver = TestDriver(build(name))
    for record in records(seed):
        send(driver, record)
        driver.restart()
    assert (rows(driver), driver.dropped) == (rows(expected), expected.dropped)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TABLES)
def test_batches_of_any_size_change_nothing(name: str, seed: int) -> None:
    expected = run(build(name), *records(seed))
    driver = run(build(name), *records(seed), batches="random", seed=seed)
    assert (rows(driver), driver.dropped) == (rows(expected), expected.dropped)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rows_expire_exactly_after_their_time_to_live(seed: int) -> None:
    alive: dict[str, int] = {}
    now, app = 0, App("test")
    app.table("in", value=int, ttl=5, store="rows")
    driver = TestDriver(app)
    for key, value, time in records(seed):
        send(driver, (key, value, time))
        moved, now = time > now, max(now, time)
        if key is not None and value is None:
            alive.pop(key, None)
        elif key is not None:
            alive[key] = max(alive.get(key, 0), time)
        if moved:  # rows expire when stream time advances
            alive = {k: t for k, t in alive.items() if now - t <= 5}
        assert {k for k, _ in driver.store("rows").all()} == set(alive)
