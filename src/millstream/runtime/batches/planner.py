"""Plans batches: decides the end of each one, and whether there is a reason for one.

The end of a batch is recorded before the batch runs, with the batch time and the partitions that have more records. A
replay of the batch uses what was recorded. `batch_size` limits how far a batch reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from millstream.errors import BrokerError, MillstreamError, OffsetOutOfRangeError
from millstream.log.api import Log
from millstream.runtime.batches.batch_end import BatchEnd, TopicOffsets
from millstream.runtime.batches.batch_size import BatchSize
from millstream.runtime.batches.control import PlannerControl, PlannerSettings
from millstream.runtime.batches.limits import LimitPlanner, Unread
from millstream.runtime.batches.subscription import Subscription
from millstream.runtime.batches.topic_offsets import at_least, at_most, has_unread, padded
from millstream.runtime.clock import SYSTEM_CLOCK, Clock
from millstream.runtime.order.positions import Position, ordinal, time_of
from millstream.runtime.program.program import Program
from millstream.runtime.read.inputs import InputRouting, Range

_WAIT = 0.05
_REFRESH = 1.0


class Planner:
    """Decides the ends of batches.

    Args:
        program: The program of the application.
        log: Its log.
        control: Source of the settings, and receiver of failures.
        first: Start positions of the application.
        skipped: End of a batch that was begun and must not be read again (at most once).
        clock: The clock from which batch times come.
    """

    def __init__(
        self,
        program: Program,
        log: Log,
        control: PlannerControl,
        first: BatchEnd,
        *,
        skipped: BatchEnd | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._program = program
        self._log = log
        self._control = control
        self._first = first
        self._skipped = skipped
        self._clock = clock
        self._subscription = Subscription(program, log, clock)
        self._routing = InputRouting(program)
        self._settings: PlannerSettings | None = None
        self._bounds: dict[tuple[str, int], Position] = {}
        self._size = BatchSize(log, self._subscription)
        self._limits = LimitPlanner(program, self._routing)
        self._patience = program.log.patience
        self._failing_since: float | None = None
        self._idle_since: int | None = None

    def first(self) -> BatchEnd:
        """The start of the first batch."""
        return self._first

    def close(self) -> None:
        """Closes the log."""
        self._log.close()

    def next(self, start: BatchEnd) -> BatchEnd:
        """Returns the end of the batch that begins at *start*; *start* itself if there is no reason for a batch.

        A broker that does not answer is waited for, up to its timeout.
        """
        try:
            end = self._next(start)
        except MillstreamError as error:
            now = self._clock.monotonic()
            self._failing_since = self._failing_since or now
            waited = now - self._failing_since
            if not isinstance(error, BrokerError) or not error.may_pass or waited > self._patience:
                self._control.fail(error)
                raise
            self._control.trouble(error.message)
            self._clock.sleep(_WAIT)
            return start
        self._failing_since = None
        self._control.trouble(None)
        return end

    def _next(self, start: BatchEnd) -> BatchEnd:
        settings = self._control.read()
        idle_since, self._idle_since = self._idle_since, None
        if settings is not self._settings:
            self._settings = settings
            self._bounds = {(topic, partition): bound for topic, partition, bound in settings.bounds}
            self._size.bounds = {source: time_of(bound) for source, bound in self._bounds.items()}
        self._size.has_more = start.has_more
        self._size.is_crowded = settings.waiting > settings.records * (1 + self._limits.depth)
        if settings.paused:
            self._control.acknowledge(settings)
            self._clock.sleep(_WAIT)
            return start
        self._subscription.refresh(_REFRESH)
        available = self._available(start, settings)
        is_due = self._is_due(start, settings) or bool(settings.held)
        is_idle = not has_unread(available.offsets, available.ends) and not is_due
        if is_idle:
            idle_since = self._now(start)
            if self._log.wait(self._awaited(available.offsets, settings), _WAIT):
                available = self._available(start, settings)
        now = self._now(start)
        if not has_unread(available.offsets, available.ends):
            if self._is_due(start, settings) or settings.held:
                return self._end(start, available, {}, now, settings, is_tick=True)
            self._idle_since = idle_since
            return start
        if idle_since is not None and settings.asleep is not None and settings.asleep <= idle_since > start.time:
            # Idle stream clocks advance first, to the time at which the inputs were last seen without records.
            return self._end(start, available, {}, idle_since, settings, is_tick=True)
        chosen = self._size.choose(available.offsets, self._next_topics(available), settings.records)
        return self._end(start, available, chosen, now, settings)

    def _end(
        self,
        start: BatchEnd,
        available: _Available,
        chosen: TopicOffsets,
        now: int,
        settings: PlannerSettings,
        *,
        is_tick: bool = False,
    ) -> BatchEnd:
        """The end of a batch. A tick records that no partition has more: the inputs were idle at its time."""
        offsets = {**available.offsets, **chosen}
        has_more = {
            topic: [begin < end for begin, end in zip(padded(offsets[topic], len(ends)), ends, strict=True)]
            for topic, ends in available.ends.items()
            if not is_tick and has_unread(offsets, {topic: ends})
        }
        read = [(topic, partition) for topic, partition, *_ in _spans(available.offsets, offsets, has_more)]
        unread = Unread(available.offsets, offsets, available.ends, start.has_more)
        others = sorted(offsets.keys() - self._subscription.internal - set(start.input_topics))
        held, groups = dict(settings.held), self._subscription.groups
        return BatchEnd(
            offsets=offsets,
            has_more=has_more,
            time=now,
            global_ends=self._first.global_ends,
            global_epochs=self._first.global_epochs,
            tasks=settings.awake,
            bounds=[(*source, self._bounds[source]) for source in read if source in self._bounds],
            new_topics=available.new,
            input_topics=start.input_topics + others,
            order=self._limits.next(start.order, unread, self._bounds, held, groups),
        )

    def ranges(self, start: BatchEnd, end: BatchEnd) -> list[Range]:
        """The ranges of offsets that a batch reads."""
        bounds = {(topic, partition): bound for topic, partition, bound in end.bounds}
        numbers = {topic: number for number, topic in enumerate(end.input_topics)}
        ranges = []
        for topic, partition, begin, stop, waits in _spans(
            {**start.offsets, **end.new_topics}, end.offsets, end.has_more
        ):
            number = ordinal(numbers.get(topic, 0), partition)
            ranges.append(Range(topic, partition, begin, stop, waits, bounds.get((topic, partition)), number))
        # A replay with a changed topology also reads global tables that the topology did not have before.
        late = sorted(self._late_tables(end))
        for topic, begins in (self._log.starts(late) if late else {}).items():
            stops = self._first.global_ends[topic]
            ranges += [Range(topic, p, a, b, more=False) for p, (a, b) in enumerate(zip(begins, stops, strict=False))]
        return [span._replace(start=span.end) for span in ranges] if end == self._skipped else ranges

    def _late_tables(self, end: BatchEnd) -> set[str]:
        """The topics of global tables that the topology of a batch did not have; they are read from their start.

        A table that was removed and added again counts as new: its old rows may be gone.
        """
        epochs, own = end.global_epochs, self._first.global_epochs
        return {topic for topic in self._subscription.globals if epochs.get(topic) != own[topic]}

    # ----- offsets ---------------------------------------------------------------------------------------------

    def _available(self, start: BatchEnd, settings: PlannerSettings) -> _Available:
        """Reads the ends of all topics.

        A topic that is new to the application, or was read as a global table before, begins at its start position.
        Topics that matched a pattern since the start, added partitions and new global tables begin at their first
        record.
        """
        others = self._late_tables(start) | (start.global_ends.keys() - self._first.global_ends.keys())
        read = {topic: offsets for topic, offsets in start.offsets.items() if topic not in others}
        ends = self._log.ends(self._subscription.topics)
        self._check(read, ends)
        missing = [topic for topic, row in ends.items() if len(row) > len(read.get(topic, []))]
        starts = self._log.starts(missing) if missing else {}
        decided = {t: row for t, row in self._first.offsets.items() if t not in self._subscription.globals} | read
        new = {topic: decided.get(topic, []) + row[len(decided.get(topic, [])) :] for topic, row in starts.items()}
        offsets = {**read, **new}
        return _Available(offsets, new, self._limited(offsets, ends, settings))

    def _check(self, read: TopicOffsets, ends: TopicOffsets) -> None:
        """Checks that no topic ends before the offset up to which it was read."""
        for topic, row in ends.items():
            for partition, (end, offset) in enumerate(zip(row, read.get(topic, []), strict=False)):
                if end < offset:
                    raise OffsetOutOfRangeError(
                        f"partition {partition} of topic {topic!r} ends at offset {end}, and the application has read "
                        f"up to {offset}: the topic was deleted and made anew, or its records are lost",
                        hint="reset the application, so that it begins again from its input: millstream reset",
                    )

    def _limited(self, offsets: TopicOffsets, ends: TopicOffsets, settings: PlannerSettings) -> TopicOffsets:
        """Limits ends: inputs until they have caught up, changelogs to the records from which stores are rebuilt."""
        own, restores, until = self._subscription.internal, self._subscription.restores, settings.until
        if until is not None:
            ends = {t: e if t in own or t in restores else at_most(e, until.get(t, [])) for t, e in ends.items()}
        ends |= {t: at_most(ends[t], self._first.global_ends.get(t, [])) for t in restores}
        return {t: at_least(ends[t], offsets.get(t, [])) for t in sorted(ends)}

    def _next_topics(self, available: _Available) -> TopicOffsets:
        """The ends of the topics to read now: changelogs of rebuilt stores, then global tables, then all topics."""
        for before in (self._subscription.restores, self._subscription.globals):
            first = {t: at_most(available.ends[t], self._first.global_ends.get(t, [])) for t in sorted(before)}
            if has_unread(available.offsets, first):
                return first
        return available.ends

    # ----- time ------------------------------------------------------------------------------------------------

    def _now(self, start: BatchEnd) -> int:
        return max(self._clock.time_ms(), start.time)

    def _is_due(self, start: BatchEnd, settings: PlannerSettings) -> bool:
        return settings.due is not None and self._now(start) >= settings.due and self._now(start) > start.time

    def _awaited(self, offsets: TopicOffsets, settings: PlannerSettings) -> dict[tuple[str, int], int]:
        """The partitions, with their offsets, in which a new record is a reason for a batch."""
        own, until = self._subscription.internal, settings.until
        topics = [t for t in self._subscription.topics if t not in self._subscription.restores]
        return {
            (topic, partition): offset
            for topic in (topics if until is None else own)
            for partition, offset in enumerate(offsets.get(topic, [0]))
        }


class _Available(NamedTuple):
    """The records that a batch can read.

    Attributes:
        offsets: First offsets of the batch.
        new: Those of topics and partitions that the last batch did not have.
        ends: End offsets of the topics.
    """

    offsets: TopicOffsets
    new: TopicOffsets
    ends: TopicOffsets


def _spans(
    starts: TopicOffsets, ends: TopicOffsets, has_more: Mapping[str, Sequence[bool]]
) -> Iterator[tuple[str, int, int, int, bool]]:
    """The partitions that a batch reads, or that have more records than it reads.

    Yields:
        Topic, partition, first offset of the batch, first offset behind it, and whether there are more records.
    """
    for topic, stops in ends.items():
        begins, more = padded(starts.get(topic, []), len(stops)), padded(has_more.get(topic, []), len(stops))
        if stops == begins and not any(more):
            continue
        for partition, (begin, stop, waits) in enumerate(zip(begins, stops, more, strict=True)):
            if stop > begin or waits:
                yield topic, partition, begin, stop, bool(waits)
