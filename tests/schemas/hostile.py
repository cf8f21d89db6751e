"""Random and mutated payloads."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence

from millstream.errors import SerdeError

COUNT = 600 if os.environ.get("HYPOTHESIS_PROFILE") == "quick" else 10_000


def mutated(random_: random.Random, data: bytes) -> bytes:
    """A payload with some bytes changed, removed, repeated, cut off or added; or one that is random."""
    kind = random_.randrange(6)
    at = random_.randrange(len(data) + 1)
    if kind == 0:
        return random_.randbytes(random_.randrange(64))
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[:at] + random_.randbytes(random_.randrange(1, 8)) + data[at:]
    if kind == 3:
        return data[:at] + data[at + random_.randrange(1, 8) :]
    changed = bytearray(data)
    for _ in range(random_.randrange(1, 5)):
        changed[random_.randrange(len(changed))] = random_.choice((0, 1, 0x7F, 0x80, 0xFF, random_.randrange(256)))
    return bytes(changed)


def read_all(read: Callable[[bytes], object], samples: Sequence[bytes], count: int = COUNT) -> tuple[int, int]:
    """Reads mutations of samples; returns how many were values and how many errors. Other exceptions are raised."""
    random_ = random.Random(7)
    values = errors = 0
    for _ in range(count):
        try:
            read(mutated(random_, random_.choice(samples)))
            values += 1
        except SerdeError:
            errors += 1
    return values, errors
