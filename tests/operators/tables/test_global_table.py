"""App.global_table: a table with a full copy in every task, joined by any key."""

from __future__ import annotations

import pytest
from tests.operators.harness import refused, rows, run, send

from millstream import App, Processor, Record, TestDriver


class StreamTime(Processor[str, str, str, int]):
    """Forwards the stream time of the task as the value."""

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(self.context.current_stream_time))


def joined(how: str = "join") -> TestDriver:
    """Returns words by their own key, joined with the table by their first letter; '?' is no letter."""
    app = App("test")
    letters = app.global_table("letters", value=str, store="letters-store", name="letters-table")
    words = app.stream("in", value=str)
    getattr(words, how)(
        letters,
        lambda word, letter: f"{word}/{letter}",
        on=lambda word: None if word == "?" else word[0],
        value=str,
        name="joined",
    ).to("out")
    return TestDriver(app)


def test_a_record_joins_the_current_row() -> None:
    driver = joined()
    send(driver, ("x", "ex", 10), topic="letters")
    send(driver, ("a", "xylem", 5))
    send(driver, ("x", "iks", 20), topic="letters")
    send(driver, ("a", "xenon", 6))
    assert rows(driver) == [("a", "xylem/ex", 5), ("a", "xenon/iks", 6)]


def test_an_update_of_the_table_emits_nothing() -> None:
    driver = joined()
    send(driver, ("a", "xylem", 5))
    send(driver, ("x", "ex", 10), topic="letters")
    assert rows(driver) == []


def test_a_null_value_deletes_the_row() -> None:
    driver = joined("left_join")
    send(driver, ("x", "ex", 0), ("x", None, 1), topic="letters")
    send(driver, ("a", "xylem", 5))
    assert rows(driver) == [("a", "xylem/None", 5)]
    assert list(driver.store("letters-store").all()) == []


def test_null_keys_of_the_table_are_dropped_and_counted() -> None:
    driver = joined()
    send(driver, (None, "ex", 0), topic="letters")
    assert driver.dropped == {("letters-table", "null key"): 1}


def test_an_out_of_order_record_replaces_the_row() -> None:
    driver = joined()
    send(driver, ("x", "new", 9), ("x", "old", 4), topic="letters")
    send(driver, ("a", "xylem", 5))
    assert rows(driver) == [("a", "xylem/old", 5)]


def test_an_inner_join_drops_a_record_whose_chosen_key_is_null_and_counts_it() -> None:
    driver = joined()
    send(driver, ("a", "?", 5))
    assert (rows(driver), driver.dropped) == ([], {("joined", "null key"): 1})


def test_a_left_join_emits_a_record_whose_chosen_key_is_null() -> None:
    driver = joined("left_join")
    send(driver, ("a", "?", 5))
    assert (rows(driver), driver.dropped) == ([("a", "?/None", 5)], {})


@pytest.mark.parametrize("how", ["join", "left_join"])
def test_a_record_with_a_null_value_is_dropped_and_counted(how: str) -> None:
    driver = joined(how)
    send(driver, ("a", None, 5))
    assert (rows(driver), driver.dropped) == ([], {("joined", "null value"): 1})


def test_a_record_with_a_null_key_is_joined() -> None:
    driver = joined()
    send(driver, ("x", "ex", 0), topic="letters")
    send(driver, (None, "xylem", 5))
    assert rows(driver) == [(None, "xylem/ex", 5)]


def test_a_global_table_does_not_advance_stream_time() -> None:
    app = App("test")
    app.global_table("letters", value=str)
    app.stream("in", value=str).process(StreamTime, key=str, value=int).to("out")
    driver = TestDriver(app)
    send(driver, ("x", "ex", 1_000), topic="letters")
    send(driver, ("a", "word", 5))
    assert rows(driver) == [("a", 5, 5)]


def test_every_partition_has_the_whole_table() -> None:
    app = App("test")
    letters = app.global_table("letters", value=str)
    app.stream("in", value=str).join(letters, lambda a, b: a + b, on=lambda word: "x", value=str).to("out")
    driver = run(app, ("x", "!", 0), topic="letters", partitions=3)
    send(driver, *((key, key, 1) for key in "abcdef"))
    assert sorted(value for _, value, _ in rows(driver)) == ["a!", "b!", "c!", "d!", "e!", "f!"]


def test_a_row_is_joined_once_for_any_number_of_partitions() -> None:
    app = App("test")
    app.global_table("letters", value=str, store="letters-store")
    driver = run(app, ("x", "ex", 0), topic="letters", partitions=3)
    assert list(driver.store("letters-store").all()) == [("x", "ex")]


def test_a_topic_that_is_already_read_is_refused() -> None:
    app = App("test")
    app.stream("in")
    refused(lambda: app.global_table("in"), "'in' is already read")


def test_a_pattern_must_not_match_a_global_table() -> None:
    """Its records would be read a second time whenever the table is restored."""
    app = App("shop")
    app.global_table("small")
    refused(lambda: app.stream(pattern="s.*"), "matches the pattern 's.*' of a stream")
    app.stream(pattern="t.*")
    refused(lambda: app.global_table("tiny"), "matches the pattern 't.*' of a stream")
    app.global_table("other")
