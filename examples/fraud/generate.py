"""Writes card payments to the topic ``payments``, and the devices of the owners to ``devices``."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # makes it runnable as a script

from examples.generator import Generated, main

TOPICS = ["devices", "payments"]
CARDS = [f"card-{number:02}" for number in range(100)]
MERCHANTS = ["bakery", "bookshop", "chandler", "tailor"]


def records(rng: random.Random, count: int, start: int) -> Iterator[Generated]:
    """Yields the devices, then about two payments per second; sometimes a card is stolen."""
    yield from [Generated("devices", card, [f"phone-{card}"], start) for card in CARDS[:count]]
    made = len(CARDS)
    time = start
    while made < count:
        time += rng.randrange(1_000)
        card = rng.choice(CARDS)
        for payment in theft(rng, card) if rng.random() < 0.02 else [payment_of(rng, card)]:
            if made < count:
                late = rng.randrange(20_000) if rng.random() < 0.1 else 0
                yield Generated("payments", card, payment, max(start, time - late))
                time += rng.randrange(300)
                made += 1


def payment_of(rng: random.Random, card: str) -> dict[str, object]:
    amount = None if rng.random() < 0.01 else round(rng.uniform(3, 120), 2)
    return {"amount": amount, "device": f"phone-{card}", "merchant": rng.choice(MERCHANTS)}


def theft(rng: random.Random, card: str) -> list[dict[str, object]]:
    """Returns a small and a large payment, or many payments; from another device, or from the stolen one."""
    amounts = rng.choice([[1.0, 899.0], [round(rng.uniform(20, 90), 2) for _ in range(8)]])
    device = rng.choice([f"phone-{card}", "laptop-x"])
    return [{"amount": amount, "device": device, "merchant": rng.choice(MERCHANTS)} for amount in amounts]


if __name__ == "__main__":
    main(__doc__, TOPICS, records)
