"""``driver.output``: how results are read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millstream import App, Record, TestDriver, TopologyError


@pytest.fixture
def driver() -> Iterator[TestDriver]:
    app = App("driver")
    app.stream("in", value=int).to("out")
    with TestDriver(app) as driver:
        yield driver


def test_each_record_is_read_once(driver: TestDriver) -> None:
    driver.input("in").pipe_pairs([("a", 1), ("b", 2), ("c", 3)])
    output = driver.output("out")
    assert output.read() == Record("a", 1)
    assert output.read_all() == [Record("b", 2), Record("c", 3)]
    assert output.read_all() == []


def test_a_new_reader_starts_at_the_beginning(driver: TestDriver) -> None:
    driver.input("in").pipe("a", 1)
    assert driver.output("out").read_values() == driver.output("out").read_values() == [1]


def test_a_reader_reads_records_that_are_written_later(driver: TestDriver) -> None:
    output = driver.output("out")
    assert output.is_empty
    driver.input("in").pipe("a", 1)
    assert (output.is_empty, len(output)) == (False, 1)
    assert output.read_values() == [1]
    assert output.is_empty


def test_reading_without_a_record_is_an_error(driver: TestDriver) -> None:
    with pytest.raises(LookupError, match="no record to read"):
        driver.output("out").read()


def test_values_pairs_and_tables_can_be_read(driver: TestDriver) -> None:
    driver.input("in").pipe_pairs([("a", 1), ("b", 2), ("a", 3), ("b", None)])
    assert driver.output("out").read_values() == [1, 2, 3, None]
    assert driver.output("out").read_pairs() == [("a", 1), ("b", 2), ("a", 3), ("b", None)]
    assert driver.output("out").read_table() == {"a": 3}


def test_a_table_of_windows_can_be_read() -> None:
    from millstream import Windowed, tumbling

    app = App("driver")
    app.stream("in").group_by_key().windowed_by(tumbling(10)).count().to_stream().to("out")
    with TestDriver(app) as driver:
        driver.input("in", advance=6).pipe_pairs([("a", 1), ("a", 1), ("a", 1)])
        assert driver.output("out").read_table() == {Windowed("a", 0, 10): 2, Windowed("a", 10, 20): 1}


def test_another_serde_can_be_used(driver: TestDriver) -> None:
    driver.input("in").pipe("a", 1)
    assert driver.output("out", key=bytes, value=bytes).read_pairs() == [(b"a", (1).to_bytes(8, "big"))]


def test_topics_of_a_topic_function_are_read_with_its_serdes() -> None:
    app = App("driver")
    app.stream("in", value=int).to(lambda value: f"out-{value % 2}")
    with TestDriver(app) as driver:
        driver.input("in").pipe_values([1, 2, 3])
        assert driver.produced_topics == {"out-0", "out-1"}
        assert driver.output("out-1").read_values() == [1, 3]


def test_an_unknown_topic_is_refused_with_a_suggestion(driver: TestDriver) -> None:
    with pytest.raises(TopologyError, match=r"does not write to a topic 'otu'\n  hint: did you mean 'out'"):
        driver.output("otu")
    with pytest.raises(TopologyError, match=r"hint: it writes to: out"):
        driver.output("something else")


def test_produced_topics_include_internal_topics() -> None:
    app = App("driver")
    app.stream("in", value=str).group_by(lambda v: v, key=str, name="words").count().to_stream().to("out")
    app.stream("other").to("never")
    with TestDriver(app) as driver:
        assert driver.produced_topics == set()
        driver.output("never")
        driver.input("in").pipe("a")
        assert driver.produced_topics == {"out", "driver-words-repartition"}


def test_internal_topics_can_be_read_as_bytes_or_with_serdes() -> None:
    app = App("driver")
    app.stream("in", value=int).repartition(name="again").to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("a", 1)
        assert driver.output("driver-again-repartition").read().key == b"a"
        assert driver.output("driver-again-repartition", key=str, value=int).read_pairs() == [("a", 1)]
