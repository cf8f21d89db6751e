"""Results depend neither on restarts nor on batch boundaries."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.operators.harness import rows, run, send

from millstream import App, TestDriver, hopping, session, sliding, tumbling, unlimited, until_window_closes

WINDOWS = {
    "tumbling": tumbling(10, grace=5),
    "hopping": hopping(10, 4, grace=5),
    "sliding": sliding(10, grace=5),
    "session": session(5, grace=5),
    "unlimited": unlimited(20),
}
CLOSING = [name for name in WINDOWS if name != "unlimited"]


def records(seed: int) -> list[tuple[Any, ...]]:
    """Returns records of three keys whose time advances in small steps, is sometimes out of order, and jumps once."""
    chance, time, generated = random.Random(seed), 0, []
    for index in range(60):
        time += 300 if index == 40 else chance.choice([0, 1, 1, 2, 5])
        behind = chance.choice([0, 0, 3, 12])
        generated.append((chance.choice(["a", "b", "c", None]), chance.choice(["x", "y", None]), max(0, time - behind)))
    return generated


def build(window: Any, how: str) -> App:
    app = App("test")
    grouped = app.stream("in", value=str).group_by_key()
    counts: Any = grouped.windowed_by(window, emit="close" if how == "close" else "update").count()
    if how != "suppress":
        counts.late().to("late")
    else:
        counts = counts.suppress(until_window_closes())
    counts.to_stream().to("out")
    return app


def everything(driver: TestDriver, how: str) -> Any:
    return rows(driver), how == "suppress" or rows(driver, "late"), driver.dropped


CASES = [(name, "update") for name in WINDOWS] + [(name, how) for name in CLOSING for how in ("close", "suppress")]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "how"), CASES)
def test_a_restart_after_every_record_changes_nothing(name: str, how: str, seed: int) -> None:
    expected = everything(run(build(WINDOWS[name], how), *records(seed)), how)
    driver = TestDriver(build(WINDOWS[name], how))
    for record in records(seed):
        send(driver, record)
        driver.restart()
    assert everything(driver, how) == expected


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "how"), CASES)
def test_batches_of_any_size_change_nothing(name: str, how: str, seed: int) -> None:
    expected = everything(run(build(WINDOWS[name], how), *records(seed)), how)
    driver = run(build(WINDOWS[name], how), *records(seed), batches="random", seed=seed)
    assert everything(driver, how) == expected


# Suppress emits sliding windows and sessions a millisecond before they close, so it may emit them again.
@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("tumbling", "close"),
        ("hopping", "close"),
        ("sliding", "close"),
        ("session", "close"),
        ("tumbling", "suppress"),
        ("hopping", "suppress"),
    ],
)
def test_emit_on_close_emits_the_last_update_of_each_window_once(name: str, how: str) -> None:
    updates = rows(run(build(WINDOWS[name], "update"), *records(0), ("z", "x", 10_000)))
    last = {key: value for key, value, _ in updates}
    final = rows(run(build(WINDOWS[name], how), *records(0), ("z", "x", 10_000)))
    assert len(final) == len({key for key, _, _ in final})
    assert {key: value for key, value, _ in final} == {
        key: value for key, value in last.items() if value is not None and key[0] != "z"
    }
