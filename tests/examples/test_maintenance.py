from __future__ import annotations

from collections.abc import Iterator

import pytest
from examples.maintenance.app import app

from millstream import TestDriver


@pytest.fixture
def driver() -> Iterator[TestDriver]:
    with TestDriver(app) as made:
        yield made


def read(driver: TestDriver, machine: str, seconds: float, *, heat: float | None = 60.0, shake: float = 2.0) -> None:
    driver.input("readings").pipe(machine, {"temperature": heat, "vibration": shake}, timestamp=int(seconds * 1000))


def test_a_run_is_reported_once_when_it_is_over(driver: TestDriver) -> None:
    reports = driver.output("run-reports")
    read(driver, "saw", 0, heat=50.0, shake=1.0)
    read(driver, "saw", 30, heat=70.0, shake=3.0)
    read(driver, "pump", 69.999)
    assert reports.is_empty
    read(driver, "pump", 70)  # the end of the run, the gap and the grace period
    assert reports.read_pairs() == [("saw", {"seconds": 30.0, "readings": 2, "hottest": 70.0, "vibration": 2.0})]


def test_an_out_of_order_reading_merges_two_runs(driver: TestDriver) -> None:
    for seconds in (0, 35, 20):
        read(driver, "saw", seconds)
    read(driver, "pump", 200)
    reports = driver.output("run-reports").read_pairs()
    assert [(machine, report["seconds"], report["readings"]) for machine, report in reports] == [("saw", 35.0, 3)]


def test_readings_after_the_report_go_to_the_late_topic(driver: TestDriver) -> None:
    read(driver, "saw", 10)
    read(driver, "pump", 100)
    read(driver, "saw", 12, heat=99.0)
    assert len(driver.output("run-reports")) == 1
    (late,) = driver.output("late-readings").read_all()
    assert (late.key, late.value, late.timestamp) == ("saw", {"temperature": 99.0, "vibration": 2.0}, 12_000)
    assert driver.dropped == {("readings-aggregate", "late"): 1}


def test_the_last_runs_are_reported_without_further_readings(driver: TestDriver) -> None:
    read(driver, "saw", 10)
    driver.advance_wall_clock("59s")
    assert driver.output("run-reports").is_empty
    driver.advance_wall_clock("2s")
    assert driver.output("run-reports").read_values() == [
        {"seconds": 0.0, "readings": 1, "hottest": 60.0, "vibration": 2.0}
    ]


@pytest.mark.parametrize(("heat", "shake", "due"), [(90.0, 7.0, False), (90.1, 2.0, True), (60.0, 7.5, True)])
def test_hot_or_vibrating_machines_are_due(driver: TestDriver, heat: float, shake: float, due: bool) -> None:
    read(driver, "saw", 0, shake=shake)
    read(driver, "saw", 10, heat=heat, shake=shake)
    read(driver, "pump", 100)
    assert [key for key, _ in driver.output("maintenance-due").read_pairs()] == (["saw"] if due else [])


def test_incomplete_readings_are_skipped(driver: TestDriver) -> None:
    read(driver, "saw", 0, heat=None)
    driver.input("readings").pipe("saw", None)
    driver.input("readings").pipe("saw", {"temperature": 60.0})
    driver.advance_wall_clock("5m")
    assert driver.output("run-reports").is_empty
    assert driver.dropped == {}


def test_a_reading_without_a_machine_is_dropped_and_counted(driver: TestDriver) -> None:
    driver.input("readings").pipe(None, {"temperature": 60.0, "vibration": 2.0})
    assert driver.dropped == {("readings-aggregate", "null key"): 1}
