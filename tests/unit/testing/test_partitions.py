"""``partitions=``: records are assigned to tasks by their keys, as Kafka assigns them to partitions."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, Processor, Record, TestDriver, TopologyError, join_window, tumbling
from millstream.core.partitioning import partition_for

KEYS = [f"key-{n}" for n in range(20)]


class Where(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        where = self.context.record_metadata
        assert where is not None
        self.context.forward(record.with_value([where.partition, self.context.task_id]))


def dealt(partitions: int, keys: list[Any]) -> list[Any]:
    app = App("driver")
    app.stream("in").process(Where).to("out")
    with TestDriver(app, partitions=partitions) as driver:
        driver.input("in").pipe_pairs([(key, 0) for key in keys])
        return driver.output("out").read_pairs()


def test_a_key_goes_to_the_partition_of_its_murmur2_hash() -> None:
    for key, (partition, task) in dealt(7, KEYS):
        assert partition == partition_for(key.encode(), 7)
        assert task == f"0_{partition}"


def test_records_without_a_key_go_to_each_partition_in_turn() -> None:
    assert [partition for _, (partition, _) in dealt(3, [None] * 6)] == [0, 1, 2, 0, 1, 2]


def test_every_partition_has_its_own_offsets() -> None:
    class Offset(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            where = self.context.record_metadata
            assert where is not None
            self.context.forward(record.with_value(where.offset))

    app = App("driver")
    app.stream("in").process(Offset).to("out")
    with TestDriver(app, partitions=2) as driver:
        for partition in (0, 1, 0, 1):
            driver.input("in").pipe("k", 0, partition=partition)
        assert driver.output("out").read_values() == [0, 0, 1, 1]


def counting() -> App:
    app = App("driver")
    stream = app.stream("in", value=str)
    stream.group_by_key().count(store="by-key").to_stream().to("keys")
    stream.group_by(lambda v: v, key=str).count(store="by-value").to_stream().to("values")
    stream.group_by_key().windowed_by(tumbling(1_000)).count(store="windows").to_stream().to("windows-out")
    table = app.table("names", value=str)
    stream.left_join(table, lambda a, b: f"{a}/{b}").to("joined")
    stream.join(app.stream("other", value=str), lambda a, b: a + b, join_window(1_000)).to("pairs")
    table.left_join(app.table("towns", value=str), lambda a, b: f"{a} of {b}", on=lambda v: v[-1]).to_stream().to("fk")
    return app


def results(partitions: int) -> dict[str, dict[Any, list[Any]]]:
    """Returns the output of each key in order, by topic."""
    with TestDriver(counting(), partitions=partitions) as driver:
        for n, key in enumerate(KEYS * 3):
            driver.input("names").pipe(key, f"name-{n % 7}", timestamp=n)
            driver.input("towns").pipe(str(n % 7), f"town-{n}", timestamp=n)
            driver.input("other").pipe(key, "!", timestamp=n)
            driver.input("in").pipe(key, f"word-{n % 5}", timestamp=n)
        outcome: dict[str, dict[Any, list[Any]]] = {}
        for topic in ("keys", "values", "windows-out", "joined", "pairs", "fk"):
            for record in driver.output(topic).read_all():
                outcome.setdefault(topic, {}).setdefault(record.key, []).append((record.value, record.timestamp))
        outcome["stores"] = {name: list(driver.store(name).all()) for name in ("by-key", "by-value", "windows")}
        return outcome


@pytest.mark.parametrize("partitions", [2, 3, 10])
def test_for_each_key_results_are_the_same_as_with_one_partition(partitions: int) -> None:
    assert results(partitions) == results(1)


def test_a_repartition_topic_may_have_another_number_of_partitions() -> None:
    app = App("driver")
    app.stream("in", value=int).repartition(name="one", partitions=1).process(Where).to("out")
    with TestDriver(app, partitions=3) as driver:
        driver.input("in").pipe_pairs([(key, 0) for key in KEYS])
        assert {partition for partition, _ in driver.output("out").read_values()} == {0}


def test_a_repartition_topic_may_have_more_partitions_than_the_input() -> None:
    app = App("driver")
    app.stream("in", value=int).repartition(name="more", partitions=5).process(Where).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe_pairs([(key, 0) for key in KEYS])
        assert {partition for partition, _ in driver.output("out").read_values()} == {0, 1, 2, 3, 4}


def test_every_task_has_the_whole_global_table() -> None:
    app = App("driver")
    app.stream("in", value=int).join(app.global_table("small", value=int), lambda a, b: b, on=lambda k, v: "x").to(
        "out"
    )
    with TestDriver(app, partitions=3) as driver:
        driver.input("small").pipe("x", 7)
        driver.input("in").pipe_pairs([(key, 0) for key in KEYS])
        assert driver.output("out").read_values() == [7] * len(KEYS)


@pytest.mark.parametrize("partitions", [0, -1])
def test_there_is_at_least_one_partition(partitions: int) -> None:
    with pytest.raises(TopologyError, match="at least one partition"):
        TestDriver(counting(), partitions=partitions)
