"""The history of an application: samples of rates and latencies, made of reports that have totals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serve.conftest import LiveShop, Serving
from tests.serve.reported import START, Reported, observer_of, original_report
from tests.serve.servers import Server, wait_until
from tests.serve.shop import order

from millstream.serve.observe.observer import Observer


@pytest.fixture
def reported(data: Path, shop_data: Path) -> Reported:
    return Reported(data, original_report(shop_data))


@pytest.fixture
def observer(data: Path) -> Iterator[Observer]:
    observer = observer_of(data)
    yield observer
    observer.stop()


@pytest.fixture
def sampled(reported: Reported, observer: Observer) -> Callable[..., dict[str, Any]]:
    """Writes the report of a time in seconds, takes a sample, and returns the history."""

    def sample(second: float, **changes: Any) -> dict[str, Any]:
        reported.write(int(second * 1000), **changes)
        observer.observe(START + int(second * 1000))
        return observer.history("shop")

    return sample


def test_rates_are_differences_of_totals(reported: Reported, sampled: Callable[..., dict[str, Any]]) -> None:
    sampled(5)
    reported.metrics["records"]["in"] += 100
    reported.metrics["records"]["out"] += 50
    reported.metrics["nodes"]["orders-source"]["in"] += 20
    reported.drop("late", 10)
    history = sampled(10)
    assert history["times"] == [START + 5000, START + 10_000]
    assert history["series"]["rate_in"] == [None, 20.0]
    assert history["series"]["rate_out"] == [None, 10.0]
    assert history["series"]["late"] == [None, 2.0]
    assert history["nodes"]["orders-source"] == [None, 4.0]


def test_totals_of_a_new_run_begin_at_zero(reported: Reported, sampled: Callable[..., dict[str, Any]]) -> None:
    sampled(5)
    reported.metrics["records"]["in"] = 30
    history = sampled(10, run="another", started=START + 7000)
    assert history["series"]["rate_in"] == [None, 10.0]


def test_a_run_that_has_just_started_counts_from_its_start_on(
    data: Path, reported: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: START / 1000 + 30)
    reported.metrics["records"]["in"] = 50
    reported.drop("processing error", 10)
    reported.write(5000)
    observer = observer_of(data)
    observer.observe(START + 5000)
    assert observer.history("shop")["series"]["rate_in"] == [10.0]
    assert "failed records" in {alert["rule"] for alert in observer.alerts.read()["alerts"]}
    observer.stop()


def test_a_sample_without_a_new_report_repeats_the_last_one(
    reported: Reported, observer: Observer, sampled: Callable[..., dict[str, Any]]
) -> None:
    sampled(5)
    reported.metrics["records"]["in"] += 10
    sampled(10)
    observer.observe(START + 15_000)
    assert observer.history("shop")["series"]["rate_in"] == [None, 2.0, 2.0]


def test_latencies_are_those_between_two_samples(reported: Reported, sampled: Callable[..., dict[str, Any]]) -> None:
    sampled(5)
    event = reported.metrics["histograms"]["latency"]["event"]
    commit = reported.metrics["histograms"]["phases"]["commit"]
    event["counts"][event["bounds"].index(0.5)] += 1000
    commit["counts"][0] += 4
    commit["sum"] += 0.1
    history = sampled(10)
    assert history["series"]["commit_ms"] == [None, 25.0]
    assert history["phases"]["commit"] == [None, 25.0]
    (_none, latency) = history["series"]["latency_ms"]
    assert 250 < latency <= 500
    assert sampled(15)["series"]["latency_ms"][-1] is None


def test_an_application_that_has_ended_leaves_a_gap_and_is_forgotten_after_an_hour(
    reported: Reported, observer: Observer, sampled: Callable[..., dict[str, Any]]
) -> None:
    sampled(5)
    assert sampled(10, state="NOT_RUNNING")["series"]["lag"] == [0.0, None]
    for step in range(3, 724):
        observer.observe(START + step * 5000)
    assert observer.history("shop")["times"] == []


def test_the_history_has_an_hour(data: Path, reported: Reported) -> None:
    observer = observer_of(data, interval_ms=60_000)
    for minute in range(1, 80):
        reported.write(minute * 60_000)
        observer.observe(START + minute * 60_000)
    history = observer.history("shop")
    assert history["times"] == [START + minute * 60_000 for minute in range(20, 80)]
    assert {len(row) for row in history["series"].values()} == {60}
    assert len(observer.history("shop", START + 77 * 60_000)["times"]) == 3
    observer.stop()


def test_the_history_begins_again_if_the_clock_is_set_back(
    observer: Observer, sampled: Callable[..., dict[str, Any]]
) -> None:
    sampled(50)
    sampled(55)
    assert sampled(20)["times"] == [START + 20_000]
    assert sampled(25)["times"] == [START + 20_000, START + 25_000]


def test_a_server_shows_the_history_of_a_running_application(live_shop: LiveShop, serving: Serving) -> None:
    live_shop.produce("orders", order("north"))
    with serving(live_shop.data) as server:

        def history() -> Any:
            return server.viewer.get("/api/v1/applications/shop/history").json()

        wait_until(lambda: history()["times"], "the first sample")
        assert history()["interval_ms"] == 5000
        assert history()["series"]["lag"][0] is not None
        late = history()["times"][-1] + 10**9
        assert server.viewer.get("/api/v1/applications/shop/history", since=late).json()["times"] == []


def test_the_history_of_an_unknown_application_is_not_found(shop_server: Server) -> None:
    assert shop_server.viewer.get("/api/v1/applications/other/history").status == 404
    assert shop_server.viewer.get("/api/v1/applications/shop/history", since=-1).status == 422
    assert shop_server.viewer.get("/api/v1/applications/shop/history").json()["times"] == []
