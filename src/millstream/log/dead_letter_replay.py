"""The replay of dead letters: its progress in each partition, and the publications that write it."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from millstream.log.api import Append, Applications, Publication, Scope, Topic
from millstream.log.blocks import Block, encode
from millstream.log.dead_letter import REPLAY_HEADER, DeadLetter, DeadLetterFilter
from millstream.log.spans import Spans

TOPIC = "dead-letters"
"""The entry of the recorded state with the topic, by which a replay is recognized."""

_PARTITION = "replayed."


class LastRecord(msgspec.Struct, array_like=True, frozen=True):
    """The last record that was read, by which a recreated topic is detected."""

    offset: int
    digest: bytes


class _StoredProgress(msgspec.Struct, array_like=True):
    """The stored progress of a partition: bounds of ranges, each as the difference from the one before."""

    steps: list[int]
    last: LastRecord | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_StoredProgress).decode


@dataclass(slots=True)
class PartitionProgress:
    """A partition: its bounds, the offsets of replayed letters, and the last record that was read."""

    partition: int
    start: int
    end: int
    spans: Spans = field(default_factory=Spans)
    last: LastRecord | None = None

    @classmethod
    def decode(cls, partition: int, start: int, end: int, data: bytes | None) -> PartitionProgress:
        """Returns the progress that `encode` has returned, or none."""
        progress = cls(partition, start, end)
        if data is not None:
            stored = _decode(data)
            bounds = list(accumulate(stored.steps))
            progress.spans, progress.last = Spans(zip(bounds[::2], bounds[1::2], strict=True)), stored.last
        return progress

    def encode(self) -> bytes:
        """Returns the progress as bytes."""
        bounds = [bound for span in self.spans for bound in span]
        return _encode(
            _StoredProgress([high - low for low, high in zip([0, *bounds], bounds, strict=False)], self.last)
        )


class LetterRange(NamedTuple):
    """Consecutive letters. They are the only ones from `position` to `after`."""

    position: int
    after: int
    progress: PartitionProgress
    letters: list[DeadLetter]


@dataclass(slots=True)
class ReplayWork:
    """The letters to replay, and the counts of those replayed and refused."""

    selection: DeadLetterFilter
    left: int | None
    now: bool
    topics: Mapping[str, Topic]
    replayed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def take(self, part: LetterRange) -> tuple[list[Append], bool]:
        """Marks letters as replayed. Returns their records as blocks, and whether any letter was marked."""
        spans, changed = part.progress.spans, False
        taken: dict[tuple[str, int], list[DeadLetter]] = {}
        edges = [part.position, *(letter.offset for letter in part.letters[1:]), part.after]
        for letter, low, high in zip(part.letters, edges, edges[1:], strict=False):
            if self.left == 0:
                break
            done = letter.offset in spans
            if not done and letter in self.selection:
                done = self._take(letter, taken)
                changed = changed or done
            if done:
                spans.add(low, high)  # including control records beside it
        return [Append(*place, self._block(letters)) for place, letters in taken.items()], changed

    def _take(self, letter: DeadLetter, taken: dict[tuple[str, int], list[DeadLetter]]) -> bool:
        """Replays a letter. Returns whether it needs no later replay."""
        reason = self.reason(letter)
        if letter.source is None or reason is not None:
            self.refused[reason or ""] += 1
            return letter.source is None
        taken.setdefault(letter.source[:2], []).append(letter)
        self.replayed[letter.source.topic] += 1
        self.left = None if self.left is None else self.left - 1
        return True

    def reason(self, letter: DeadLetter) -> str | None:
        """Returns why a letter cannot be replayed, if it cannot."""
        if letter.source is None:
            return "it has no headers with its source topic and partition"
        name, partition, _ = letter.source
        topic = self.topics.get(name)
        if topic is None:
            return f"there is no topic {name!r}"
        if partition >= topic.partitions:
            return f"topic {name!r} has no partition {partition}"
        if letter.key is None and "compact" in topic.config.get("cleanup.policy", ""):
            return f"topic {name!r} is compacted, and accepts no records without a key"
        return None

    def _block(self, letters: list[DeadLetter]) -> Block:
        timestamps = [letter.timestamp for letter in letters]
        if self.now:
            timestamps = [time.time_ns() // 1_000_000] * len(letters)
        headers = [
            (*letter.original_headers, (REPLAY_HEADER, f"{letter.topic}:{letter.partition}:{letter.offset}".encode()))
            for letter in letters
        ]
        return encode(timestamps, [letter.key for letter in letters], [letter.value for letter in letters], headers)


class ReplayWriter:
    """Publishes the records of a replay as its only instance; in a dry run it publishes nothing."""

    def __init__(self, applications: Applications, topic: str, application: str, *, dry: bool) -> None:
        self._applications = applications
        self._topic = topic
        self._application = application
        self._dry = dry
        self._epoch, self._batch = 0, 0
        self.written = 0

    def begin(self) -> None:
        """Fences earlier replays of the topic."""
        if not self._dry:
            self._epoch = self._applications.acquire(Scope(self._application))
            last = self._applications.published(Scope(self._application))
            self._batch = 0 if last is None else last.batch + 1

    def publish(self, appends: list[Append], progress: list[PartitionProgress]) -> None:
        """Publishes records and the progress of partitions."""
        if self._dry:
            return
        publication = Publication(
            Scope(self._application),
            self._epoch,
            self._batch,
            appends,
            offsets={(self._topic, part.partition): part.spans.gap(part.start) for part in progress},
            state={
                TOPIC: self._topic.encode(),
                **{state_key(part.partition): part.encode() for part in progress},
            },
        )
        self._applications.publish(publication)
        self._batch += 1
        self.written += sum(append.block.count for append in appends)


def state_key(partition: int) -> str:
    """Returns the name of the entry of the recorded state for a partition."""
    return f"{_PARTITION}{partition}"


def digest(row: dict[str, Any]) -> bytes:
    """Returns a digest of a record."""
    parts = (row["timestamp"], row["key"], row["value"], row["headers"])
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
