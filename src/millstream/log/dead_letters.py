"""Dead letters: reads a dead-letter topic, and replays each letter once to the partition of its record.

A replay is a small application, called `TOPIC-replay`. It publishes the records and the offsets of their letters in one
transaction, so each letter is replayed once, even if replays crash or run concurrently: a later one fences the earlier
ones. The progress contains the offset of each letter, so letters that were not selected can be replayed later. The
consumer group of the same name is at the first letter that was not replayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from millstream.core.records import ERROR_HEADER
from millstream.errors import FencedError, LogError, OffsetOutOfRangeError
from millstream.log.api import Log, Records, Scope, Topic
from millstream.log.blocks import decode_headers
from millstream.log.dead_letter import ALL, DeadLetter, DeadLetterFilter
from millstream.log.dead_letter_replay import (
    TOPIC,
    LastRecord,
    LetterRange,
    PartitionProgress,
    ReplayWork,
    ReplayWriter,
    digest,
    state_key,
)

_READ_BYTES = 4 << 20
_TAIL = 8  # more than the control records that may follow the last record


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay, or of a dry run.

    Attributes:
        replayed: The number of replayed letters, by their source topic.
        refused: The number of letters that cannot be replayed, by the reason. They may be replayed later.
    """

    replayed: Mapping[str, int]
    refused: Mapping[str, int]

    @property
    def total(self) -> int:
        """The number of replayed letters."""
        return sum(self.replayed.values())


class DeadLetters:
    """The letters of a dead-letter topic.

    Args:
        log: The log.
        topic: The dead-letter topic.

    Raises:
        UnknownTopicError: There is no such topic.

    >>> from tempfile import TemporaryDirectory
    >>> from millstream.log import ProducerRecord, open_log
    >>> facts = {"exception": b"builtins.KeyError", "topic": b"orders", "partition": b"0", "offset": b"7"}
    >>> headers = tuple((f"__streams.errors.{name}", value) for name, value in facts.items())
    >>> with TemporaryDirectory() as directory, open_log(directory) as log:
    ...     for topic in ("orders", "dead"):
    ...         created = log.create_topic(topic)
    ...     produced = log.produce("dead", [ProducerRecord(b"k", b"v", 5, headers)])
    ...     letters = DeadLetters(log, "dead")
    ...     print([(letter.exception, letter.source) for letter in letters.read()])
    ...     print(letters.replay().replayed, letters.replay().replayed)
    [('builtins.KeyError', DeadLetterSource(topic='orders', partition=0, offset=7))]
    {'orders': 1} {}
    """

    def __init__(self, log: Log, topic: str) -> None:
        self._log = log
        log.topic(topic)
        self.topic = topic
        self.application = f"{topic}-replay"

    def read(self, selection: DeadLetterFilter = ALL) -> Iterator[DeadLetter]:
        """Yields the letters of the topic, by partition and offset."""
        for part in self._ranges(self._progress(), whole=True):
            yield from (letter for letter in part.letters if letter in selection)

    def last(self, most: int) -> Iterator[DeadLetter]:
        """Yields the letters at the last offsets of the topic, by partition and offset.

        Args:
            most: The number of offsets that are read, in equal parts from all partitions.
        """
        progress = self._progress()
        for partition in progress:
            position = max(partition.start, partition.end - max(1, most // len(progress)))
            while rows := self._rows(partition, position):
                yield from (self._letter(row, partition) for row in rows)
                position = rows[-1]["offset"] + 1

    def get(self, partition: int, offset: int) -> DeadLetter:
        """Returns one letter.

        Raises:
            UnknownTopicError: There is no such partition.
            OffsetOutOfRangeError: There is no such record, or it was deleted.
        """
        self._log.topic(self.topic).check_partition(partition)
        progress = self._progress()[partition]
        inside = progress.start <= offset < progress.end
        rows = self._log.read(self.topic, partition, offset, offset + 1).to_pylist() if inside else []
        if not rows:
            message = f"topic {self.topic!r}, partition {partition} has no record at offset {offset}"
            first, last = progress.start, progress.end - 1
            hint = f"its offsets are {first} to {last}" if first <= last else "it is empty"
            raise OffsetOutOfRangeError(message, hint=hint)
        return self._letter(rows[0], progress)

    def replay(
        self,
        selection: DeadLetterFilter = ALL,
        *,
        limit: int | None = None,
        again: bool = False,
        now: bool = False,
        dry_run: bool = False,
    ) -> ReplayResult:
        """Writes the records of letters to the partitions where they failed: each current letter once.

        Key, value and original headers are those of the record, and `REPLAY_HEADER` is added. Letters that any earlier
        replay has replayed are left out. A record that fails again is a new letter, which this call does not replay.

        Args:
            selection: The letters to replay. Others can be replayed later.
            limit: The maximum number of letters.
            again: Also replay letters that were replayed before. They are first marked as not replayed: after an
                interruption, a call without `again` continues.
            now: Use the time of the replay instead of the original timestamps.
            dry_run: Return the result without writing anything.

        Raises:
            FencedError: Another replay of this topic was started. The records of this one stay.
            LogError: There is an application with the name of the replay.
            RecordRefusedError: A source topic refuses a record. Neither it nor later letters were replayed.
        """
        state = self._log.applications.state(Scope(self.application))
        if state and TOPIC not in state:
            message = (
                f"application {self.application!r} is not a replay, so letters of {self.topic!r} cannot be replayed"
            )
            raise LogError(message, hint="give that application, or the dead-letter topic, another name")
        writer = ReplayWriter(self._log.applications, self.topic, self.application, dry=dry_run)
        work = ReplayWork(selection, limit, now, {topic.name: topic for topic in self._log.topics()})
        try:
            writer.begin()
            progress = self._progress()  # only now: earlier replays are fenced and cannot change it
            if again:
                self._unmark(work, progress)
                writer.publish([], progress)
            for part in self._ranges(progress, whole=again or selection.places is not None):
                if work.left == 0:
                    break
                appends, changed = work.take(part)
                if changed:
                    writer.publish(appends, [part.progress])
        except FencedError as error:
            message = (
                f"another replay of topic {self.topic!r} has taken over; this one had replayed {writer.written} records"
            )
            raise FencedError(
                message, hint="replayed records stay, and the other replay continues from there"
            ) from error
        return ReplayResult(dict(work.replayed), dict(work.refused))

    def _unmark(self, work: ReplayWork, progress: list[PartitionProgress]) -> None:
        """Marks the letters to replay as not replayed."""
        left = work.left
        for part in self._ranges(progress, whole=True):
            for letter in part.letters:
                if left == 0:
                    return
                if letter in work.selection and work.reason(letter) is None:
                    part.progress.spans.remove(letter.offset)
                    left = None if left is None else left - 1

    def _ranges(self, progress: list[PartitionProgress], *, whole: bool) -> Iterator[LetterRange]:
        """Yields ranges of letters: from the first that was not replayed on, or all."""
        for partition in progress:
            position = partition.start if whole else partition.spans.gap(partition.start)
            rows = self._rows(partition, position)
            while rows:
                following = self._rows(partition, rows[-1]["offset"] + 1)
                after = following[0]["offset"] if following else partition.end
                partition.last = LastRecord(rows[-1]["offset"], digest(rows[-1]))
                yield LetterRange(position, after, partition, [self._letter(row, partition) for row in rows])
                position, rows = after, following

    def _rows(self, partition: PartitionProgress, start: int) -> list[dict[str, Any]]:
        if start >= partition.end:
            return []
        table = self._log.read(self.topic, partition.partition, start, partition.end, max_bytes=_READ_BYTES)
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    def _letter(self, row: dict[str, Any], partition: PartitionProgress) -> DeadLetter:
        offset, headers = row["offset"], decode_headers(row["headers"])
        place = (self.topic, partition.partition, offset)
        return DeadLetter(*place, row["timestamp"], row["key"], row["value"], headers, offset in partition.spans)

    def _progress(self) -> list[PartitionProgress]:
        """Returns the bounds of each partition, and its replayed letters."""
        state = self._log.applications.state(Scope(self.application))
        starts, ends = self._log.starts([self.topic])[self.topic], self._log.ends([self.topic])[self.topic]
        result = []
        for partition, (start, end) in enumerate(zip(starts, ends, strict=True)):
            progress = PartitionProgress.decode(partition, start, end, state.get(state_key(partition)))
            if not self._is_same_topic(progress):
                progress = PartitionProgress(partition, start, end)
            result.append(progress)
        return result

    def _is_same_topic(self, progress: PartitionProgress) -> bool:
        """Returns whether the progress belongs to this topic, and not to a deleted one of the same name."""
        if progress.last is None or progress.last.offset < progress.start:
            return True
        if progress.last.offset >= progress.end:
            return False
        offset = progress.last.offset
        rows = self._log.read(self.topic, progress.partition, offset, offset + 1).to_pylist()
        return not rows or digest(rows[0]) == progress.last.digest  # compaction may have removed it


def dead_letter_topics(log: Log) -> list[str]:
    """Returns the names of dead-letter topics.

    These are the topics whose last records in any partition have the headers of dead letters, and those that were
    replayed before. Internal topics are left out.
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
