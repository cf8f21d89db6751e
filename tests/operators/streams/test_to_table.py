"""Stream.to_table: reads a stream as a table; a null value deletes the row."""

from __future__ import annotations

from tests.operators.harness import rows, run

from millstream import App, Materialized


def test_the_last_value_to_arrive_is_the_row() -> None:
    app = App("test")
    app.stream("in", value=str).to_table(store="rows")
    driver = run(app, ("a", "x", 1), ("a", "y", 2), ("b", "z", 3))
    assert list(driver.store("rows").all()) == [("a", "y"), ("b", "z")]


def test_every_record_is_an_update_also_equal_values() -> None:
    app = App("test")
    app.stream("in", value=str).to_table().to_stream().to("out")
    assert rows(run(app, ("a", "x", 1), ("a", "x", 2))) == [("a", "x", 1), ("a", "x", 2)]


def test_a_null_value_deletes_the_row_and_is_emitted() -> None:
    app = App("test")
    app.stream("in", value=str).to_table(store="rows").to_stream().to("out")
    driver = run(app, ("a", "x", 1), ("a", None, 2), ("b", None, 3))
    assert rows(driver) == [("a", "x", 1), ("a", None, 2), ("b", None, 3)]
    assert list(driver.store("rows").all()) == []


def test_null_keys_are_dropped_and_counted() -> None:
    app = App("test")
    app.stream("in", value=str).to_table(name="rows").to_stream().to("out")
    driver = run(app, (None, "x", 1), ("a", "y", 2), (None, None, 3))
    assert rows(driver) == [("a", "y", 2)]
    assert driver.dropped == {("rows", "null key"): 2}


def test_an_out_of_order_record_replaces_the_row_and_keeps_its_timestamp() -> None:
    app = App("test")
    app.stream("in", value=str).to_table(store="rows").to_stream().to("out")
    driver = run(app, ("a", "new", 9), ("a", "old", 4))
    assert rows(driver) == [("a", "new", 9), ("a", "old", 4)]
    assert driver.store("rows", timestamped=True).get("a") == ("old", 4)


def test_of_equal_timestamps_the_later_record_is_the_row() -> None:
    app = App("test")
    app.stream("in", value=str).to_table(store="rows")
    assert run(app, ("a", "x", 1), ("a", "y", 1)).store("rows").get("a") == "y"


def test_a_changed_key_is_repartitioned_first_and_null_keys_are_dropped_there() -> None:
    app = App("test")
    app.stream("in", value=str).select_key(lambda v: v, key=str).to_table(store="rows").to_stream().to("out")
    driver = run(app, ("a", "x", 1), ("a", None, 2))
    assert rows(driver) == [("x", "x", 1)]
    assert driver.produced_topics == {"out", "test-rows-repartition"}
    assert driver.dropped == {("rows-repartition", "null key before repartition"): 1}


def test_an_unchanged_key_is_not_repartitioned() -> None:
    app = App("test")
    app.stream("in", value=str).to_table().to_stream().to("out")
    assert run(app, ("a", "x", 1)).produced_topics == {"out"}


def test_with_a_history_old_versions_can_be_looked_up() -> None:
    app = App("test")
    app.stream("in", value=str).to_table(store=Materialized("rows", history=100))
    store = run(app, ("a", "x", 10), ("a", "y", 20)).store("rows")
    assert (store.get("a").value, store.get("a", as_of=15).value) == ("y", "x")


def test_only_a_store_of_that_name_can_be_queried() -> None:
    app = App("test")
    assert app.stream("in", value=str).to_table(store="rows").queryable_store_name == "rows"
    assert app.stream("other", value=str).to_table().queryable_store_name is None
