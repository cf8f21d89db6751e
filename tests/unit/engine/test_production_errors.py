"""Records that cannot be written, and the production exception handler."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, TestDriver
from millstream.errors import ProductionError, RunError, SerializationError


def writing(**config: Any) -> App:
    app = App("errors", **config)
    values = app.stream("in")
    values.to("numbers", value=int, name="writer")
    values.to("sibling")
    return app


def test_a_value_of_the_wrong_type_stops_the_application_with_the_record_and_a_remedy() -> None:
    with TestDriver(writing()) as driver:
        driver.input("in").pipe("k", 1)
        with pytest.raises(
            ProductionError,
            match=r"production failed in operator 'writer' \(topic in, partition 0, offset 1\): long serde: cannot "
            r"write 'one' \(str\)\n  hint: ",
        ) as caught:
            driver.input("in").pipe("k", "one")
        assert isinstance(caught.value.__cause__, SerializationError)


def test_a_key_of_the_wrong_type_stops_the_application_too() -> None:
    app = App("errors")
    app.stream("in", value=int).select_key(lambda v: v).to("out", key=str)
    with TestDriver(app) as driver, pytest.raises(ProductionError, match="string serde: cannot write 1"):
        driver.input("in").pipe("k", 1)


def test_continue_drops_the_record_at_that_sink_only_and_counts_it() -> None:
    with TestDriver(writing(production_exception_handler="continue")) as driver:
        driver.input("in").pipe_pairs([("a", 1), ("b", "two"), ("c", 3)])
        assert driver.output("numbers").read_values() == [1, 3]
        assert driver.output("sibling").read_values() == [1, "two", 3]
        assert driver.dropped == {("writer", "production error"): 1}


def test_a_handler_function_decides_with_the_whole_error_context() -> None:
    calls: list[Any] = []

    def handler(context: Any, error: BaseException) -> str:
        calls.append((context, error))
        return "continue"

    with TestDriver(writing(production_exception_handler=handler)) as driver:
        driver.input("in").pipe("k", "two", timestamp=3)
    ((context, error),) = calls
    assert isinstance(error, SerializationError)
    assert (context.phase, context.operator, context.function) == ("production", "writer", None)
    assert (context.topic, context.offset, context.key, context.value) == ("in", 0, b"k", b'"two"')


def test_a_repartition_topic_is_written_with_the_same_handler() -> None:
    app = App("errors", production_exception_handler="continue")
    app.stream("in").repartition(value=int).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe_pairs([("a", 1), ("b", "two")])
        assert driver.output("out").read_values() == [1]
        assert sum(driver.dropped.values()) == 1


def test_the_error_of_a_value_that_a_store_cannot_serialize_names_the_operator() -> None:
    app = App("errors")
    app.stream("in").group_by_key().aggregate(lambda: 0, lambda v, agg: v, value=int, store="last")
    with TestDriver(app) as driver, pytest.raises(RunError, match=r"operator 'in-aggregate'.*long serde: cannot"):
        driver.input("in").pipe("k", "text")


def test_a_value_that_a_table_cannot_serialize_is_not_restored_as_another_value() -> None:
    app = App("errors")
    app.table("in").map_values(lambda v: v, value=int, store="numbers")
    with TestDriver(app) as driver, pytest.raises(RunError, match="long serde: cannot"):
        driver.input("in").pipe("k", "text")


def test_an_error_in_a_partitioner_is_a_production_error() -> None:
    app = App("errors", production_exception_handler="continue")
    app.stream("in").to("out", partitioner=lambda key, value, partitions: 1 // value)
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 0)
        assert sum(driver.dropped.values()) == 1


@pytest.mark.parametrize("partition", [-1, 2, "0"])
def test_a_partition_that_does_not_exist_is_an_error_of_the_partitioner(partition: Any) -> None:
    app = App("errors")
    app.stream("in").to("out", partitioner=lambda key, value, partitions: partition)
    with TestDriver(app, partitions=2) as driver, pytest.raises(RunError, match="partition"):
        driver.input("in").pipe("k", 0)


def test_with_none_from_the_partitioner_the_key_is_hashed() -> None:
    def undecided(key: str, value: int, partitions: int) -> Any:
        return None

    app = App("errors")
    again = app.stream("in", value=int).repartition(name="again", partitioner=undecided)
    again.group_by_key().count(store="n")
    with TestDriver(app, partitions=3) as driver:
        driver.input("in").pipe_pairs([("a", 0), ("b", 1), ("a", 2)])
        assert list(driver.store("n").all()) == [("a", 2), ("b", 1)]


def test_a_partitioner_chooses_the_partition() -> None:
    app = App("errors")
    app.stream("in", value=int).repartition(name="by-value", partitioner=lambda k, v, n: v % n).to("out")
    with TestDriver(app, partitions=2) as driver:
        driver.input("in").pipe_pairs([("a", 0), ("a", 1), ("a", 2)])
        assert sorted(driver.output("out").read_values()) == [0, 1, 2]
