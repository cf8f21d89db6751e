"""User functions and processors of generated topologies. They depend on the record and the state of its key alone."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from millstream import Processor, Record


def code(text: str | None) -> int:
    """Returns a number that is the same in each process."""
    return crc32((text or "").encode())


def mixed(*parts: str | None) -> str:
    """Returns a short text that depends on all parts and their order."""
    text = "+".join(part or "-" for part in parts)
    return text if len(text) <= 20 else f"{code(text):08x}"


def joined(left: str | None, right: str | None) -> str:
    """Joins two values."""
    return mixed(left, right)


NOTHING = "0:0"
"""A sum of no values."""


def total(value: str, aggregate: str) -> str:
    """Adds a value to a sum, which does not depend on the order."""
    count, amount = map(int, aggregate.split(":"))
    return f"{count + 1}:{(amount + code(value)) % 2**32}"


def rest(value: str, aggregate: str) -> str | None:
    """Subtracts a value from a sum. A group without values has no row, whether or not it ever had values."""
    count, amount = map(int, aggregate.split(":"))
    return f"{count - 1}:{(amount - code(value)) % 2**32}" if count > 1 else None


def grouping(groups: int, nulls: bool) -> Any:
    """Returns a function from a value to one of a number of keys; None for some values, if there are nulls."""

    def group(value: str | None) -> str | None:
        return None if nulls and code(value) % 7 == 0 else f"g{code(value) % groups}"

    return group


def chosen(parts: int) -> Any:
    """Returns a predicate that holds for all but one of some parts of all values."""
    return lambda value: code(value) % parts != 0


class Chain(Processor[str, str, str, str]):
    """Keeps a digest of the values of each key in order, and forwards it with another timestamp."""

    store = ""

    def process(self, record: Record[str, str]) -> None:
        """Updates the digest."""
        if record.key is None or record.value is None:
            self.context.forward(record)
            return
        rows = self.context.store(self.store)
        digest = mixed(rows.get(record.key), record.value)
        rows.put(record.key, digest)
        moved = record.timestamp + code(digest) % 31 - 15
        self.context.forward(Record(record.key, digest, max(0, moved), record.headers))


class Ticker(Processor[str, str, str, str]):
    """Keeps a digest of the values of each key, and forwards and deletes all of them at intervals of stream time."""

    store = ""

    def init(self) -> None:
        """Schedules the punctuator."""
        self.context.schedule(20, "stream", self._tick)

    def process(self, record: Record[str, str]) -> None:
        """Updates the digest."""
        if record.key is not None and record.value is not None:
            rows = self.context.store(self.store)
            rows.put(record.key, mixed(rows.get(record.key), record.value))

    def _tick(self, now: int) -> None:
        rows = self.context.store(self.store)
        for key, digest in list(rows.all()):
            self.context.forward(Record(key, digest, max(0, now - 25)))
            rows.delete(key)
