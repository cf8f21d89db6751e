"""Writes customers and their orders to the topics ``customers`` and ``orders``."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # makes it runnable as a script

from examples.generator import Generated, main

TOPICS = ["customers", "orders"]
NAMES = ["Ann", "Bob", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal"]
CUSTOMERS = [f"c{number}" for number in range(40)]
CITIES = ["Oslo", "Porto", "Riga", "Turin"]
PRODUCTS = {"tea": 4.5, "kettle": 39.0, "cup": 8.25, "tray": 15.0}
SECOND = 1_000


def records(rng: random.Random, count: int, start: int) -> Iterator[Generated]:
    """Yields two events per minute: orders are placed, paid or cancelled, and customers move."""
    placed: dict[str, dict[str, object]] = {}
    for number in range(count):
        time = start + 30 * SECOND * number + rng.randrange(30 * SECOND)
        customer = rng.choice(CUSTOMERS)
        kind = rng.random()
        if number < len(CUSTOMERS) - 5:  # the last customers are added later
            yield Generated("customers", CUSTOMERS[number], address(rng), time)
        elif kind < 0.08:
            yield Generated("customers", customer, address(rng), time)
        elif kind < 0.15 and placed:
            order = rng.choice(list(placed))
            del placed[order]
            yield Generated("orders", order, None, time)
        elif kind < 0.4 and placed:
            order = rng.choice(list(placed))
            yield Generated("orders", order, {**placed.pop(order), "state": "paid"}, time)
        else:
            product = rng.choice(list(PRODUCTS))
            details: dict[str, object] = {"customer": customer, "product": product, "amount": PRODUCTS[product]}
            placed[f"o{number}"] = details
            late = 300 * SECOND if rng.random() < 0.1 else 0
            yield Generated("orders", f"o{number}", details, max(start, time - late))


def address(rng: random.Random) -> dict[str, object]:
    return {"name": rng.choice(NAMES), "city": rng.choice(CITIES)}


if __name__ == "__main__":
    main(__doc__, TOPICS, records)
