"""Writes readings of sensors to the topic ``readings``: lines with the temperature and the battery."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # makes it runnable as a script

from examples.generator import Generated, main

TOPICS = ["readings"]
SENSORS = 6


def records(rng: random.Random, count: int, start: int) -> Iterator[Generated]:
    """Yields a reading in every ten seconds; temperatures change slowly, batteries run down."""
    celsius = [40.0] * SENSORS
    battery = [100] * SENSORS
    for number in range(count):
        sensor = rng.randrange(SENSORS)
        celsius[sensor] = min(max(celsius[sensor] + rng.randrange(-12, 14) / 2, 20.0), 90.0)
        battery[sensor] = 100 if battery[sensor] == 0 else max(battery[sensor] - rng.randint(0, 6), 0)
        yield Generated(
            "readings", f"bearing-{sensor}", f"{celsius[sensor]},{battery[sensor]}", start + 10_000 * number
        )


if __name__ == "__main__":
    main(__doc__, TOPICS, records)
