"""Plans batches: how far each one reads, so that it is neither too long nor depends on luck.

The end of a batch is recorded by Spark before the batch runs, together with all else that a replay must see again: the
time of the batch, and which partitions had more records. Two rules decide how far a batch goes:

- No more records than the runtime has found to take about the target time.
- Inputs that are read together keep pace with each other in time, because a task cannot take records that are later
  than what another input may still bring.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from millstream.errors import BrokerError, MillstreamError, OffsetOutOfRangeError
from millstream.log.api import Log
from millstream.runtime.control import Control, Orders
from millstream.runtime.program import Program
from millstream.runtime.reading import Dealing, Range
from millstream.runtime.subscription import Subscription

Offsets = dict[str, list[int]]
Mark = dict[str, Any]
"""Where a batch ends, as Spark records it: offsets by topic, the time, and which partitions had more."""

_WAIT = 0.05
_REFRESH = 1.0
_ROUNDS = 3
_LEAST = 0.25
"""The part of a batch that other topics have, however much there is in the application's own."""

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

    def __init__(self, program: Program, log: Log, control: Control, first: Mark) -> None:
        self._program = program
        self._log = log
        self._control = control
        self._first = first
        self._subscription = Subscription(program, log)
        self._dealing = Dealing(program)
        self._bounds: dict[tuple[str, int], int] = {}
        self._crowded = False
        self._patience = program.log.patience
        self._silent: float | None = None

    def first(self) -> Mark:
        """Where the first batch begins."""
        return self._first

    def close(self) -> None:
        """Closes the log."""
        self._log.close()

    def next(self, start: Mark) -> Mark:
        """Where the batch that begins at a mark ends; the same mark if there is no reason for a batch.

        A broker that does not answer is waited for.
        """
        try:
            mark = self._next(start)
        except MillstreamError as error:
            now = time.monotonic()
            self._silent = self._silent or now
            if not isinstance(error, BrokerError) or not error.may_pass or now - self._silent > self._patience:
                self._control.fail(error)
                raise
            self._control.trouble(error.message)
            time.sleep(_WAIT)
            return start
        self._silent = None
        self._control.trouble(None)
        return mark

    def _next(self, start: Mark) -> Mark:
        orders = self._control.read()
        self._bounds = {(topic, partition): bound for topic, partition, bound in orders.bounds}
        self._crowded = orders.waiting > orders.records
        if orders.paused:
            self._control.acknowledge(orders)
            time.sleep(_WAIT)
            return start
        self._subscription.refresh(_REFRESH)
        offsets, new, ends = self._look(start["offsets"], orders)
        is_idle = not _any_beyond(offsets, ends) and not self._is_due(start, orders)
        if is_idle and self._log.wait(self._positions(offsets), _WAIT):
            offsets, new, ends = self._look(start["offsets"], orders)
        if not _any_beyond(offsets, ends):
            return self._tick(start) if self._is_due(start, orders) else start
        now = self._now(start)
        chosen = self._choose(offsets, ends, orders)
        more = {
            topic: [int(a < b) for a, b in zip(chosen[topic], ends[topic], strict=True)]
            for topic in chosen
            if any(a < b for a, b in zip(chosen[topic], ends[topic], strict=True))
        }
        mark = {"offsets": {**offsets, **chosen}, "more": more, "now": now, "globals": start["globals"]}
        return {**mark, "new": new} if new else mark

    def ranges(self, start: Mark, end: Mark) -> list[Range]:
        """What a batch reads."""
        found = []
        for topic, ends in end["offsets"].items():
            begins = end.get("new", {}).get(topic) or start["offsets"].get(topic, [])
            more = end["more"].get(topic, [])
            for partition, stop in enumerate(ends):
                begin = begins[partition] if partition < len(begins) else 0
                waits = bool(more[partition]) if partition < len(more) else False
                if stop > begin or waits:
                    found.append(Range(topic, partition, begin, stop, waits))
        return found

    # ----- how far ---------------------------------------------------------------------------------------------

    def _look(self, known: Offsets, orders: Orders) -> tuple[Offsets, Offsets, Offsets]:
        """Where a batch begins, which of its topics begin elsewhere than the last batch ended, and where it may end.

        Topics and partitions that have come since are read from their first record.
        """
        ends = self._log.ends(self._subscription.topics)
        self._check(known, ends)
        missing = [topic for topic, each in ends.items() if len(each) > len(known.get(topic, []))]
        starts = self._log.starts(missing) if missing else {}
        new = {topic: known.get(topic, []) + begin[len(known.get(topic, [])) :] for topic, begin in starts.items()}
        offsets = {**known, **new}
        return offsets, new, self._ends(offsets, ends, orders)

    def _check(self, known: Offsets, ends: Offsets) -> None:
        """Makes sure that topics still have what was read of them."""
        for topic, each in ends.items():
            for partition, (end, offset) in enumerate(zip(each, known.get(topic, []), strict=False)):
                if end < offset:
                    raise OffsetOutOfRangeError(
                        f"partition {partition} of topic {topic!r} ends at offset {end}, and the application has read "
                        f"up to {offset}: the topic was deleted and made anew, or its records are lost",
                        hint="reset the application, so that it begins again from its input: millstream reset",
                    )

    def _ends(self, offsets: Offsets, ends: Offsets, orders: Orders) -> Offsets:
        """The ends of what may be read now."""
        if orders.until is not None:
            own = self._subscription.internal
            ends = {t: e if t in own else _least(e, orders.until.get(t, [])) for t, e in ends.items()}
        for before in (self._subscription.restores, self._subscription.globals):
            first = {t: _least(ends[t], self._first["globals"].get(t, [])) for t in before if t in ends}
            if _any_beyond(offsets, first):
                return first
        wanted = ends.keys() - self._subscription.restores
        return {t: _greatest(ends[t], offsets.get(t, [])) for t in sorted(wanted)}

    def _choose(self, offsets: Offsets, ends: Offsets, orders: Orders) -> Offsets:
        """The ends of a batch of bounded size.

        The application's own topics are read to their end: they have no more than earlier batches gave, and a share of
        them, however small, would keep all other inputs waiting.
        """
        unread = {t: _minus(e, offsets.get(t, [])) for t, e in ends.items()}
        own = sum(sum(unread.get(t, [])) for t in self._subscription.internal)
        total = sum(sum(counts) for counts in unread.values()) - own
        if own + total <= orders.records:
            return ends
        share = max(orders.records * _LEAST, orders.records - own) / max(1, total)
        chosen = {
            topic: [
                begin + min(count, max(1, int(count * share))) if count else begin
                for begin, count in zip(_padded(offsets.get(topic, []), len(counts)), counts, strict=True)
            ]
            for topic, counts in unread.items()
            if topic not in self._subscription.internal
        }
        chosen |= {topic: stops for topic, stops in ends.items() if topic not in chosen}
        return self._fill(offsets, chosen, ends, orders.records)

    def _fill(self, offsets: Offsets, chosen: Offsets, ends: Offsets, records: int) -> Offsets:
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

    def _keep_pace(self, offsets: Offsets, chosen: Offsets, ends: Offsets) -> Offsets:
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
            times = self._log.latest_times(cut)
            if not times:
                continue
            before = {(topic, part): self._bound(topic, part) for topic, part, *_ in together}
            latest = {place: _latest(time, before[place]) for place, time in times.items()}
            known = {place: bound for place in cut if (bound := before[place]) is not None}
            blind = self._crowded and bool(known)  # the log's times have told too little of those that tasks see
            if blind:
                latest = known
            limit, slowest = min((time, place) for place, time in latest.items())
            # Of what is of the same time, tasks take that of the first partition first: see `ordering`.
            edge = (limit, slowest)
            ahead = {place for place, bound in before.items() if bound is not None and (bound, place) > edge}
            bounds = {place: limit + (place < slowest) for place in before.keys() - ahead - {slowest}}
            found = {} if blind else self._log.offsets_for_times(bounds)
            for topic, partition, begin, stop, end in together:
                place = (topic, partition)
                least, later = (begin, begin) if place in ahead else (min(begin + 1, end), found.get(place, stop))
                kept[topic][partition] = max(least, min(stop, later))
        return kept

    def _bound(self, topic: str, partition: int) -> int | None:
        """The time before which, as tasks count, no record of a partition can be that was not read; None: unknown."""
        known = [self._bounds.get(place) for place in self._dealing.places(topic, partition)]
        return min((bound for bound in known if bound is not None), default=None)

    # ----- time ------------------------------------------------------------------------------------------------

    @staticmethod
    def _now(start: Mark) -> int:
        return max(int(time.time() * 1000), int(start["now"]))

    def _is_due(self, start: Mark, orders: Orders) -> bool:
        return orders.due is not None and self._now(start) >= orders.due and self._now(start) > start["now"]

    def _tick(self, start: Mark) -> Mark:
        return {**start, "more": {}, "now": self._now(start)}

    def _positions(self, offsets: Offsets) -> dict[tuple[str, int], int]:
        return {
            (topic, partition): offset
            for topic in self._subscription.topics
            if topic not in self._subscription.restores  # what comes there later is not read
            for partition, offset in enumerate(offsets.get(topic, [0]))
        }


def _latest(time: int, before: int | None) -> int:
    return time if before is None else max(time, before)


def _count(offsets: Offsets, stops: Offsets) -> int:
    """How many records there are from where a batch begins to where it stops."""
    return sum(sum(_minus(each, offsets.get(topic, []))) for topic, each in stops.items())


def _reduced(kept: Offsets, more: Offsets, ends: Offsets, excess: int) -> Offsets:
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


def _padded(numbers: list[int], length: int) -> list[int]:
    return numbers[:length] + [0] * (length - len(numbers))


def _minus(ends: list[int], starts: list[int]) -> list[int]:
    return [max(0, end - start) for end, start in zip(ends, _padded(starts, len(ends)), strict=True)]


def _least(ends: list[int], limits: list[int]) -> list[int]:
    return [min(end, limit) for end, limit in zip(ends, _padded(limits, len(ends)), strict=True)]


def _greatest(ends: list[int], others: list[int]) -> list[int]:
    return [max(end, other) for end, other in zip(ends, _padded(others, len(ends)), strict=True)]


def _any_beyond(offsets: Offsets, ends: Mapping[str, list[int]]) -> bool:
    return any(any(_minus(e, offsets.get(t, []))) for t, e in ends.items())
