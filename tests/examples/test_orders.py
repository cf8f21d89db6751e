from __future__ import annotations

from collections.abc import Iterator

import pytest
from examples.orders.app import Customer, Delivery, Order, Visit, app

from millstream import MillstreamError, TestDriver, Windowed

MINUTE = 60_000
DAY = 24 * 60 * MINUTE
TEA = Order("c1", "tea", 4.5)


@pytest.fixture
def driver() -> Iterator[TestDriver]:
    with TestDriver(app) as made:
        yield made


def test_a_delivery_is_updated_with_the_order_and_the_customer(driver: TestDriver) -> None:
    orders, customers, deliveries = driver.input("orders"), driver.input("customers"), driver.output("deliveries")
    orders.pipe("o1", TEA)
    assert deliveries.is_empty  # the customer is not known yet
    customers.pipe("c1", Customer("Ann", "Oslo"))
    orders.pipe("o2", Order("c1", "cup", 8.25))
    customers.pipe("c1", Customer("Ann", "Riga"))
    orders.pipe("o1", Order("c1", "tea", 4.5, "paid"))
    assert deliveries.read_pairs() == [
        ("o1", Delivery("tea", "placed", "Ann, Oslo")),
        ("o2", Delivery("cup", "placed", "Ann, Oslo")),
        ("o1", Delivery("tea", "placed", "Ann, Riga")),
        ("o2", Delivery("cup", "placed", "Ann, Riga")),
        ("o1", Delivery("tea", "paid", "Ann, Riga")),
    ]


def test_deleting_an_order_or_a_customer_deletes_the_delivery(driver: TestDriver) -> None:
    orders, customers, deliveries = driver.input("orders"), driver.input("customers"), driver.output("deliveries")
    customers.pipe("c1", Customer("Ann", "Oslo"))
    orders.pipe("o1", TEA)
    orders.pipe("o2", TEA)
    orders.pipe("o1", None)
    assert deliveries.read_table() == {"o2": Delivery("tea", "placed", "Ann, Oslo")}
    customers.pipe("c1", None)
    assert deliveries.read_pairs() == [("o2", None)]
    assert dict(driver.store("deliveries").all()) == {}


def test_an_order_can_change_its_customer(driver: TestDriver) -> None:
    driver.input("customers").pipe_pairs([("c1", Customer("Ann", "Oslo")), ("c2", Customer("Bob", "Riga"))])
    driver.input("orders").pipe("o1", TEA)
    driver.input("orders").pipe("o1", Order("c2", "tea", 4.5))
    driver.input("customers").pipe("c1", Customer("Ann", "Turin"))  # the order has another customer now
    assert [delivery.to for delivery in driver.output("deliveries").read_values()] == ["Ann, Oslo", "Bob, Riga"]


def test_orders_close_in_time_are_one_visit(driver: TestDriver) -> None:
    orders = driver.input("orders")
    orders.pipe("o1", TEA, timestamp=0)
    orders.pipe("o2", Order("c1", "cup", 8.25), timestamp=10 * MINUTE)
    orders.pipe("o3", TEA, timestamp=20 * MINUTE + 1)
    orders.pipe("o4", Order("c2", "tea", 4.5), timestamp=20 * MINUTE)
    assert driver.output("visits").read_table() == {
        Windowed("c1", 0, 10 * MINUTE): Visit(2, 12.75),
        Windowed("c1", 20 * MINUTE + 1, 20 * MINUTE + 1): Visit(1, 4.5),
        Windowed("c2", 20 * MINUTE, 20 * MINUTE): Visit(1, 4.5),
    }


def test_a_late_order_merges_two_visits(driver: TestDriver) -> None:
    orders, visits = driver.input("orders"), driver.output("visits")
    orders.pipe("o1", TEA, timestamp=0)
    orders.pipe("o2", TEA, timestamp=15 * MINUTE)
    assert len(visits.read_table()) == 2
    orders.pipe("o3", TEA, timestamp=8 * MINUTE)
    assert visits.read_pairs() == [
        (Windowed("c1", 0, 0), None),
        (Windowed("c1", 15 * MINUTE, 15 * MINUTE), None),
        (Windowed("c1", 0, 15 * MINUTE), Visit(3, 13.5)),
    ]


def test_an_order_beyond_the_grace_period_is_delivered_without_a_visit(driver: TestDriver) -> None:
    driver.input("customers").pipe("c1", Customer("Ann", "Oslo"))
    driver.input("orders").pipe("o1", TEA, timestamp=8 * DAY)
    driver.input("orders").pipe("o2", TEA, timestamp=0)
    assert driver.dropped == {("orders-aggregate", "late"): 1}
    assert driver.output("deliveries").read_table().keys() == {"o1", "o2"}


def test_only_placed_orders_are_part_of_a_visit(driver: TestDriver) -> None:
    driver.input("orders").pipe_pairs([("o1", Order("c1", "tea", 4.5, "paid")), ("o1", None)])
    assert driver.output("visits").is_empty


def test_a_record_that_is_not_an_order_stops_the_application(driver: TestDriver) -> None:
    with pytest.raises(MillstreamError, match="missing required field `customer`"):
        driver.input("orders", key=str, value=bytes).pipe("o1", b'{"product": "tea"}')
