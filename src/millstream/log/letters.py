"""Letters: the records of a dead-letter topic, and what their headers say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from millstream.core.records import ERROR_HEADER, Headers

REPLAY_HEADER = "__millstream.replay"
"""The header of a record that was put back: topic, partition and offset of the letter, as ``dead:0:17``.

A record that was put back more than once has one for each time.
"""

_FACTS = ("exception", "message", "stacktrace", "topic", "partition", "offset")


class Source(NamedTuple):
    """Where a record was when it failed. The offset is None if the letter does not say it."""

    topic: str
    partition: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class Letter:
    """A record of a dead-letter topic.

    Attributes:
        topic: The dead-letter topic.
        partition: Its place there; `offset` likewise.
        timestamp: That of the record that failed; `key` and `value` likewise, as bytes.
        headers: Those of the record that failed, and those that say why.
        replayed: Whether it was put back.
        exception: The class of the exception; None if no header says it. `message` and `stacktrace` likewise.
        source: Where the record was; None if no header says it.
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
    source: Source | None = field(init=False)

    def __post_init__(self) -> None:
        # A letter about a letter has them twice: the last ones are its own.
        said = {name: value for name, value in self.headers if name.startswith(ERROR_HEADER) and value is not None}
        facts = {name.removeprefix(ERROR_HEADER): value.decode(errors="replace") for name, value in said.items()}
        topic, partition, offset = facts.get("topic"), facts.get("partition", ""), facts.get("offset", "")
        source = None
        if topic and partition.isascii() and partition.isdecimal():
            known = offset.isascii() and offset.isdecimal()
            source = Source(topic, int(partition), int(offset) if known else None)
        for name in ("exception", "message", "stacktrace"):
            object.__setattr__(self, name, facts.get(name))
        object.__setattr__(self, "source", source)
        if source is None:  # passed by, not put back
            object.__setattr__(self, "replayed", False)

    @property
    def pending(self) -> bool:
        """Whether it is known where it belongs, and it was not put back yet."""
        return self.source is not None and not self.replayed

    @property
    def returned(self) -> int:
        """How often the record was put back before, and came to this topic again."""
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
class Selection:
    """Which letters are meant: those of which all is true that is said here.

    Attributes:
        exception: The class of the exception, with or without its module.
        source: The topic of the record that failed.
        places: Partition and offset of the letters; None for all.
    """

    exception: str | None = None
    source: str | None = None
    places: frozenset[tuple[int, int]] | None = None

    def __contains__(self, letter: Letter) -> bool:
        if self.exception is not None:
            name = letter.exception or ""
            if self.exception not in {name, name.rpartition(".")[2]}:
                return False
        if self.source is not None and (letter.source is None or letter.source.topic != self.source):
            return False
        return self.places is None or (letter.partition, letter.offset) in self.places


ALL = Selection()
"""All letters."""
