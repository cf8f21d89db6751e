"""Writes the readings of machines to the topic ``readings``."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # makes it runnable as a script

from examples.generator import Generated, main

TOPICS = ["readings"]
MACHINES = ["drill", "lathe", "press", "pump", "saw"]


def records(rng: random.Random, count: int, start: int) -> Iterator[Generated]:
    """Yields about one reading per second of machines that are switched on and off; some are late, some very late."""
    running: dict[str, tuple[float, float]] = {}
    for number in range(count):
        for machine in MACHINES:
            if rng.random() < 0.02 and running.pop(machine, None) is None:
                running[machine] = (rng.uniform(50, 95), rng.uniform(1, 8))
        if not running:
            running[rng.choice(MACHINES)] = (70.0, 3.0)
        machine = rng.choice(list(running))
        heat, shake = running[machine]
        chance = rng.random()
        late = rng.randrange(8_000) if chance < 0.05 else 120_000 if chance < 0.07 else 0
        temperature = None if rng.random() < 0.01 else round(rng.gauss(heat, 2), 1)
        reading = {"temperature": temperature, "vibration": round(abs(rng.gauss(shake, 0.5)), 2)}
        yield Generated("readings", machine, reading, max(start, start + 1_000 * number - late))


if __name__ == "__main__":
    main(__doc__, TOPICS, records)
