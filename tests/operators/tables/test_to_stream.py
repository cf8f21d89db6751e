"""Table.to_stream: the changes of a table as a stream, None for deletions."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

from tests.operators.harness import refused, rows, run

from millstream import App, col, key, tumbling


def test_every_change_is_a_record_also_deletions() -> None:
    app = App("test")
    app.table("in", value=str).to_stream().to("out")
    driver = run(app, ("a", "x", 0), ("a", "x", 1), ("a", None, 2))
    assert rows(driver) == [("a", "x", 0), ("a", "x", 1), ("a", None, 2)]


def test_order_and_timestamps_are_those_of_the_changes() -> None:
    app = App("test")
    app.table("in", value=str).to_stream().to("out")
    assert rows(run(app, ("a", "x", 9), ("b", "y", 4), ("a", "z", 4))) == [("a", "x", 9), ("b", "y", 4), ("a", "z", 4)]


def test_a_new_key_from_the_value() -> None:
    app = App("test")
    app.table("in", value=str).to_stream(lambda word: word, key_serde=str).to("out")
    assert rows(run(app, ("a", "x", 0))) == [("x", "x", 0)]


def test_the_function_of_a_new_key_is_called_with_null_values() -> None:
    app = App("test")
    app.table("in", value=str).to_stream(lambda old, word: f"{old}{word}").to("out")
    assert rows(run(app, ("a", None, 0))) == [("aNone", None, 0)]


def test_a_new_key_may_be_null() -> None:
    app = App("test")
    app.table("in", value=str).to_stream(lambda word: None).to("out")
    assert rows(run(app, ("a", "x", 0))) == [(None, "x", 0)]


def test_the_key_of_a_windowed_key_can_be_selected() -> None:
    app = App("test")
    counts = app.stream("in", value=str).group_by_key().windowed_by(tumbling(10)).count()
    counts.to_stream(lambda windowed, n: f"{windowed.key}@{windowed.start}").to("out")
    assert rows(run(app, ("a", "x", 12))) == [("a@10", 1, 12)]


def test_a_windowed_key_is_key_start_and_end() -> None:
    app = App("test")
    app.stream("in", value=str).group_by_key().windowed_by(tumbling(10)).count().to_stream().to("out")
    record = run(app, ("a", "x", 12)).output("out").read()
    assert (record.key.key, record.key.start, record.key.end) == ("a", 10, 20)


def test_a_later_grouping_repartitions_if_the_key_is_new() -> None:
    app = App("test")
    table = app.table("in", value=str)
    table.to_stream().group_by_key().count(store="same")
    table.to_stream(lambda word: word, key_serde=str).group_by_key(name="new").count(store="changed")
    driver = run(app, ("a", "x", 0))
    assert driver.produced_topics == {"test-new-repartition"}
    assert (driver.store("same").get("a"), driver.store("changed").get("x")) == (1, 1)


def test_an_expression_may_select_the_new_key() -> None:
    app = App("test")
    app.table("in").to_stream(key() + col("shop")).to("out")
    assert rows(run(app, ("a", {"shop": "s"}, 0))) == [("as", {"shop": "s"}, 0)]


def test_a_function_of_three_arguments_is_refused() -> None:
    refused(lambda: App("test").table("in").to_stream(lambda a, b, c: a), "3 arguments")
