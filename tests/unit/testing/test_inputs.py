"""``driver.input``: how records are piped in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from millstream import App, Record, TestDriver, TopologyError
from millstream.errors import SerdeError


@pytest.fixture
def driver() -> TestDriver:
    app = App("driver")
    app.stream("orders", key=str, value=int).to("out")
    app.stream("clicks").to("out-clicks")
    app.table("users", value=str, store="users")
    app.global_table("countries", value=str, store="countries")
    app.stream(pattern=r"log-\d+", value=str).to("logs")
    return TestDriver(app)


def test_a_value_alone_has_no_key(driver: TestDriver) -> None:
    driver.input("orders").pipe(5)
    assert driver.output("out").read() == Record(None, 5, 0, ())


def test_a_key_and_a_value(driver: TestDriver) -> None:
    driver.input("orders").pipe("k", 5)
    assert driver.output("out").read() == Record("k", 5, 0, ())


def test_null_keys_and_values_can_be_piped(driver: TestDriver) -> None:
    driver.input("orders").pipe(None, None)
    assert driver.output("out").read() == Record(None, None, 0, ())


@pytest.mark.parametrize("arguments", [(), ("k", 1, 2)])
def test_another_number_of_arguments_is_refused(driver: TestDriver, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="takes a value, or a key and a value"):
        driver.input("orders").pipe(*arguments)


def test_timestamps_are_explicit_or_the_time_of_the_input(driver: TestDriver) -> None:
    orders = driver.input("orders", start=100, advance="1s")
    for timestamp in (None, 7, None):
        orders.pipe("k", 1, timestamp=timestamp)
    orders.advance_time("1m")
    orders.pipe("k", 1)
    assert [r.timestamp for r in driver.output("out").read_all()] == [100, 7, 1_100, 62_100]


def test_two_inputs_of_one_topic_have_separate_times(driver: TestDriver) -> None:
    first, second = driver.input("orders", advance=10), driver.input("orders", start=5)
    first.pipe("a", 1)
    first.pipe("a", 1)
    second.pipe("b", 1)
    assert [r.timestamp for r in driver.output("out").read_all()] == [0, 10, 5]


@pytest.mark.parametrize("headers", [{"a": "1", "b": b"2", "c": None}, [("a", "1"), ("b", b"2"), ("c", None)]])
def test_headers_are_a_mapping_or_pairs_with_text_or_bytes(driver: TestDriver, headers: Any) -> None:
    driver.input("orders").pipe("k", 1, headers=headers)
    assert driver.output("out").read().headers == (("a", b"1"), ("b", b"2"), ("c", None))


def test_a_header_name_may_occur_twice(driver: TestDriver) -> None:
    driver.input("orders").pipe("k", 1, headers=[("a", "1"), ("a", "2")])
    assert driver.output("out").read().headers == (("a", b"1"), ("a", b"2"))


def test_several_records_can_be_piped(driver: TestDriver) -> None:
    records = [Record("a", 1, 5), Record("b", 2, 3, (("h", b"1"),))]
    driver.input("orders").pipe_records(records)
    assert driver.output("out").read_all() == records


def test_values_and_pairs_can_be_piped_at_the_time_of_the_input(driver: TestDriver) -> None:
    orders = driver.input("orders", advance=10)
    orders.pipe_values([1, 2])
    orders.pipe_pairs([("a", 3), ("b", 4)])
    assert driver.output("out").read_all() == [
        Record(None, 1, 0),
        Record(None, 2, 10),
        Record("a", 3, 20),
        Record("b", 4, 30),
    ]


def test_tables_and_global_tables_are_piped_alike(driver: TestDriver) -> None:
    driver.input("users").pipe("ann", "Ann")
    driver.input("countries").pipe("fr", "France")
    assert (driver.store("users").get("ann"), driver.store("countries").get("fr")) == ("Ann", "France")


def test_topics_of_a_pattern_can_be_piped(driver: TestDriver) -> None:
    driver.input("log-7").pipe("line")
    assert driver.output("logs").read_values() == ["line"]


def test_an_unknown_topic_is_refused_with_a_suggestion(driver: TestDriver) -> None:
    with pytest.raises(TopologyError, match=r"does not read a topic 'ordesr'\n  hint: did you mean 'orders'"):
        driver.input("ordesr")
    with pytest.raises(TopologyError, match=r"hint: it reads: orders, clicks, users, .*countries"):
        driver.input("something else")


def test_an_output_topic_is_refused_as_input(driver: TestDriver) -> None:
    with pytest.raises(TopologyError, match="does not read a topic 'out'"):
        driver.input("out")


def test_a_value_of_the_wrong_type_is_refused_and_nothing_is_piped(driver: TestDriver) -> None:
    with pytest.raises(SerdeError, match=r"input 'orders': long serde: cannot write 'five' \(str\)"):
        driver.input("orders").pipe("k", "five")
    driver.input("orders").pipe("k", 5)
    assert driver.output("out").read_values() == [5]


def test_a_value_is_deserialized_by_its_type() -> None:
    @dataclass
    class Order:
        item: str
        count: int = 1

    app = App("driver")
    app.stream("in", value=Order).map_values(lambda order: type(order).__name__).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", Order("tea"))
        assert driver.output("out").read_values() == ["Order"]


def test_the_partition_can_be_chosen_and_must_exist() -> None:
    app = App("driver")
    app.stream("in", value=int).to("out")
    with TestDriver(app, partitions=2) as driver:
        driver.input("in").pipe("k", 1, partition=1)
        for partition in (2, -1):
            with pytest.raises(TopologyError, match="partition"):
                driver.input("in").pipe("k", 1, partition=partition)


def test_raw_bytes_can_be_piped_into_any_topic(driver: TestDriver) -> None:
    driver.input("orders", key=bytes, value=bytes).pipe(b"k", (5).to_bytes(8, "big"))
    assert driver.output("out").read_pairs() == [("k", 5)]
