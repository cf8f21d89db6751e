"""Inner join of a stream with a table: each record with the current row of its key."""

from __future__ import annotations

from tests.operators.joins.script import IN_ORDER, OUT_OF_ORDER, dashed, on_left, on_right, play, run

from millstream import App, Materialized, TestDriver


def joined(history: int | None = None) -> App:
    app = App("joins")
    store = None if history is None else Materialized("table", history=history)
    table = app.table("right", value=str, store=store, name="table")
    app.stream("left", value=str).join(table, dashed, name="join").to("out")
    return app


def test_records_join_the_current_row_and_changes_of_the_table_emit_nothing() -> None:
    assert run(joined(), *IN_ORDER) == {5: "B-a@5", 15: "D-d@15"}


def test_an_unversioned_table_has_the_latest_arrival_regardless_of_its_time() -> None:
    assert run(joined(), *OUT_OF_ORDER) == {5: "B-a@5", 15: "D-d@6", 19: "E-e@15"}


def test_a_versioned_table_is_joined_as_of_the_time_of_the_record() -> None:
    assert run(joined(history=300_000), *OUT_OF_ORDER) == {5: "B-a@5", 15: "D-b@6", 19: "E-e@15", 22: "F-a@4"}


def test_a_version_is_valid_from_its_own_time_until_just_before_the_next() -> None:
    rows = [on_right("a", 10), on_right("b", 20)]
    records = [on_left(f"L{ts}", ts) for ts in (9, 10, 19, 20)]
    assert run(joined(history=1_000), *rows, *records) == {4: "L10-a@10", 5: "L19-a@19", 6: "L20-b@20"}


def test_an_out_of_order_version_is_joined_by_records_of_its_time() -> None:
    rows = [on_right("a", 10), on_right("c", 20), on_right("b", 15)]
    assert run(joined(history=1_000), *rows, on_left("A", 17), on_left("B", 25)) == {4: "A-b@17", 5: "B-c@25"}


def test_of_two_versions_of_equal_time_the_last_is_valid() -> None:
    rows = [on_right("a", 10), on_right("b", 10)]
    assert run(joined(history=1_000), *rows, on_left("A", 10)) == {3: "A-b@10"}
    assert run(joined(), *rows, on_left("A", 10)) == {3: "A-b@10"}


def test_a_deleted_row_is_not_found_but_its_earlier_versions_are() -> None:
    rows = [on_right("a", 10), on_right(None, 20)]
    assert run(joined(history=1_000), *rows, on_left("A", 25), on_left("B", 15)) == {4: "B-a@15"}
    assert run(joined(), *rows, on_left("A", 25), on_left("B", 15)) == {}


def test_times_before_the_history_have_no_match() -> None:
    rows = [on_right("a", 0), on_right("b", 100)]
    # The table's time is 100, its history 5.
    assert run(joined(history=5), *rows, on_left("A", 94), on_left("B", 95)) == {4: "B-a@95"}


def test_the_result_has_the_time_of_the_stream_record() -> None:
    assert run(joined(), on_right("a", 99), on_left("A", 5)) == {2: "A-a@5"}


def test_null_keys_and_null_values_of_the_stream_are_dropped_and_counted() -> None:
    with TestDriver(joined()) as driver:
        assert play(driver, on_left("A", 0, key=None), on_left(None, 0)) == {}
        assert driver.dropped == {("join", "null key"): 1, ("join", "null value"): 1}


def test_records_of_the_table_with_null_keys_are_dropped_and_counted() -> None:
    with TestDriver(joined()) as driver:
        assert play(driver, on_right("a", 0, key=None)) == {}
        assert driver.dropped == {("table", "null key"): 1}


def test_keys_do_not_mix_and_headers_are_those_of_the_stream_record() -> None:
    with TestDriver(joined()) as driver:
        driver.input("right").pipe("x", "a", headers={"from": "table"})
        driver.input("left").pipe("y", "A")
        driver.input("left").pipe("x", "B", headers={"from": "stream"})
        (result,) = driver.output("out").read_all()
        assert (result.key, result.value, result.headers) == ("x", "B-a", (("from", b"stream"),))


def test_a_versioned_table_may_be_filtered_and_mapped_on_the_way() -> None:
    app = App("joins")
    table = app.table("right", value=str, store=Materialized("table", history=1_000))
    shouted = table.filter(lambda v: v != "no").map_values(lambda v: v.upper(), value=str)
    app.stream("left", value=str).join(shouted, dashed).to("out")
    rows = [on_right("a", 10), on_right("no", 20), on_right("c", 30)]
    assert run(app, *rows, on_left("L", 15), on_left("M", 25), on_left("N", 35)) == {4: "L-A@15", 6: "N-C@35"}
