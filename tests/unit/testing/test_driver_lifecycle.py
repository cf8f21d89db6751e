"""The driver itself: how it starts and ends, its clock, and its configuration."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from millstream import App, MillstreamError, Processor, Record, TestDriver
from millstream.errors import ConfigError, ProcessingError, RunError
from millstream.schemas.registries import registry_of


def closing(calls: list[str]) -> App:
    class Noting(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.forward(record.with_value(1 // record.value))

        def close(self) -> None:
            calls.append("close")

    app = App("driver")
    app.stream("in", value=int).process(Noting, key=str, value=int).to("out")
    return app


def test_leaving_the_context_closes_the_processors() -> None:
    calls: list[str] = []
    with TestDriver(closing(calls)):
        assert calls == []
    assert calls == ["close"]


def test_closing_twice_closes_once() -> None:
    calls: list[str] = []
    with TestDriver(closing(calls)) as driver:
        driver.close()
    assert calls == ["close"]


def test_after_close_the_driver_refuses_records() -> None:
    driver = TestDriver(closing([]))
    driver.close()
    with pytest.raises(RunError, match="closed"):
        driver.input("in").pipe("k", 1)


def test_results_can_be_read_after_the_context() -> None:
    with TestDriver(closing([])) as driver:
        driver.input("in").pipe("k", 1)
    assert driver.output("out").read_values() == [1]


def test_an_error_passes_through_the_context_unchanged() -> None:
    with pytest.raises(ProcessingError, match="ZeroDivisionError"), TestDriver(closing([])) as driver:
        driver.input("in").pipe("k", 0)


def test_drivers_of_one_application_share_no_state() -> None:
    app = App("driver")
    app.stream("in", value=int).group_by_key().count(store="counts")
    first, second = TestDriver(app), TestDriver(app)
    first.input("in").pipe("k", 1)
    assert (first.store("counts").get("k"), second.store("counts").get("k")) == (1, None)


def test_a_driver_ignores_operators_that_are_added_later() -> None:
    app = App("driver")
    stream = app.stream("in", value=int)
    stream.to("out")
    driver = TestDriver(app)
    stream.to("late")
    driver.input("in").pipe("k", 1)
    assert driver.produced_topics == {"out"}
    with TestDriver(app) as later:
        later.input("in").pipe("k", 1)
        assert later.produced_topics == {"out", "late"}


def test_configuration_of_the_driver_overrides_that_of_the_application() -> None:
    app = closing([])
    with TestDriver(app, config={"processing.exception.handler": "continue"}) as driver:
        driver.input("in").pipe("k", 0)
        assert sum(driver.dropped.values()) == 1
    assert app.config["processing.exception.handler"] == "fail"


def test_configuration_of_the_driver_accepts_underscores() -> None:
    with TestDriver(closing([]), config={"processing_exception_handler": "continue"}) as driver:
        driver.input("in").pipe("k", 0)
        assert sum(driver.dropped.values()) == 1


def test_an_optimization_in_the_configuration_of_the_driver_is_applied() -> None:
    app = App("driver")
    app.table("in", value=int, store="table").to_stream().to("out")
    with TestDriver(app, config={"topology.optimization": "all"}) as driver:
        driver.input("in").pipe("k", 1)
        assert driver.changelog("table") == []


def test_unknown_configuration_of_the_driver_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'processing.exception.handler'"):
        TestDriver(closing([]), config={"processing.exeption.handler": "continue"})


def test_an_application_without_operators_can_be_run() -> None:
    with TestDriver(App("driver")) as driver:
        assert driver.produced_topics == set()
        driver.advance_wall_clock("1h")


def test_the_wall_clock_starts_at_the_given_time_and_stands_still() -> None:
    app = App("driver")
    app.stream("in", value=int, timestamp="wall_clock").to("out")
    with TestDriver(app, wall_clock=500) as driver:
        driver.input("in").pipe("k", 1, timestamp=7)
        driver.advance_wall_clock("1s")
        driver.input("in").pipe("k", 1, timestamp=7)
        assert [r.timestamp for r in driver.output("out").read_all()] == [500, 1_500]


def test_the_wall_clock_cannot_go_back() -> None:
    with TestDriver(closing([])) as driver, pytest.raises(MillstreamError, match=r"back|negative"):
        driver.advance_wall_clock(-1)


class _Collecting(dict[str, Any]):
    """A configuration whose comparison runs the garbage collector."""

    def __ne__(self, other: object) -> bool:
        gc.collect()
        return super().__ne__(other)


def test_a_driver_may_be_collected_while_the_registries_of_applications_are_locked() -> None:
    gc.collect()
    app = App("collected")
    app.stream("in").to("out")
    cycle: list[Any] = [TestDriver(app)]
    cycle.append(cycle)
    driver = weakref.ref(cycle[0])
    del cycle
    config = _Collecting(app.config)
    assert registry_of("collected", config) == registry_of("collected", config)
    assert driver() is None
