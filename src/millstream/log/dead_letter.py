"""A dead letter: a record of a dead-letter topic, with the facts in its headers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from millstream.core.records import CONTRACT_HEADER, ERROR_HEADER, Headers

REPLAY_HEADER = "__millstream.replay"
"""The header of a replayed record: topic, partition and offset of the letter, as ``dead:0:17``.

A record that was replayed several times has one for each replay.
"""

_FACTS = ("exception", "message", "stacktrace", "topic", "partition", "offset")
_CONTRACT_FACTS = ("name", "rule", "reason", "schema.id")
_OWN_HEADERS = frozenset({*(ERROR_HEADER + name for name in _FACTS), *(CONTRACT_HEADER + n for n in _CONTRACT_FACTS)})


class ViolatedContract(NamedTuple):
    """The contract that a record violates: its name, the rule, the reason, and the id of the record's schema."""

    name: str
    rule: str
    reason: str
    schema_id: int | None


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
        contract: The contract that the record violates; None if it failed for another cause.
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
    contract: ViolatedContract | None = field(init=False)

    def __post_init__(self) -> None:
        places = self._own_places()
        own = tuple(header for place, header in enumerate(self.headers) if place in places)
        facts = _texts(own, ERROR_HEADER)
        topic, partition, offset = facts.get("topic"), facts.get("partition", ""), facts.get("offset", "")
        source = None
        if topic and partition.isascii() and partition.isdecimal():
            has_offset = offset.isascii() and offset.isdecimal()
            source = DeadLetterSource(topic, int(partition), int(offset) if has_offset else None)
        for name in ("exception", "message", "stacktrace"):
            object.__setattr__(self, name, facts.get(name))
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "contract", _contract(_texts(own, CONTRACT_HEADER)))
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
        own = self._own_places()
        return tuple(header for place, header in enumerate(self.headers) if place not in own)

    def _own_places(self) -> set[int]:
        """The places of the headers about the error. A letter about a letter has those of the first one before."""
        places: dict[str, int] = {}
        for place in reversed(range(len(self.headers))):
            name = self.headers[place][0]
            if name in places or (name.startswith(CONTRACT_HEADER) and any(n.startswith(ERROR_HEADER) for n in places)):
                break  # the contract comes last
            if name in _OWN_HEADERS:
                places[name] = place
        return set(places.values())


def _texts(headers: Headers, prefix: str) -> dict[str, str]:
    """Returns the headers with a prefix, as texts."""
    found = {name: value for name, value in headers if name.startswith(prefix) and value is not None}
    return {name.removeprefix(prefix): value.decode(errors="replace") for name, value in found.items()}


def _contract(facts: dict[str, str]) -> ViolatedContract | None:
    if "name" not in facts:
        return None
    schema_id = facts.get("schema.id", "")
    number = int(schema_id) if schema_id.isascii() and schema_id.isdecimal() else None
    return ViolatedContract(facts["name"], facts.get("rule", ""), facts.get("reason", ""), number)


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Selects the letters that match all of its conditions.

    Attributes:
        exception: The class of the exception, with or without its module.
        source: The topic of the record that failed.
        places: Partitions and offsets of the letters; None for all.
        contract: The name of the contract that the record violates.
        rule: The name of the rule.
    """

    exception: str | None = None
    source: str | None = None
    places: frozenset[tuple[int, int]] | None = None
    contract: str | None = None
    rule: str | None = None

    def __contains__(self, letter: DeadLetter) -> bool:
        if self.exception is not None:
            name = letter.exception or ""
            if self.exception not in {name, name.rpartition(".")[2]}:
                return False
        if self.source is not None and (letter.source is None or letter.source.topic != self.source):
            return False
        found = letter.contract
        if self.contract is not None and (found is None or found.name != self.contract):
            return False
        if self.rule is not None and (found is None or found.rule != self.rule):
            return False
        return self.places is None or (letter.partition, letter.offset) in self.places


ALL = DeadLetterFilter()
"""All letters."""
