"""Plans batches: how far each one reads, so that it is neither too long nor depends on luck.

The end of a batch is recorded by Spark before the batch runs, together with all else that a replay must see again: the
time of the batch, and which partitions had more records. Two rules decide how far a batch goes:

- No more records than the runtime has found to take about the target time.
- Inputs that are read together keep pace with each other in time, because a task cannot take records that are later
  than what another input may still bring.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from millstream.errors import BrokerError, MillstreamError, OffsetOutOfRangeError
from millstream.log.api import Log
from millstream.runtime.batches.batch_end import BatchEnd, TopicOffsets
from millstream.runtime.batches.control import PlannerControl, PlannerSettings
from millstream.runtime.batches.subscription import Subscription
from millstream.runtime.clock import SYSTEM_CLOCK, Clock
from millstream.runtime.program.program import Program
from millstream.runtime.read.inputs import InputRouting, Range

_WAIT = 0.05
_REFRESH = 1.0
_ROUNDS = 3
_LEAST = 0.25
"""The part of a batch that other topics have if the application's own have no more than a batch."""

_SPARE = 0.1
"""The part of a batch that is worth another round of sharing it out."""


class Planner:
    """Decides where batches end.

    Args:
        program: The application.
        log: Its log.
        control: Tells what the driver wants.
        first: Where the application began to read.
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
        self._orders: PlannerSettings | None = None
        self._bounds: dict[tuple[str, int], int] = {}
        self._unread: dict[str, list[bool]] = {}
        self._crowded = False
        self._patience = program.log.patience
        self._silent: float | None = None
        self._quiet: int | None = None

    def first(self) -> BatchEnd:
        """Where the first batch begins."""
        return self._first

    def close(self) -> None:
        """Closes the log."""
        self._log.close()

    def next(self, start: BatchEnd) -> BatchEnd:
        """Where the batch that begins at a mark ends; the same mark if there is no reason for a batch.

        A broker that does not answer is waited for.
        """
        try:
            mark = self._next(start)
        except MillstreamError as error:
            now = self._clock.monotonic()
            self._silent = self._silent or now
            if not isinstance(error, BrokerError) or not error.may_pass or now - self._silent > self._patience:
                self._control.fail(error)
                raise
            self._control.trouble(error.message)
            self._clock.sleep(_WAIT)
            return start
        self._silent = None
        self._control.trouble(None)
        return mark

    def _next(self, start: BatchEnd) -> BatchEnd:
        orders = self._control.read()
        quiet, self._quiet = self._quiet, None
        if orders is not self._orders:
            self._orders = orders
            self._bounds = {(topic, partition): bound for topic, partition, bound in orders.bounds}
        self._unread = start.has_more
        self._crowded = orders.waiting > orders.records
        if orders.paused:
            self._control.acknowledge(orders)
            self._clock.sleep(_WAIT)
            return start
        self._subscription.refresh(_REFRESH)
        look = self._look(start, orders)
        is_idle = not _any_beyond(look.offsets, look.ends) and not self._is_due(start, orders)
        if is_idle:
            quiet = self._now(start)
            if self._log.wait(self._positions(look.offsets, orders), _WAIT):
                look = self._look(start, orders)
        now = self._now(start)
        if not _any_beyond(look.offsets, look.ends):
            if self._is_due(start, orders):
                return self._mark(look, {}, now, orders, is_tick=True)
            self._quiet = quiet
            return start
        if quiet is not None and orders.asleep is not None and quiet >= orders.asleep and quiet > start.time:
            # Stream times that nobody waited for must be where they were when all was last seen to be quiet.
            return self._mark(look, {}, quiet, orders, is_tick=True)
        return self._mark(look, self._choose(look.offsets, self._now_wanted(look), orders), now, orders)

    def _mark(
        self, look: _Look, chosen: TopicOffsets, now: int, orders: PlannerSettings, *, is_tick: bool = False
    ) -> BatchEnd:
        """Where a batch ends. One that is just a tick says that there is no more: then it was quiet."""
        offsets = {**look.offsets, **chosen}
        has_more = {
            topic: [begin < end for begin, end in zip(_padded(offsets[topic], len(ends)), ends, strict=True)]
            for topic, ends in look.ends.items()
            if not is_tick and _any_beyond(offsets, {topic: ends})
        }
        read = ((topic, partition) for topic, partition, *_ in _spans(look.offsets, offsets, has_more))
        places = (place for source in read for place in self._routing.inputs(*source))
        return BatchEnd(
            offsets=offsets,
            has_more=has_more,
            time=now,
            global_ends=self._first.global_ends,
            global_epochs=self._first.global_epochs,
            tasks=orders.awake,
            bounds=[(*place, self._bounds[place]) for place in places if place in self._bounds],
            new_topics=look.new,
        )

    def ranges(self, start: BatchEnd, end: BatchEnd) -> list[Range]:
        """What a batch reads."""
        bounds = {(topic, partition): bound for topic, partition, bound in end.bounds}
        ranges = []
        for topic, partition, begin, stop, waits in _spans(
            {**start.offsets, **end.new_topics}, end.offsets, end.has_more
        ):
            known = [(*place, bounds[place]) for place in self._routing.inputs(topic, partition) if place in bounds]
            ranges.append(Range(topic, partition, begin, stop, waits, known))
        # A batch that was planned before the topology had a global table needs it all the same when it is run again.
        late = sorted(self._late_tables(end))
        for topic, begins in (self._log.starts(late) if late else {}).items():
            stops = self._first.global_ends[topic]
            ranges += [Range(topic, p, a, b, more=False) for p, (a, b) in enumerate(zip(begins, stops, strict=False))]
        return [span._replace(start=span.end) for span in ranges] if end == self._skipped else ranges

    def _late_tables(self, end: BatchEnd) -> set[str]:
        """The topics of global tables that the topology which planned a batch did not have; they are read whole.

        One that comes back is another one: what was there of it may be gone.
        """
        epochs, own = end.global_epochs, self._first.global_epochs
        return {topic for topic in self._subscription.globals if epochs.get(topic) != own[topic]}

    # ----- how far ---------------------------------------------------------------------------------------------

    def _look(self, start: BatchEnd, orders: PlannerSettings) -> _Look:
        """Looks at what there is.

        Topics that are new to the application begin where that was decided at the start, and so do those that were
        read as global tables and are none any more. Those that came to a pattern since then, partitions that came to a
        topic, and new global tables are read from their first record.
        """
        others = self._late_tables(start) | (start.global_ends.keys() - self._first.global_ends.keys())
        known = {topic: offsets for topic, offsets in start.offsets.items() if topic not in others}
        ends = self._log.ends(self._subscription.topics)
        self._check(known, ends)
        missing = [topic for topic, each in ends.items() if len(each) > len(known.get(topic, []))]
        starts = self._log.starts(missing) if missing else {}
        decided = {t: row for t, row in self._first.offsets.items() if t not in self._subscription.globals} | known
        new = {topic: decided.get(topic, []) + begin[len(decided.get(topic, [])) :] for topic, begin in starts.items()}
        offsets = {**known, **new}
        return _Look(offsets, new, self._limited(offsets, ends, orders))

    def _check(self, known: TopicOffsets, ends: TopicOffsets) -> None:
        """Makes sure that topics still have what was read of them."""
        for topic, each in ends.items():
            for partition, (end, offset) in enumerate(zip(each, known.get(topic, []), strict=False)):
                if end < offset:
                    raise OffsetOutOfRangeError(
                        f"partition {partition} of topic {topic!r} ends at offset {end}, and the application has read "
                        f"up to {offset}: the topic was deleted and made anew, or its records are lost",
                        hint="reset the application, so that it begins again from its input: millstream reset",
                    )

    def _limited(self, offsets: TopicOffsets, ends: TopicOffsets, orders: PlannerSettings) -> TopicOffsets:
        """The ends of what may be read at all: of changelogs only what was there when stores began to be rebuilt."""
        own, restores, until = self._subscription.internal, self._subscription.restores, orders.until
        if until is not None:
            ends = {t: e if t in own or t in restores else _least(e, until.get(t, [])) for t, e in ends.items()}
        ends |= {t: _least(ends[t], self._first.global_ends.get(t, [])) for t in restores}
        return {t: _greatest(ends[t], offsets.get(t, [])) for t in sorted(ends)}

    def _now_wanted(self, look: _Look) -> TopicOffsets:
        """The ends of what comes next: stores that are rebuilt, then global tables as they were, then all else."""
        for before in (self._subscription.restores, self._subscription.globals):
            first = {t: _least(look.ends[t], self._first.global_ends.get(t, [])) for t in sorted(before)}
            if _any_beyond(look.offsets, first):
                return first
        return look.ends

    def _choose(self, offsets: TopicOffsets, ends: TopicOffsets, orders: PlannerSettings) -> TopicOffsets:
        """The ends of a batch of bounded size: of each partition that has records at least one.

        The application's own topics come first: what is in them is half done. If operators make so many records of one
        that these do not fit in a batch, the others have little until that is less: as much as is worked off.
        """
        internal, records = self._subscription.internal, orders.records
        unread = {t: _minus(e, offsets.get(t, [])) for t, e in ends.items()}
        own = sum(sum(unread.get(t, [])) for t in internal)
        total = sum(sum(counts) for counts in unread.values()) - own
        if own + total <= records:
            return ends
        least = min(total, records * _LEAST * min(1.0, records / max(1, own)))
        share_of_own = min(1.0, (records - least) / max(1, own))
        share = min(1.0, max(least, records - own) / max(1, total))
        chosen = {
            topic: [
                begin + min(count, max(1, int(count * (share_of_own if topic in internal else share))))
                if count
                else begin
                for begin, count in zip(_padded(offsets.get(topic, []), len(counts)), counts, strict=True)
            ]
            for topic, counts in unread.items()
        }
        return self._fill(offsets, chosen, ends, records)

    def _fill(self, offsets: TopicOffsets, chosen: TopicOffsets, ends: TopicOffsets, records: int) -> TopicOffsets:
        """Keeps pace, and gives what inputs that are ahead in time leave of the batch to those that they wait for.

        Else a table that is older than a stream would be read in ever smaller shares.
        """
        kept = self._keep_pace(offsets, chosen, ends)
        for _round in range(_ROUNDS):
            spare = records - _count(offsets, kept)
            behind = {
                topic: [
                    end - stop if stop == wanted else 0
                    for stop, wanted, end in zip(stops, chosen[topic], ends[topic], strict=True)
                ]
                for topic, stops in kept.items()
            }
            unread = sum(sum(counts) for counts in behind.values())
            if spare < records * _SPARE or not unread:
                break
            share = min(1.0, spare / unread)
            chosen = {
                topic: [wanted + int(count * share) for wanted, count in zip(chosen[topic], behind[topic], strict=True)]
                for topic in kept
            }
            more = self._keep_pace(offsets, chosen, ends)
            excess = _count(offsets, more) - records
            if excess > 0:
                fitting = self._keep_pace(offsets, _reduced(kept, more, ends, excess), ends)
                return max(kept, fitting, key=lambda stops: _count(offsets, stops))
            kept = more
        return kept

    def _keep_pace(self, offsets: TopicOffsets, chosen: TopicOffsets, ends: TopicOffsets) -> TopicOffsets:
        """Cuts back inputs that would get ahead in time of others that are read together with them.

        One record of each is read all the same, because a task can then tell from when on it has to wait for that
        input; but none of one that is ahead already, whatever the times of its records: to tasks, time never goes back.
        """
        kept = {topic: list(stops) for topic, stops in chosen.items()}
        for group in self._subscription.groups:
            together = [
                (topic, partition, begin, stop, end)
                for topic in sorted(group & chosen.keys())
                for partition, (begin, stop, end) in enumerate(
                    zip(_padded(offsets.get(topic, []), len(ends[topic])), chosen[topic], ends[topic], strict=True)
                )
                if end > begin
            ]
            cut = {(topic, part): (begin, stop) for topic, part, begin, stop, end in together if begin < stop < end}
            if not cut or len(together) < 2:
                continue
            places = [(topic, part) for topic, part, *_ in together]
            before = {place: bound for place in places if (bound := self._bound(*place)) is not None}
            # The log's times may say little of those that tasks see. Once much has to wait, they are left out of it.
            told = {place: before[place] for place in cut if place in before} if self._crowded else {}
            latest = told or {
                place: max(time, before.get(place, time)) for place, time in self._log.latest_times(cut).items()
            }
            if not latest:
                continue
            # Of what is of the same time, tasks take that of the first partition first: see `ordering`.
            edge = limit, slowest = min((time, place) for place, time in latest.items())
            ahead = {place for place, bound in before.items() if (bound, place) > edge}
            bounds = {place: limit + (place < slowest) for place in places if place not in ahead and place != slowest}
            found = {} if told else self._log.offsets_for_times(bounds)
            for topic, partition, begin, stop, end in together:
                place = (topic, partition)
                least, later = (begin, begin) if place in ahead else (min(begin + 1, end), found.get(place, stop))
                kept[topic][partition] = max(least, min(stop, later))
        return kept

    def _bound(self, topic: str, partition: int) -> int | None:
        """The time before which, as tasks count, no record of a partition can be that was not read; None: unknown.

        It is told of partitions that had more records than the batch before this one.
        """
        unread = self._unread.get(topic, [])
        if partition >= len(unread) or not unread[partition]:
            return None
        places = self._routing.inputs(topic, partition)
        return min((self._bounds[place] for place in places if place in self._bounds), default=None)

    # ----- time ------------------------------------------------------------------------------------------------

    def _now(self, start: BatchEnd) -> int:
        return max(self._clock.time_ms(), start.time)

    def _is_due(self, start: BatchEnd, orders: PlannerSettings) -> bool:
        return orders.due is not None and self._now(start) >= orders.due and self._now(start) > start.time

    def _positions(self, offsets: TopicOffsets, orders: PlannerSettings) -> dict[tuple[str, int], int]:
        """What a record is waited for in: not where those that come are not read."""
        own, until = self._subscription.internal, orders.until
        topics = [t for t in self._subscription.topics if t not in self._subscription.restores]
        return {
            (topic, partition): offset
            for topic in (topics if until is None else own)
            for partition, offset in enumerate(offsets.get(topic, [0]))
        }


class _Look(NamedTuple):
    """What a planner sees.

    Attributes:
        offsets: Where a batch begins.
        new: Which topics begin elsewhere than where the last batch ended.
        ends: Where they end.
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
        begins, more = _padded(starts.get(topic, []), len(stops)), _padded(has_more.get(topic, []), len(stops))
        if stops == begins and not any(more):
            continue
        for partition, (begin, stop, waits) in enumerate(zip(begins, stops, more, strict=True)):
            if stop > begin or waits:
                yield topic, partition, begin, stop, bool(waits)


def _count(offsets: TopicOffsets, stops: TopicOffsets) -> int:
    """How many records there are from where a batch begins to where it stops."""
    return sum(sum(_minus(each, offsets.get(topic, []))) for topic, each in stops.items())


def _reduced(kept: TopicOffsets, more: TopicOffsets, ends: TopicOffsets, excess: int) -> TopicOffsets:
    """Takes so many records back of what was added, but not from inputs that were to be read to their end.

    Others could be waiting for just that end.
    """
    added = {
        topic: [
            stop - before if stop < end else 0
            for before, stop, end in zip(kept[topic], more[topic], ends[topic], strict=True)
        ]
        for topic in more
    }
    part = min(1.0, excess / max(1, sum(sum(counts) for counts in added.values())))
    return {
        topic: [stop - math.ceil(count * part) for stop, count in zip(more[topic], added[topic], strict=True)]
        for topic in more
    }


def _padded(numbers: Sequence[int], length: int) -> list[int]:
    return [*numbers[:length], *[0] * (length - len(numbers))]


def _minus(ends: list[int], starts: list[int]) -> list[int]:
    return [max(0, end - start) for end, start in zip(ends, _padded(starts, len(ends)), strict=True)]


def _least(ends: list[int], limits: list[int]) -> list[int]:
    return [min(end, limit) for end, limit in zip(ends, _padded(limits, len(ends)), strict=True)]


def _greatest(ends: list[int], others: list[int]) -> list[int]:
    return [max(end, other) for end, other in zip(ends, _padded(others, len(ends)), strict=True)]


def _any_beyond(offsets: TopicOffsets, ends: Mapping[str, list[int]]) -> bool:
    return any(any(_minus(e, offsets.get(t, []))) for t, e in ends.items())
