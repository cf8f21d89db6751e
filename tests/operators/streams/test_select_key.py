"""Stream.select_key: sets a new key for each record; a later grouping repartitions."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc"

from __future__ import annotations

from tests.operators.harness import refused, rows, run

from millstream import App, col, key


def test_the_key_is_new_and_the_value_is_unchanged() -> None:
    app = App("test")
    app.stream("in", value=str).select_key(lambda word: word[0], key=str).to("out")
    assert rows(run(app, ("a", "xyz", 5))) == [("x", "xyz", 5)]


def test_the_function_may_take_the_old_key() -> None:
    app = App("test")
    app.stream("in", value=str).select_key(lambda old, word: f"{old}-{word}").to("out")
    assert rows(run(app, ("a", "x", 5))) == [("a-x", "x", 5)]


def test_null_keys_and_null_values_are_passed_to_the_function() -> None:
    app = App("test")
    app.stream("in", value=str).select_key(lambda old, word: f"{old}/{word}").to("out")
    assert rows(run(app, (None, "x", 0), ("a", None, 1))) == [("None/x", "x", 0), ("a/None", None, 1)]


def test_the_new_key_may_be_null() -> None:
    app = App("test")
    app.stream("in", value=str).select_key(lambda word: None).to("out")
    driver = run(app, ("a", "x", 5))
    assert rows(driver) == [(None, "x", 5)]
    assert driver.dropped == {}


def test_order_and_timestamps_are_unchanged() -> None:
    app = App("test")
    app.stream("in", value=str).select_key(lambda word: word).to("out")
    assert rows(run(app, ("a", "x", 9), ("a", "y", 4), ("a", "z", 4))) == [("x", "x", 9), ("y", "y", 4), ("z", "z", 4)]


def test_a_new_key_alone_causes_no_repartition() -> None:
    app = App("test")
    app.stream("in", value=str).select_key(lambda word: word).to("out")
    assert run(app, ("a", "x", 0)).produced_topics == {"out"}


def test_a_later_grouping_reads_a_repartition_topic() -> None:
    app = App("test")
    app.stream("in", value=str).select_key(lambda word: word).group_by_key(name="by-word").count().to_stream().to("out")
    driver = run(app, ("a", "x", 0), ("b", "x", 1))
    assert rows(driver) == [("x", 1, 0), ("x", 2, 1)]
    assert driver.produced_topics == {"out", "test-by-word-repartition"}


def test_records_whose_new_key_is_null_are_dropped_and_counted_before_the_repartition_topic() -> None:
    app = App("test")
    app.stream("in", value=str).select_key(lambda word: None if word == "x" else word).group_by_key(
        name="words"
    ).count().to_stream().to("out")
    driver = run(app, ("a", "x", 0), ("a", "y", 1))
    assert rows(driver) == [("y", 1, 1)]
    assert driver.dropped == {("words-repartition", "null key before repartition"): 1}


def test_equal_keys_are_in_one_partition() -> None:
    app = App("test")
    app.stream("in", value=str).select_key(lambda word: word).group_by_key().count(store="counts")
    driver = run(app, ("a", "x", 0), ("b", "x", 1), ("c", "x", 2), ("d", "x", 3), partitions=4)
    assert driver.store("counts").get("x") == 4


def test_an_expression_may_select_the_key() -> None:
    app = App("test")
    app.stream("in").select_key(col("shop") + key()).to("out")
    assert rows(run(app, ("a", {"shop": "s"}, 0))) == [("sa", {"shop": "s"}, 0)]


def test_the_serde_of_the_keys_may_be_declared() -> None:
    app = App("test")
    app.stream("in", value=str).select_key(len, key=int).to("out")
    assert rows(run(app, ("a", "xyz", 0))) == [(3, "xyz", 0)]


def test_a_function_of_three_arguments_is_refused() -> None:
    refused(lambda: App("test").stream("in").select_key(lambda a, b, c: a), "select_key", "3 arguments")
