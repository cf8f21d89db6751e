"""Writes customers and their orders to the topics ``shop-customers`` and ``shop-orders``."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # makes it runnable as a script

from examples.generator import Generated, main

TOPICS = ["shop-customers", "shop-orders"]
CITIES = ["Ghent", "Lyon", "Porto"]
PRICES = {"bread": 2.5, "flour": 1.25, "rolls": 0.5, "yeast": 0.75, "mill": 149.0}
CUSTOMERS = 20


def records(rng: random.Random, count: int, start: int) -> Iterator[Generated]:
    """Yields a customer in every tenth record, else an order of one to three items; one record in ten seconds."""
    for number in range(count):
        time = start + 10_000 * number
        customer = f"c{rng.randrange(CUSTOMERS)}"
        if number % 10 == 0:
            place = {"name": f"Customer {customer[1:]}", "city": rng.choice(CITIES)}
            yield Generated("shop-customers", customer, place, time)
            continue
        items = [
            {"product": product, "quantity": rng.randint(1, 4), "price": PRICES[product]}
            for product in rng.sample(list(PRICES), rng.randint(1, 3))
        ]
        yield Generated("shop-orders", f"order-{number}", {"customer": customer, "items": items}, time)


if __name__ == "__main__":
    main(__doc__, TOPICS, records)
