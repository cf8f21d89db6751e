"""Left join of a stream with a global table: records without a row are emitted with null."""

from __future__ import annotations

from tests.operators.joins.script import dashed, on_left, on_right, play, run

from millstream import App, TestDriver


def joined() -> App:
    app = App("joins")
    table = app.global_table("right", value=str)
    stream = app.stream("left", value=str)
    stream.left_join(table, dashed, on=lambda value: value.partition(":")[0] or None, name="join").to("out")
    return app


def test_a_record_without_a_row_is_emitted_with_null() -> None:
    steps = [on_left("x:A", 5), on_right("a", 6, key="x"), on_left("x:B", 4)]
    assert run(joined(), *steps) == {1: "x:A-null@5", 3: "x:B-a@4"}


def test_a_record_for_which_on_returns_null_is_emitted_with_null() -> None:
    with TestDriver(joined()) as driver:
        assert play(driver, on_left(":A", 5)) == {1: ":A-null@5"}
        assert driver.dropped == {}


def test_a_record_with_a_null_key_is_emitted() -> None:
    steps = [on_right("a", 0, key="x"), on_left("x:A", 5, key=None), on_left("y:B", 6, key=None)]
    assert run(joined(), *steps, keys=True) == {2: "null:x:A-a@5", 3: "null:y:B-null@6"}


def test_a_deleted_row_is_no_match() -> None:
    steps = [on_right("a", 0, key="x"), on_right(None, 1, key="x"), on_left("x:A", 5)]
    assert run(joined(), *steps) == {3: "x:A-null@5"}


def test_a_null_value_is_dropped_and_counted() -> None:
    with TestDriver(joined()) as driver:
        assert play(driver, on_left(None, 5)) == {}
        assert driver.dropped == {("join", "null value"): 1}
