from __future__ import annotations

from typing import Any

from tests.examples.loading import app_of

from millstream import TestDriver

MINUTE = 60_000


def order(driver: TestDriver, customer: str, minute: int, **pieces: int) -> None:
    prices = {"bread": 2.5, "mill": 149.0}
    items = [{"product": name, "quantity": count, "price": prices[name]} for name, count in pieces.items()]
    orders = driver.input("shop-orders", key=str, value=object)
    orders.pipe("o", {"customer": customer, "items": items}, timestamp=minute * MINUTE)


def driver_with_a_customer() -> TestDriver:
    driver = TestDriver(app_of("shop_sql"))
    driver.input("shop-customers", key=str, value=object).pipe("c1", {"name": "Ada", "city": "Ghent"}, timestamp=0)
    return driver


def values(driver: TestDriver, topic: str) -> list[Any]:
    return driver.output(topic, key=bytes, value=object).read_values()


def test_each_item_of_an_order_is_sold_in_the_city_of_its_customer() -> None:
    with driver_with_a_customer() as driver:
        order(driver, "c1", 1, bread=2, mill=1)
        order(driver, "c2", 2, bread=1)
        assert [(row["CITY"], row["PRODUCT"], row["AMOUNT"]) for row in values(driver, "SOLD")] == [
            ("Ghent", "bread", 5.0), ("Ghent", "mill", 149.0), (None, "bread", 2.5),
        ]  # fmt: skip


def test_the_turnover_of_an_hour_comes_out_once_when_it_is_over() -> None:
    with driver_with_a_customer() as driver:
        order(driver, "c1", 10, bread=2)
        order(driver, "c1", 59, bread=4)
        order(driver, "c1", 64, bread=1)
        assert values(driver, "TURNOVER") == []
        order(driver, "c1", 65, bread=1)
        assert values(driver, "TURNOVER") == [{"ITEMS": 2, "AMOUNT": 15.0, "HOUR": "00:00"}]


def test_a_product_is_a_best_seller_from_its_twentieth_piece_on() -> None:
    with driver_with_a_customer() as driver:
        order(driver, "c1", 1, bread=19)
        assert values(driver, "BEST_SELLERS") == []
        order(driver, "c1", 2, bread=3, mill=1)
        assert values(driver, "BEST_SELLERS") == [{"PIECES": 22}]
