"""Writes trades of twenty tickers to the topic ``trades``."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # makes it runnable as a script

from examples.generator import Generated, main

TOPICS = ["trades"]
TICKERS = [first + second for first in "ABCDE" for second in "KLMN"]


def records(rng: random.Random, count: int, start: int) -> Iterator[Generated]:
    """Yields about twenty trades per second; one in ten is up to two seconds late, one in fifty has no price."""
    prices = {ticker: rng.uniform(20, 200) for ticker in TICKERS}
    for number in range(count):
        ticker = rng.choice(TICKERS)
        prices[ticker] = max(1.0, prices[ticker] + rng.gauss(0, 0.5))
        price = round(prices[ticker], 2)
        late = rng.randrange(2_000) if rng.random() < 0.1 else 0
        trade = {
            "price": None if rng.random() < 0.02 else price,
            "ask": round(price + rng.uniform(0.01, 0.2), 2),
            "size": 100 * rng.randint(1, 20),
        }
        yield Generated("trades", ticker, trade, max(start, start + 50 * number - late))


if __name__ == "__main__":
    main(__doc__, TOPICS, records)
