"""Left join of a stream with a table: records without a row are emitted with null."""

from __future__ import annotations

from tests.operators.joins.script import IN_ORDER, OUT_OF_ORDER, dashed, on_left, on_right, play, run

from millstream import App, Materialized, TestDriver


def joined(history: int | None = None) -> App:
    app = App("joins")
    store = None if history is None else Materialized("table", history=history)
    table = app.table("right", value=str, store=store)
    app.stream("left", value=str).left_join(table, dashed, name="join").to("out")
    return app


def test_records_without_a_row_are_emitted_at_once() -> None:
    assert run(joined(), *IN_ORDER) == {3: "A-null@3", 5: "B-a@5", 9: "C-null@9", 15: "D-d@15"}


def test_an_unversioned_table_has_the_latest_arrival_regardless_of_its_time() -> None:
    assert run(joined(), *OUT_OF_ORDER) == {
        3: "A-null@3",
        5: "B-a@5",
        9: "C-null@9",
        15: "D-d@6",
        19: "E-e@15",
        22: "F-null@4",
    }


def test_a_versioned_table_is_joined_as_of_the_time_of_the_record() -> None:
    assert run(joined(history=300_000), *OUT_OF_ORDER) == {
        3: "A-null@3",
        5: "B-a@5",
        9: "C-null@9",
        15: "D-b@6",
        19: "E-e@15",
        22: "F-a@4",
    }


def test_times_before_the_history_have_no_match() -> None:
    rows = [on_right("a", 0), on_right("b", 100)]
    assert run(joined(history=5), *rows, on_left("A", 94), on_left("B", 95)) == {3: "A-null@94", 4: "B-a@95"}


def test_a_record_of_the_time_of_the_row_joins_it_only_if_the_row_arrived_before() -> None:
    assert run(joined(), on_left("A", 5), on_right("a", 5), on_left("B", 5)) == {1: "A-null@5", 3: "B-a@5"}


def test_a_record_with_a_null_key_is_emitted_with_null() -> None:
    with TestDriver(joined()) as driver:
        assert play(driver, on_left("A", 7, key=None), keys=True) == {1: "null:A-null@7"}
        assert driver.dropped == {}


def test_null_values_are_dropped_and_counted() -> None:
    with TestDriver(joined()) as driver:
        assert play(driver, on_left(None, 0), on_left(None, 0, key=None)) == {}
        assert sum(driver.dropped.values()) == 2
