from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from examples.fraud.app import app

from millstream import TestDriver

MINUTE = 60_000


@pytest.fixture
def driver() -> Iterator[TestDriver]:
    with TestDriver(app) as made:
        made.input("devices").pipe("card", ["phone"])
        yield made


def pay(driver: TestDriver, amount: float | None, time: int, *, device: str = "phone", card: str = "card") -> None:
    driver.input("payments").pipe(card, {"amount": amount, "device": device, "merchant": "bakery"}, timestamp=time)


def alerts(driver: TestDriver) -> list[tuple[str, dict[str, Any], int]]:
    return [(alert.key, alert.value, alert.timestamp) for alert in driver.output("alerts").read_all()]


def test_more_than_five_payments_within_a_minute_are_an_alert(driver: TestDriver) -> None:
    for time in (0, 10_000, 20_000, 30_000, 40_000):
        pay(driver, 20, MINUTE + time)
    pay(driver, 20, 2 * MINUTE, card="another")
    assert [key for key, _, _ in alerts(driver)] == ["another"]  # the device is not known
    pay(driver, 20, 2 * MINUTE)
    assert alerts(driver)[1:] == [("card", {"sign": "many payments", "count": 6}, 2 * MINUTE)]


def test_payments_just_over_a_minute_apart_are_not_too_many(driver: TestDriver) -> None:
    for time in (0, 10_000, 20_000, 30_000, 40_000, 60_001):
        pay(driver, 20, MINUTE + time)
    assert alerts(driver) == []


def test_a_late_payment_is_counted_within_the_grace_period(driver: TestDriver) -> None:
    for time in (0, 10_000, 20_000, 30_000, 50_000):
        pay(driver, 20, MINUTE + time)
    pay(driver, 20, MINUTE + 40_000)
    assert alerts(driver) == [("card", {"sign": "many payments", "count": 6}, MINUTE + 50_000)]
    pay(driver, 20, 60 * MINUTE)
    pay(driver, 20, MINUTE)
    assert driver.dropped[("payments-count", "late")] == 1


@pytest.mark.parametrize(
    ("small", "large", "time", "alerted"),
    [
        (1, 899, 0, True),
        (2, 500, 10 * MINUTE, True),
        (2, 500, 10 * MINUTE + 1, False),
        (3, 899, 0, False),
        (1, 499, 0, False),
    ],
)
def test_a_small_payment_then_a_large_one_is_an_alert(
    driver: TestDriver, small: float, large: float, time: int, alerted: bool
) -> None:
    pay(driver, small, MINUTE)
    pay(driver, large, MINUTE + time)
    sign = {"sign": "small then large", "tries": 1, "amount": large}
    assert alerts(driver) == ([("card", sign, MINUTE + time)] if alerted else [])


def test_a_large_payment_then_a_small_one_is_no_alert(driver: TestDriver) -> None:
    pay(driver, 899, MINUTE)
    pay(driver, 1, MINUTE + 1)
    assert alerts(driver) == []


def test_an_out_of_order_small_payment_is_stored_at_its_own_time(driver: TestDriver) -> None:
    pay(driver, 50, 9 * MINUTE)
    pay(driver, 1, 5 * MINUTE)
    pay(driver, 899, 8 * MINUTE)
    assert alerts(driver) == [("card", {"sign": "small then large", "tries": 1, "amount": 899}, 8 * MINUTE)]


def test_an_unknown_device_is_an_alert(driver: TestDriver) -> None:
    pay(driver, 20, MINUTE, device="laptop")
    driver.input("devices").pipe("card", ["phone", "laptop"])
    pay(driver, 20, 30 * MINUTE, device="laptop")
    driver.input("devices").pipe("card", None)
    pay(driver, 20, 60 * MINUTE, device="laptop")
    sign = {"sign": "unknown device", "device": "laptop"}
    assert alerts(driver) == [("card", sign, MINUTE), ("card", sign, 60 * MINUTE)]


def test_there_is_one_alert_per_sign_in_ten_minutes(driver: TestDriver) -> None:
    pay(driver, 20, MINUTE, device="laptop")
    pay(driver, 20, 5 * MINUTE, device="laptop")
    pay(driver, 20, 5 * MINUTE, device="laptop", card="other")
    pay(driver, 20, 16 * MINUTE, device="laptop")
    assert [(card, time) for card, _, time in alerts(driver)] == [
        ("card", MINUTE), ("other", 5 * MINUTE), ("card", 16 * MINUTE),
    ]  # fmt: skip
    assert driver.dropped == {("signs-deduplicate", "duplicate"): 1}


def test_payments_without_an_amount_are_skipped(driver: TestDriver) -> None:
    pay(driver, None, MINUTE, device="laptop")
    driver.input("payments").pipe("card", None)
    assert alerts(driver) == []
