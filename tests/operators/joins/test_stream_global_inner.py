"""Inner join of a stream with a global table: each record with the row whose key ``on`` returns."""

from __future__ import annotations

from typing import Any

from tests.operators.joins.script import dashed, on_left, on_right, play, run, spell

from millstream import App, TestDriver, col, left, right


def wanted(value: str) -> str | None:
    """Returns the part of the value before the colon, if there is one."""
    return value.partition(":")[0] or None


def joined(on: Any = wanted) -> App:
    app = App("joins")
    table = app.global_table("right", value=str, store="table")
    app.stream("left", value=str).join(table, dashed, on=on, name="join").to("out")
    return app


def test_on_returns_the_key_of_the_row_and_the_record_keeps_its_own() -> None:
    steps = [on_right("a", 0, key="x"), on_left("x:A", 5), on_left("y:B", 6)]
    assert run(joined(), *steps, keys=True) == {2: "k:x:A-a@5"}


def test_on_may_take_key_and_value() -> None:
    app = joined(on=lambda key, value: f"{key}{value}")
    assert run(app, on_right("a", 0, key="kA"), on_left("A", 5)) == {2: "A-a@5"}


def test_without_on_the_key_of_the_record_is_used() -> None:
    assert run(joined(on=None), on_right("a", 0), on_left("A", 5)) == {2: "A-a@5"}


def test_changes_of_the_table_emit_nothing() -> None:
    assert run(joined(), on_left("x:A", 0), on_right("a", 0, key="x"), on_right("b", 1, key="x")) == {}


def test_a_record_joins_the_latest_row_regardless_of_timestamps() -> None:
    steps = [on_right("a", 50, key="x"), on_right("b", 10, key="x"), on_left("x:A", 5)]
    assert run(joined(), *steps) == {3: "x:A-b@5"}


def test_a_deleted_row_is_not_found() -> None:
    assert run(joined(), on_right("a", 0, key="x"), on_right(None, 1, key="x"), on_left("x:A", 5)) == {}


def test_a_record_with_a_null_key_is_joined_if_on_returns_a_key() -> None:
    assert run(joined(), on_right("a", 0, key="x"), on_left("x:A", 5, key=None), keys=True) == {2: "null:x:A-a@5"}


def test_a_record_for_which_on_returns_null_is_dropped_and_counted() -> None:
    with TestDriver(joined()) as driver:
        assert play(driver, on_left(":A", 5)) == {}
        assert driver.dropped == {("join", "null key"): 1}


def test_a_null_value_is_dropped_and_on_is_not_called() -> None:
    with TestDriver(joined()) as driver:
        assert play(driver, on_left(None, 5)) == {}
        assert driver.dropped == {("join", "null value"): 1}


def test_the_joiner_may_take_the_key_of_the_record() -> None:
    app = App("joins")
    table = app.global_table("right", value=str)
    stream = app.stream("left", value=str)
    stream.join(table, lambda k, a, b: f"{k}/{spell(a)}/{spell(b)}", on=wanted, value=str).to("out")
    assert run(app, on_right("a", 0, key="x"), on_left("x:A", 5)) == {2: "k/x:A/a@5"}


def test_on_and_joiner_may_be_expressions() -> None:
    app = App("joins")
    countries = app.global_table("countries")
    visits = app.stream("visits")
    visits.join(countries, left("page") + right("name"), on=col("country")).to("out", value=str)
    with TestDriver(app) as driver:
        driver.input("countries").pipe("fr", {"name": "France"})
        driver.input("visits").pipe("ann", {"page": "/", "country": "fr"})
        assert driver.output("out").read_values() == ["/France"]


def test_rows_with_a_null_key_are_ignored() -> None:
    with TestDriver(joined()) as driver:
        driver.input("right").pipe(None, "a")
        assert list(driver.store("table").all()) == []
