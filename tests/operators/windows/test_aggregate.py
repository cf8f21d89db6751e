"""GroupedStream.aggregate: combines the values of each key into an aggregate of any type."""

# These tests also make calls that the type annotations forbid.
# mypy: disable-error-code="arg-type, misc, operator"

from __future__ import annotations

from tests.operators.harness import refused, rows, run, send

from millstream import App


def lists() -> App:
    app = App("test")
    app.stream("in", value=str).group_by_key().aggregate(
        list, lambda word, words: [*words, word], store="words", name="aggregate"
    ).to_stream().to("out")
    return app


def until_stop() -> App:
    """Returns a count of words; the word 'stop' sets the aggregate to null."""
    app = App("test")
    app.stream("in", value=str).group_by_key().aggregate(
        lambda: 10, lambda word, n: None if word == "stop" else n + 1, value=int, store="counts"
    ).to_stream().to("out")
    return app


def test_aggregation_starts_with_the_initializer_and_adds_in_order_of_arrival() -> None:
    driver = run(lists(), ("a", "x", 1), ("b", "q", 2), ("a", "y", 3))
    assert rows(driver) == [("a", ["x"], 1), ("b", ["q"], 2), ("a", ["x", "y"], 3)]


def test_the_aggregator_may_take_the_key() -> None:
    app = App("test")
    app.stream("in", value=str).group_by_key().aggregate(
        str, lambda key, word, agg: f"{agg}{key}{word}", value=str
    ).to_stream().to("out")
    assert rows(run(app, ("a", "x", 1), ("a", "y", 2))) == [("a", "ax", 1), ("a", "axay", 2)]


def test_null_keys_and_null_values_are_dropped_and_counted() -> None:
    driver = run(lists(), (None, "x", 1), ("a", None, 2), ("a", "x", 3))
    assert rows(driver) == [("a", ["x"], 3)]
    assert driver.dropped == {("aggregate", "null key"): 1, ("aggregate", "null value"): 1}


def test_an_out_of_order_record_is_added_last_and_the_timestamp_stays_the_greatest() -> None:
    driver = run(lists(), ("a", "x", 9), ("a", "y", 4), ("a", "z", 9))
    assert rows(driver) == [("a", ["x"], 9), ("a", ["x", "y"], 9), ("a", ["x", "y", "z"], 9)]


def test_an_aggregator_that_returns_none_deletes_the_row_and_emits_the_deletion() -> None:
    driver = run(until_stop(), ("a", "x", 1), ("a", "stop", 2))
    assert rows(driver) == [("a", 11, 1), ("a", None, 2)]
    assert driver.store("counts").get("a") is None


def test_a_deleted_row_starts_over_with_the_initializer_and_the_time_of_the_new_record() -> None:
    driver = run(until_stop(), ("a", "x", 9), ("a", "stop", 9), ("a", "y", 4))
    assert rows(driver)[2:] == [("a", 11, 4)]


def test_an_initial_aggregate_of_none_emits_a_deletion() -> None:
    assert rows(run(until_stop(), ("a", "stop", 1))) == [("a", None, 1)]


def test_each_key_has_its_own_initial_aggregate_even_if_it_is_changed_in_place() -> None:
    def append(word: str, words: list[str]) -> list[str]:
        words.append(word)
        return words

    app = App("test")
    app.stream("in", value=str).group_by_key().aggregate(list, append, store="words").to_stream().to("out")
    driver = run(app, ("a", "x", 1), ("b", "y", 2), ("a", "z", 3))
    assert rows(driver) == [("a", ["x"], 1), ("b", ["y"], 2), ("a", ["x", "z"], 3)]


def test_the_annotation_of_the_aggregator_determines_the_serde() -> None:
    def longest(word: str, agg: int) -> int:
        return max(agg, len(word))

    app = App("test")
    app.stream("in", value=str).group_by_key().aggregate(lambda: 0, longest).to_stream().to("out")
    assert run(app, ("a", "xyz", 1)).output("out", value=bytes).read().value == b"\0\0\0\0\0\0\0\3"


def test_aggregates_survive_a_restart() -> None:
    driver = run(lists(), ("a", "x", 1))
    driver.restart()
    send(driver, ("a", "y", 2))
    assert rows(driver) == [("a", ["x"], 1), ("a", ["x", "y"], 2)]


def test_an_aggregator_of_four_arguments_is_refused() -> None:
    grouped = App("test").stream("in").group_by_key()
    refused(lambda: grouped.aggregate(int, lambda a, b, c, d: a), "aggregator", "4 arguments", "(key, value, agg)")
