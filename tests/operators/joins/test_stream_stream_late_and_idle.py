"""Late records in joins of streams, and idle sources."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operators.joins.script import dashed, on_left, on_right, play, run

from millstream import App, TestDriver, join_window


def joined(how: str, *window: Any, right: Any = str, **options: Any) -> App:
    app = App("joins")
    sides = app.stream("left", value=str), app.stream("right", value=right)
    result = getattr(sides[0], how)(sides[1], dashed, join_window(*window, **options))
    result.to("out")
    result.late().to("late")
    return app


@pytest.mark.parametrize("how", ["join", "left_join", "outer_join"])
def test_records_are_late_after_window_and_grace(how: str) -> None:
    # 84 + 10 + 5 < 100; 85 + 15 is not.
    steps = [on_right("x", 100, key="x"), on_left("A", 84), on_left("B", 85)]
    assert run(joined(how, 10, grace=5), *steps, topic="late") == {2: "A@84"}


def test_late_has_the_records_of_both_sides_by_their_own_part_of_the_window() -> None:
    # A left record waits for the right one until 5 later, a right record for the left one until 20 later.
    steps = [on_left("x", 100, key="x"), on_left("A", 94), on_right("a", 94, key="y"), on_right("b", 79, key="y")]
    assert run(joined("join", before=20, after=5), *steps, topic="late") == {2: "A@94", 4: "b@79"}


def test_a_late_record_with_a_partner_is_joined_and_not_reported_as_late() -> None:
    app = joined("join", 10)
    steps = [on_right("a", 0), on_left("x", 100, key="x"), on_left("A", 5)]
    assert run(app, *steps) == {3: "A-a@5"}
    assert run(app, *steps, topic="late") == {}


def test_a_late_record_of_a_left_join_is_reported_as_late_and_emitted_unmatched() -> None:
    with TestDriver(joined("left_join", 10)) as driver:
        assert play(driver, on_left("x", 100, key="x"), on_left("A", 5)) == {2: "A-null@5"}
        assert driver.output("late").read_values() == ["A"]


def test_late_records_of_sides_of_different_types_can_both_be_written() -> None:
    steps = [on_left("x", 100, key="x"), on_right(5, 0)]
    with TestDriver(joined("join", 10, right=int)) as driver:
        for step in steps:
            driver.input(step.topic).pipe(step.key, step.value, timestamp=step.timestamp)
        assert len(driver.output("late")) == 1


@pytest.mark.parametrize("how", ["left_join", "outer_join"])
def test_unmatched_records_are_emitted_after_the_idle_time(how: str) -> None:
    with TestDriver(joined(how, 10, idle="5s")) as driver:
        driver.input("left").pipe("k", "A", timestamp=0)
        for _ in range(4):
            driver.advance_wall_clock("1s")
        assert driver.output("out").is_empty
        driver.advance_wall_clock("1s")
        assert driver.output("out").read_values() == ["A-null"]


def test_without_idle_the_wall_clock_emits_nothing() -> None:
    with TestDriver(joined("left_join", 10)) as driver:
        driver.input("left").pipe("k", "A", timestamp=0)
        driver.advance_wall_clock("1d")
        assert driver.output("out").is_empty


def test_the_idle_time_does_not_start_before_the_first_record() -> None:
    with TestDriver(joined("left_join", 10, idle="1s")) as driver:
        for _ in range(5):
            driver.advance_wall_clock("1s")
        driver.input("left").pipe("k", "A", timestamp=0)
        assert driver.output("out").is_empty


def test_a_record_ends_the_idle_time() -> None:
    with TestDriver(joined("left_join", "2s", idle="3s")) as driver:
        driver.input("left").pipe("k", "A", timestamp=0)
        for time in (1, 2, 3, 4, 5):
            driver.advance_wall_clock("1s")
            driver.input("right").pipe("other", "x", timestamp=time)
        assert driver.output("out").is_empty
