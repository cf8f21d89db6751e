"""A dead letter: a record of a dead-letter topic, with the facts in its headers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from millstream.core.records import ERROR_HEADER, Headers

REPLAY_HEADER = "__millstream.replay"
"""The header of a replayed record: topic, partition and offset of the letter, as ``dead:0:17``.

A record that was replayed several times has one for each replay.
"""

_FACTS = ("exception", "message", "stacktrace", "topic", "partition", "offset")


class DeadLetterSource(NamedTuple):
    """The position of the record that failed. The offset is None if the letter does not contain it."""

    topic: str
    partition: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record of a dead-letter topic.

    Attributes:
        topic: The dead-letter topic.
        partition: The partition of the letter; `offset` likewise.
        timestamp: The timestamp of the record that failed; `key` and `value` likewise, as bytes.
        headers: The headers of the record that failed, and those about the error.
        replayed: Whether it was replayed.
        exception: The class of the exception; None without such a header. `message` and `stacktrace` likewise.
        source: The position of the record; None without such headers.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    replayed: bool = False
    exception: str | None = field(init=False)
    message: str | None = field(init=False)
    stacktrace: str | None = field(init=False)
    source: DeadLetterSource | None = field(init=False)

    def __post_init__(self) -> None:
        # A letter about a letter has them twice: the last ones are its own.
        errors = {name: value for name, value in self.headers if name.startswith(ERROR_HEADER) and value is not None}
        facts = {name.removeprefix(ERROR_HEADER): value.decode(errors="replace") for name, value in errors.items()}
        topic, partition, offset = facts.get("topic"), facts.get("partition", ""), facts.get("offset", "")
        source = None
        if topic and partition.isascii() and partition.isdecimal():
            has_offset = offset.isascii() and offset.isdecimal()
            source = DeadLetterSource(topic, int(partition), int(offset) if has_offset else None)
        for name in ("exception", "message", "stacktrace"):
            object.__setattr__(self, name, facts.get(name))
        object.__setattr__(self, "source", source)
        if source is None:  # skipped, not replayed
            object.__setattr__(self, "replayed", False)

    @property
    def pending(self) -> bool:
        """Whether it can be replayed, and was not replayed yet."""
        return self.source is not None and not self.replayed

    @property
    def returned(self) -> int:
        """The number of earlier replays of the record, each of which failed again."""
        before = f"{self.topic}:".encode()
        return sum(name == REPLAY_HEADER and (value or b"").startswith(before) for name, value in self.headers)

    @property
    def original_headers(self) -> Headers:
        """The headers of the record that failed."""
        kept, own = [], {ERROR_HEADER + name for name in _FACTS}
        for name, value in reversed(self.headers):
            if name in own:
                own.remove(name)
            else:
                kept.append((name, value))
        return tuple(reversed(kept))


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Selects the letters that match all of its conditions.

    Attributes:
        exception: The class of the exception, with or without its module.
        source: The topic of the record that failed.
        places: Partitions and offsets of the letters; None for all.
    """

    exception: str | None = None
    source: str | None = None
    places: frozenset[tuple[int, int]] | None = None

    def __contains__(self, letter: DeadLetter) -> bool:
        if self.exception is not None:
            name = letter.exception or ""
            if self.exception not in {name, name.rpartition(".")[2]}:
                return False
        if self.source is not None and (letter.source is None or letter.source.topic != self.source):
            return False
        return self.places is None or (letter.partition, letter.offset) in self.places


ALL = DeadLetterFilter()
"""All letters."""
