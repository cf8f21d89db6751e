"""Dead letters: what is in a dead-letter topic, and how it is put back to where it came from, each letter once.

A replay is a small application, called `TOPIC-replay`. What it writes to the source topics and which letters those were
is published in one transaction, so a letter is put back once, whenever the replay dies, and however many there are:
a later one shuts those before it out. It remembers each letter, not only how far it has read, so letters that were
passed over can be put back later. The consumer group of the same name is at the first letter that was not put back.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from millstream.core.records import ERROR_HEADER
from millstream.errors import FencedError, LogError, OffsetOutOfRangeError
from millstream.log.api import Append, Applications, Log, Publication, Records, Scope, Topic
from millstream.log.blocks import Block, decode_headers, encode
from millstream.log.letters import ALL, REPLAY_HEADER, Letter, Selection
from millstream.log.spans import Spans

_TOPIC = "dead-letters"
_PARTITION = "replayed."
_READ_BYTES = 4 << 20
_TAIL = 8  # more than the marks of transactions that may follow the last record


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay did, or would do.

    Attributes:
        letters: How many letters were put back, by the topic that they were put back to.
        refused: How many cannot be put back, by the reason. They stay as they are, and may be put back later.
    """

    letters: Mapping[str, int]
    refused: Mapping[str, int]

    @property
    def total(self) -> int:
        """How many letters were put back."""
        return sum(self.letters.values())


class DeadLetters:
    """The letters of a dead-letter topic.

    Args:
        log: The log.
        topic: The dead-letter topic.

    Raises:
        UnknownTopicError: There is no such topic.

    >>> from tempfile import TemporaryDirectory
    >>> from millstream.log import ProducerRecord, open_log
    >>> said = {"exception": b"builtins.KeyError", "topic": b"orders", "partition": b"0", "offset": b"7"}
    >>> headers = tuple((f"__streams.errors.{name}", value) for name, value in said.items())
    >>> with TemporaryDirectory() as directory, open_log(directory) as log:
    ...     for topic in ("orders", "dead"):
    ...         made = log.create_topic(topic)
    ...     written = log.produce("dead", [ProducerRecord(b"k", b"v", 5, headers)])
    ...     letters = DeadLetters(log, "dead")
    ...     print([(letter.exception, letter.source) for letter in letters.read()])
    ...     print(letters.replay().letters, letters.replay().letters)
    [('builtins.KeyError', Source(topic='orders', partition=0, offset=7))]
    {'orders': 1} {}
    """

    def __init__(self, log: Log, topic: str) -> None:
        self._log = log
        log.topic(topic)
        self.topic = topic
        self.application = f"{topic}-replay"

    def read(self, selection: Selection = ALL) -> Iterator[Letter]:
        """Gives the records that are in the topic now, by partition and offset."""
        for part in self._parts(self._progress(), whole=True):
            yield from (letter for letter in part.letters if letter in selection)

    def letter(self, partition: int, offset: int) -> Letter:
        """Returns one record.

        Raises:
            UnknownTopicError: There is no such partition.
            OffsetOutOfRangeError: There is no such record, or none any longer.
        """
        self._log.topic(self.topic).check_partition(partition)
        known = self._progress()[partition]
        inside = known.start <= offset < known.end
        rows = self._log.read(self.topic, partition, offset, offset + 1).to_pylist() if inside else []
        if not rows:
            message = f"topic {self.topic!r}, partition {partition} has no record at offset {offset}"
            hint = f"its offsets are {known.start} to {known.end - 1}" if known.start < known.end else "it is empty"
            raise OffsetOutOfRangeError(message, hint=hint)
        return self._letter(rows[0], known)

    def replay(
        self,
        selection: Selection = ALL,
        *,
        limit: int | None = None,
        again: bool = False,
        now: bool = False,
        dry_run: bool = False,
    ) -> Replay:
        """Puts records back to the partitions in which they failed: each letter that is here now, once.

        Key, value and the original headers are those of the record, and `REPLAY_HEADER` is added. Letters that were put
        back before, by whomever, are left out. A record that fails again is a new letter, which this call leaves alone.

        Args:
            selection: Which letters. Others can be put back later.
            limit: At most so many.
            again: Those that were put back before, too. They are marked as not put back first: if the call is
                interrupted, one without `again` goes on where it ended.
            now: Records get the time of the replay, and not their original timestamps.
            dry_run: Only say what would be done.

        Raises:
            FencedError: Another replay of this topic has begun. What this one had put back stays so.
            LogError: There is an application of the name that the replay would have.
            RecordRefusedError: A source topic refuses a record. Nothing of it, or after it, was put back.
        """
        state = self._log.applications.state(Scope(self.application))
        if state and _TOPIC not in state:
            message = (
                f"application {self.application!r} is not a replay, so letters of {self.topic!r} cannot be replayed"
            )
            raise LogError(message, hint="give that application, or the dead-letter topic, another name")
        writer = _Writer(self._log.applications, self.topic, self.application, dry=dry_run)
        work = _Work(selection, limit, now, {topic.name: topic for topic in self._log.topics()})
        try:
            writer.begin()
            progress = self._progress()  # only now: nobody else can change it any longer
            if again:
                self._forget(work, progress)
                writer.publish([], progress)
            for part in self._parts(progress, whole=again or selection.places is not None):
                if work.left == 0:
                    break
                appends, changed = work.take(part)
                if changed:
                    writer.publish(appends, [part.progress])
        except FencedError as error:
            message = f"another replay of topic {self.topic!r} has taken over; this one had put back {writer.written}"
            raise FencedError(
                message, hint="what was put back stays so, and the other replay goes on from there"
            ) from error
        return Replay(dict(work.letters), dict(work.refused))

    def _forget(self, work: _Work, progress: list[_Progress]) -> None:
        """Marks as not put back what `work` will take."""
        left = work.left
        for part in self._parts(progress, whole=True):
            for letter in part.letters:
                if left == 0:
                    return
                if letter in work.selection and work.reason(letter) is None:
                    part.progress.spans.remove(letter.offset)
                    left = None if left is None else left - 1

    def _parts(self, progress: list[_Progress], *, whole: bool) -> Iterator[_Part]:
        """Gives the letters that are here, some at a time: from the first that was not put back on, or all."""
        for known in progress:
            position = known.start if whole else known.spans.gap(known.start)
            rows = self._rows(known, position)
            while rows:
                following = self._rows(known, rows[-1]["offset"] + 1)
                after = following[0]["offset"] if following else known.end
                known.last = _Mark(rows[-1]["offset"], _digest(rows[-1]))
                yield _Part(position, after, known, [self._letter(row, known) for row in rows])
                position, rows = after, following

    def _rows(self, known: _Progress, start: int) -> list[dict[str, Any]]:
        if start >= known.end:
            return []
        table = self._log.read(self.topic, known.partition, start, known.end, max_bytes=_READ_BYTES)
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    def _letter(self, row: dict[str, Any], known: _Progress) -> Letter:
        offset, headers = row["offset"], decode_headers(row["headers"])
        place = (self.topic, known.partition, offset)
        return Letter(*place, row["timestamp"], row["key"], row["value"], headers, offset in known.spans)

    def _progress(self) -> list[_Progress]:
        """What there is in each partition, and what was put back of it."""
        state = self._log.applications.state(Scope(self.application))
        starts, ends = self._log.starts([self.topic])[self.topic], self._log.ends([self.topic])[self.topic]
        found = []
        for partition, (start, end) in enumerate(zip(starts, ends, strict=True)):
            known = _Progress(partition, start, end)
            known.recall(state.get(f"{_PARTITION}{partition}"))
            if not self._is_the_same(known):
                known = _Progress(partition, start, end)
            found.append(known)
        return found

    def _is_the_same(self, known: _Progress) -> bool:
        """Whether the topic is the one of which progress was made, and not a later one of the same name."""
        if known.last is None or known.last.offset < known.start:
            return True
        if known.last.offset >= known.end:
            return False
        rows = self._log.read(self.topic, known.partition, known.last.offset, known.last.offset + 1).to_pylist()
        return not rows or _digest(rows[0]) == known.last.digest  # compaction may have taken it


def dead_letter_topics(log: Log) -> list[str]:
    """Returns the names of the topics that look like dead-letter topics.

    Those are the topics whose last records have the headers of dead letters, in some partition, and those that were
    replayed before. Internal topics are not looked at.
    """
    groups = set(log.groups())
    return [
        topic.name
        for topic in log.topics()
        if not topic.internal and (f"{topic.name}-replay" in groups or _ends_in_letters(log, topic))
    ]


def _ends_in_letters(log: Records, topic: Topic) -> bool:
    starts, ends = log.starts([topic.name])[topic.name], log.ends([topic.name])[topic.name]
    for partition, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if start < end:
            rows = log.read(topic.name, partition, max(start, end - _TAIL), end)["headers"].to_pylist()
            if any(name.startswith(ERROR_HEADER) for data in rows for name, _ in decode_headers(data)):
                return True
    return False


class _Mark(msgspec.Struct, array_like=True, frozen=True):
    """A record by which a topic is known again."""

    offset: int
    digest: bytes


class _Stored(msgspec.Struct, array_like=True):
    """What is remembered of a partition: spans of letters, each number as what it is above the one before."""

    steps: list[int]
    last: _Mark | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stored).decode


@dataclass(slots=True)
class _Progress:
    """A partition: its offsets, which letters of it are done, and the last record that was looked at."""

    partition: int
    start: int
    end: int
    spans: Spans = field(default_factory=Spans)
    last: _Mark | None = None

    def recall(self, data: bytes | None) -> None:
        """Takes over what `encode` gave."""
        if data is not None:
            stored = _decode(data)
            bounds = list(accumulate(stored.steps))
            self.spans, self.last = Spans(zip(bounds[::2], bounds[1::2], strict=True)), stored.last

    def encode(self) -> bytes:
        bounds = [bound for span in self.spans for bound in span]
        return _encode(_Stored([high - low for low, high in zip([0, *bounds], bounds, strict=False)], self.last))


class _Part(NamedTuple):
    """Letters that lie one after the other. Between them, from `position` to `after`, there is nothing else."""

    position: int
    after: int
    progress: _Progress
    letters: list[Letter]


@dataclass(slots=True)
class _Work:
    """Which letters are wanted, and what became of them."""

    selection: Selection
    left: int | None
    now: bool
    topics: Mapping[str, Topic]
    letters: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def take(self, part: _Part) -> tuple[list[Append], bool]:
        """Marks letters as done. Returns what is to be written for them, and whether any were marked."""
        spans, changed = part.progress.spans, False
        taken: dict[tuple[str, int], list[Letter]] = {}
        edges = [part.position, *(letter.offset for letter in part.letters[1:]), part.after]
        for letter, low, high in zip(part.letters, edges, edges[1:], strict=False):
            if self.left == 0:
                break
            done = letter.offset in spans
            if not done and letter in self.selection:
                done = self._take(letter, taken)
                changed = changed or done
            if done:
                spans.add(low, high)  # with the marks of transactions beside it
        return [Append(*place, self._block(letters)) for place, letters in taken.items()], changed

    def _take(self, letter: Letter, taken: dict[tuple[str, int], list[Letter]]) -> bool:
        """Returns whether nothing more can be done for a letter."""
        reason = self.reason(letter)
        if letter.source is None or reason is not None:
            self.refused[reason or ""] += 1
            return letter.source is None
        taken.setdefault(letter.source[:2], []).append(letter)
        self.letters[letter.source.topic] += 1
        self.left = None if self.left is None else self.left - 1
        return True

    def reason(self, letter: Letter) -> str | None:
        """Why a letter cannot be put back, if it cannot."""
        if letter.source is None:
            return "no header says which topic and partition it came from"
        name, partition, _ = letter.source
        topic = self.topics.get(name)
        if topic is None:
            return f"there is no topic {name!r}"
        if partition >= topic.partitions:
            return f"topic {name!r} has no partition {partition}"
        if letter.key is None and "compact" in topic.config.get("cleanup.policy", ""):
            return f"topic {name!r} is compacted, and takes no records without a key"
        return None

    def _block(self, letters: list[Letter]) -> Block:
        timestamps = [letter.timestamp for letter in letters]
        if self.now:
            timestamps = [time.time_ns() // 1_000_000] * len(letters)
        headers = [
            (*letter.original_headers, (REPLAY_HEADER, f"{letter.topic}:{letter.partition}:{letter.offset}".encode()))
            for letter in letters
        ]
        return encode(timestamps, [letter.key for letter in letters], [letter.value for letter in letters], headers)


class _Writer:
    """Publishes what a replay does, as the only one that may; or nothing, if it is a dry one."""

    def __init__(self, applications: Applications, topic: str, application: str, *, dry: bool) -> None:
        self._applications = applications
        self._topic = topic
        self._application = application
        self._dry = dry
        self._epoch, self._batch = 0, 0
        self.written = 0

    def begin(self) -> None:
        """Shuts out those that came before."""
        if not self._dry:
            self._epoch = self._applications.acquire(Scope(self._application))
            last = self._applications.published(Scope(self._application))
            self._batch = 0 if last is None else last.batch + 1

    def publish(self, appends: list[Append], progress: list[_Progress]) -> None:
        """Writes records, and which letters of some partitions are done."""
        if self._dry:
            return
        publication = Publication(
            Scope(self._application),
            self._epoch,
            self._batch,
            appends,
            offsets={(self._topic, each.partition): each.spans.gap(each.start) for each in progress},
            state={
                _TOPIC: self._topic.encode(),
                **{f"{_PARTITION}{each.partition}": each.encode() for each in progress},
            },
        )
        self._applications.publish(publication)
        self._batch += 1
        self.written += sum(append.block.count for append in appends)


def _digest(row: dict[str, Any]) -> bytes:
    parts = (row["timestamp"], row["key"], row["value"], row["headers"])
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
