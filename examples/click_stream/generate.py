"""Writes users, their searches and their clicks to the topics ``profiles``, ``searches`` and ``clicks``."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # makes it runnable as a script

from examples.generator import Generated, main

TOPICS = ["profiles", "searches", "clicks"]
USERS = [f"u{number}" for number in range(20)]
NAMES = ["Ann", "Bob", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Jan"]
INTERESTS = ["tea", "boats", "chess", "maps", "bread"]


def records(rng: random.Random, count: int, start: int) -> Iterator[Generated]:
    """Yields an event every half second. Half of the users start with a profile; profiles change and are deleted."""
    for number in range(count):
        time = start + 500 * number + rng.randrange(400)
        user = rng.choice(USERS)
        kind = rng.random()
        if number < len(NAMES):
            yield Generated("profiles", USERS[number], profile(rng, NAMES[number]), time)
        elif kind < 0.05:
            yield Generated("profiles", user, profile(rng, rng.choice(NAMES)), time)
        elif kind < 0.07:
            yield Generated("profiles", user, None, time)
        elif kind < 0.4:
            yield Generated("searches", user, {"terms": rng.sample(INTERESTS, k=2)}, time)
        else:
            late = rng.randrange(3_000) if rng.random() < 0.1 else 0
            page = f"/{rng.choice(INTERESTS)}/{rng.randint(1, 9)}"
            yield Generated("clicks", user, {"page": page}, max(start, time - late))


def profile(rng: random.Random, name: str) -> dict[str, object]:
    return {"name": name, "interests": rng.sample(INTERESTS, k=2)}


if __name__ == "__main__":
    main(__doc__, TOPICS, records)
