"""A stream joined with itself: one store (optimised) yields the same results as two."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.operators.joins.script import dashed, on_left, run

from millstream import App, TestDriver, join_window

optimised = pytest.mark.parametrize("optimization", ["none", "all", "single.store.self.join"])


def self_joined(optimization: str, *window: Any, how: str = "join", **options: Any) -> App:
    app = App("joins", topology_optimization=optimization)
    stream = app.stream("left", value=str)
    getattr(stream, how)(stream, dashed, join_window(*window, **options), name="join").to("out")
    return app


@optimised
def test_a_record_joins_earlier_records_as_left_then_as_right_and_itself_last(optimization: str) -> None:
    assert run(self_joined(optimization, 10), on_left("A", 2), on_left("B", 3), on_left("C", 5)) == {
        1: "A-A@2",
        2: "B-A@3, A-B@3, B-B@3",
        3: "C-A@5, C-B@5, A-C@5, B-C@5, C-C@5",
    }


@optimised
def test_with_an_asymmetric_window_only_the_later_record_is_right(optimization: str) -> None:
    app = self_joined(optimization, before=0, after=10)
    assert run(app, on_left("A", 0), on_left("B", 5), on_left("C", 14)) == {
        1: "A-A@0",
        2: "A-B@5, B-B@5",
        3: "B-C@14, C-C@14",
    }


@optimised
def test_an_out_of_order_record_joins_later_records(optimization: str) -> None:
    app = self_joined(optimization, before=0, after=10)
    assert run(app, on_left("A", 5), on_left("B", 0)) == {1: "A-A@5", 2: "B-A@5, B-B@0"}


@optimised
def test_two_records_of_equal_time_join_each_other_and_themselves(optimization: str) -> None:
    app = self_joined(optimization, 10)
    assert run(app, on_left("A", 5), on_left("B", 5)) == {1: "A-A@5", 2: "B-A@5, A-B@5, B-B@5"}


@optimised
def test_null_keys_and_values_emit_nothing(optimization: str) -> None:
    with TestDriver(self_joined(optimization, 10)) as driver:
        driver.input("left").pipe(None, "A")
        driver.input("left").pipe("k", None)
        assert driver.output("out").is_empty
        assert {reason for _, reason in driver.dropped} == {"null key", "null value"}


@optimised
def test_in_an_outer_self_join_no_record_is_unmatched(optimization: str) -> None:
    app = self_joined(optimization, 10, how="outer_join")
    assert run(app, on_left("A", 0), on_left("B", 999)) == {1: "A-A@0", 2: "B-B@999"}


@optimised
def test_reading_the_topic_twice_is_also_a_self_join(optimization: str) -> None:
    app = App("joins", topology_optimization=optimization)
    first, second = app.stream("left", value=str), app.stream("left", value=str)
    first.join(second, dashed, join_window(10)).to("out")
    assert run(app, on_left("A", 2), on_left("B", 3)) == {1: "A-A@2", 2: "B-A@3, A-B@3, B-B@3"}


@pytest.mark.parametrize("seed", range(5))
def test_the_optimisation_changes_no_result(seed: int) -> None:
    dice = random.Random(seed)
    window: dict[str, Any] = {"before": dice.randint(0, 10), "after": dice.randint(0, 10), "grace": dice.randint(0, 5)}
    steps = [on_left(str(n), dice.randint(0, 40), key=dice.choice("ab")) for n in range(40)]
    assert run(self_joined("all", **window), *steps) == run(self_joined("none", **window), *steps)
