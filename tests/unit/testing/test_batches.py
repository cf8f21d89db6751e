"""``batches=``: results do not depend on how the input is cut into micro-batches."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.testing.everything import everything, outputs, records, stores

from millstream import App, MillstreamError, TestDriver


def played(batches: Any, *, seed: int = 0, shifted: bool = False, driver_seed: int = 0) -> TestDriver:
    """Returns a driver with random records, in order of time unless ``shifted``.

    The global table is filled first: its updates are not ordered with the other records.
    """
    driver = TestDriver(everything(), batches=batches, seed=driver_seed)
    driver.input("small").pipe_pairs([("a", 1), ("b", 2)])
    driver.run()
    for number, (topic, key, value, time) in enumerate(records(seed, 100, ordered=True)):
        late = 30 if shifted and number % 3 == 0 else 0
        driver.input(topic).pipe(key, value, timestamp=max(0, time - late))
    return driver


CUTS = [1, 7, 1_000, [3, 1, 40], [100], "random"]


@pytest.mark.parametrize("batches", CUTS, ids=str)
@pytest.mark.parametrize("seed", [1, 2])
def test_with_records_in_order_batches_do_not_change_results(batches: Any, seed: int) -> None:
    expected, batched = played(None, seed=seed), played(batches, seed=seed)
    assert outputs(batched) == outputs(expected)
    assert stores(batched) == stores(expected)


@pytest.mark.parametrize("batches", CUTS, ids=str)
@pytest.mark.parametrize("seed", [1, 2])
def test_with_records_out_of_order_all_batch_sizes_give_the_same_results(batches: Any, seed: int) -> None:
    expected, batched = played(1, seed=seed, shifted=True), played(batches, seed=seed, shifted=True)
    assert outputs(batched) == outputs(expected)


@pytest.mark.parametrize("driver_seed", range(3))
def test_random_batches_of_any_seed_give_the_same_results(driver_seed: int) -> None:
    batched = played("random", driver_seed=driver_seed)
    assert outputs(batched) == outputs(played(None))


def doubling() -> App:
    app = App("driver")
    app.stream("in", value=int).group_by_key().reduce(lambda a, v: a + v, store="sum").to_stream().to("out")
    return app


def test_nothing_is_processed_until_run() -> None:
    seen: list[int] = []
    app = App("driver")
    app.stream("in", value=int).foreach(seen.append)
    driver = TestDriver(app, batches=10)
    driver.input("in").pipe_values([1, 2])
    assert seen == []
    driver.run()
    assert seen == [1, 2]


@pytest.mark.parametrize(
    "look",
    [
        lambda driver: driver.output("out").is_empty,
        lambda driver: driver.output("out").read(),
        lambda driver: driver.store("sum").get("k"),
        lambda driver: driver.changelog("sum"),
        lambda driver: driver.produced_topics,
        lambda driver: driver.advance_wall_clock(1),
        lambda driver: driver.restart(),
    ],
)
def test_reading_results_processes_waiting_records_first(look: Any) -> None:
    driver = TestDriver(doubling(), batches=10)
    driver.input("in").pipe("k", 1)
    look(driver)
    assert driver.output("out").read_values() == [1]


def test_reading_dropped_records_processes_waiting_records_first() -> None:
    driver = TestDriver(doubling(), batches=10)
    driver.input("in").pipe("k", None)
    assert len(driver.dropped_records) == 1


def test_leaving_the_context_processes_waiting_records() -> None:
    seen: list[int] = []
    app = App("driver")
    app.stream("in", value=int).foreach(seen.append)
    with TestDriver(app, batches=10) as driver:
        driver.input("in").pipe(1)
    assert seen == [1]


def test_without_batches_run_does_nothing() -> None:
    with TestDriver(doubling()) as driver:
        driver.run()
        driver.input("in").pipe("k", 1)
        driver.run()
        assert driver.output("out").read_values() == [1]


def test_the_list_of_sizes_is_not_changed() -> None:
    sizes = [1, 2]
    driver = TestDriver(doubling(), batches=sizes)
    driver.input("in").pipe_values([1, 2, 3])
    driver.run()
    assert sizes == [1, 2]


@pytest.mark.parametrize("batches", [0, -1, [0], [1, -1], "often", 1.5])
def test_invalid_batch_sizes_are_refused(batches: Any) -> None:
    with pytest.raises(MillstreamError, match="batches"):
        TestDriver(doubling(), batches=batches)
