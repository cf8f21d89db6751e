"""``driver.restart``: an application that stops and starts again gives the same results."""

from __future__ import annotations

import pytest
from tests.unit.testing.everything import everything, outputs, records, stores

from millstream import App, Materialized, Processor, Record, TestDriver, tumbling


def played(seed: int, restarts: set[int]) -> TestDriver:
    """Returns a driver with the records of a seed, restarted before the given numbers of records."""
    driver = TestDriver(everything())
    for number, (topic, key, value, time) in enumerate(records(seed, 120)):
        if number in restarts:
            driver.restart()
        driver.input(topic).pipe(key, value, timestamp=time)
        if number % 10 == 0:
            driver.advance_wall_clock(30)
    return driver


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("restarts", [{60}, {20, 70, 110}, set(range(120))], ids=["once", "thrice", "always"])
def test_with_every_kind_of_store_results_are_the_same_with_restarts(seed: int, restarts: set[int]) -> None:
    expected, restarted = played(seed, set()), played(seed, restarts)
    assert outputs(restarted) == outputs(expected)
    assert stores(restarted) == stores(expected)
    assert restarted.dropped == expected.dropped


def test_every_output_of_the_application_has_records() -> None:
    driver = played(0, set())
    assert len(outputs(driver)) == 17


def test_offsets_continue_after_a_restart() -> None:
    class Where(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            where = self.context.record_metadata
            assert where is not None
            self.context.forward(record.with_value(where.offset))

    app = App("driver")
    app.stream("in", value=int).process(Where, key=str, value=int).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 1)
        driver.restart()
        driver.input("in").pipe("k", 1)
        assert driver.output("out").read_values() == [0, 1]


def test_processors_are_closed_and_created_again() -> None:
    calls: list[str] = []

    class Noting(Processor[str, int, str, int]):
        def init(self) -> None:
            calls.append("init")

        def process(self, record: Record[str, int]) -> None: ...

        def close(self) -> None:
            calls.append("close")

    app = App("driver")
    app.stream("in", value=int).process(Noting)
    with TestDriver(app) as driver:
        driver.restart()
    assert calls == ["init", "close", "init", "close"]


def test_a_store_without_logging_is_lost() -> None:
    app = App("driver")
    app.stream("in", value=int).group_by_key().count(store=Materialized("counts", logging=False))
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 1)
        driver.restart()
        driver.input("in").pipe("k", 1)
        assert driver.store("counts").get("k") == 1


def test_the_stream_time_of_an_operator_is_kept() -> None:
    app = App("driver")
    app.stream("in", value=int).group_by_key().windowed_by(tumbling(10)).count(name="op").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("k", 1, timestamp=100)
        driver.restart()
        driver.input("in").pipe("k", 1, timestamp=5)
        assert len(driver.output("out")) == 1
        assert sum(driver.dropped.values()) == 1


def test_with_several_partitions_each_task_restores_its_own_state() -> None:
    app = App("driver")
    app.stream("in", value=int).group_by_key().count(store="counts")
    with TestDriver(app, partitions=3) as driver:
        for _ in range(2):
            driver.input("in").pipe_pairs([(key, 1) for key in "abcdef"])
            driver.restart()
        assert list(driver.store("counts").all()) == [(key, 2) for key in "abcdef"]
