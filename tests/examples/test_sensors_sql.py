from __future__ import annotations

from typing import Any

from tests.examples.loading import app_of

from millstream import TestDriver

MINUTE = 60_000


def read(driver: TestDriver, topic: str) -> list[Any]:
    return driver.output(topic, key=bytes, value=object).read_values()


def report(driver: TestDriver, minute: float, line: str) -> None:
    driver.input("readings", key=str, value=str).pipe("b1", line, timestamp=int(minute * MINUTE))


def test_heat_and_an_empty_battery_are_alarms_of_one_stream() -> None:
    with TestDriver(app_of("sensors_sql")) as driver:
        for minute, line in enumerate(["40.0,90", "75.5,3", "75.0,5"]):
            report(driver, minute, line)
        assert read(driver, "ALARMS") == [
            {"KIND": "heat", "WHAT": "75.5 °C"},
            {"KIND": "battery", "WHAT": "3 %"},
        ]


def test_a_window_has_its_average_when_it_is_over() -> None:
    with TestDriver(app_of("sensors_sql")) as driver:
        for minute, line in [(0, "20.0,9"), (4, "30.0,9"), (7, "70.0,9"), (15.9, "0.0,9"), (16, "0.0,9")]:
            report(driver, minute, line)
        assert read(driver, "AVERAGES") == [
            {"READINGS": 3, "CELSIUS": 40.0},
            {"READINGS": 1, "CELSIUS": 70.0},
        ]


def test_a_spell_of_heat_grows_and_a_pause_begins_another_one() -> None:
    with TestDriver(app_of("sensors_sql")) as driver:
        for minute, line in [(0, "61.0,9"), (1, "65.0,9"), (2, "20.0,9"), (5, "64.0,9")]:
            report(driver, minute, line)
        assert read(driver, "HOT_SPELLS") == [
            {"READINGS": 1, "HOTTEST": 61.0, "DURATION": 0},
            None,
            {"READINGS": 2, "HOTTEST": 65.0, "DURATION": 60},
            {"READINGS": 1, "HOTTEST": 64.0, "DURATION": 0},
        ]


def test_a_line_that_does_not_parse_is_skipped_and_counted() -> None:
    with TestDriver(app_of("sensors_sql")) as driver:
        report(driver, 0, "hot")
        report(driver, 1, "80.0,50")
        assert [row["KIND"] for row in read(driver, "ALARMS")] == ["heat"]
        assert sum(driver.dropped.values()) == 1
