"""Writes lines of text to the topic ``lines``."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # makes it runnable as a script

from examples.generator import Generated, main

TOPICS = ["lines"]
WORDS = ["the", "mill", "wheel", "turns", "as", "long", "as", "water", "runs", "and", "grain", "comes", "in"]


def records(rng: random.Random, count: int, start: int) -> Iterator[Generated]:
    """Yields lines of three to eight words, ten per second, without keys."""
    for number in range(count):
        line = " ".join(rng.choices(WORDS, k=rng.randint(3, 8)))
        yield Generated("lines", None, line.capitalize() + ".", start + 100 * number)


if __name__ == "__main__":
    main(__doc__, TOPICS, records)
