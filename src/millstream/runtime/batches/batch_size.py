"""Limits the size of a batch, and shares it among the partitions that have records.

Three rules decide how far a batch reads:

- It has no more records than the runtime expects to take the target time.
- Topics that have nothing to do with each other share it evenly, so that the backlog of one does not delay another.
- Inputs that meet in a task advance together in time. A task cannot process a record that is later than a record that
  another input may still bring.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from millstream.log.api import Log
from millstream.runtime.batches.batch_end import TopicOffsets
from millstream.runtime.batches.subscription import Subscription
from millstream.runtime.batches.topic_offsets import counts, padded, total

_ROUNDS = 3
_LEAST = 0.25
"""Share of a batch that input topics get if internal topics have no more than a batch."""

_SPARE = 0.1
"""Unused share of a batch that is worth another round of distribution."""


class BatchSize:
    """Chooses the end offsets of a batch of limited size.

    Args:
        log: The log.
        subscription: The topics that the application reads.

    Attributes:
        bounds: Greatest time read so far, as the running maximum of timestamps, by partition.
        has_more: The partitions that had more records than the last batch: only their bounds hold.
        is_crowded: Tasks hold more records that they cannot process yet than a batch has.
    """

    def __init__(self, log: Log, subscription: Subscription) -> None:
        self._log = log
        self._subscription = subscription
        self.bounds: dict[tuple[str, int], int] = {}
        self.has_more: dict[str, list[bool]] = {}
        self.is_crowded = False

    def choose(self, offsets: TopicOffsets, ends: TopicOffsets, records: int) -> TopicOffsets:
        """Returns end offsets for about *records* records, at least one of each partition that has any.

        Internal topics come first: their records are intermediate results. If operators multiply records, so that
        internal topics have more than a batch, input topics get a share that shrinks with that backlog.
        """
        internal = self._subscription.internal
        unread = {topic: counts(row, offsets.get(topic, [])) for topic, row in ends.items()}
        own = sum(sum(unread.get(topic, [])) for topic in internal)
        others = sum(sum(row) for row in unread.values()) - own
        if own + others <= records:
            return ends
        least = min(others, records * _LEAST * min(1.0, records / max(1, own)))
        shares = self._shares(unread, internal, records - least)
        shares |= self._shares(unread, unread.keys() - internal, max(least, records - own))
        chosen = {
            topic: [
                begin + min(count, max(1, int(count * shares[topic]))) if count else begin
                for begin, count in zip(padded(offsets.get(topic, []), len(row)), row, strict=True)
            ]
            for topic, row in unread.items()
        }
        return self._fill(offsets, chosen, ends, records)

    def _shares(self, unread: TopicOffsets, topics: set[str], records: float) -> dict[str, float]:
        """The share of its unread records that each of the topics gets of a number of records."""
        groups = [group.topics & topics for group in self._subscription.groups]
        groups.append(topics.difference(*groups))  # global tables, and changelogs that are restored
        totals = [sum(sum(unread.get(topic, [])) for topic in group) for group in groups]
        return {
            topic: fair / max(1, count)
            for group, count, fair in zip(groups, totals, _fair(totals, records), strict=True)
            for topic in group
        }

    def _fill(self, offsets: TopicOffsets, chosen: TopicOffsets, ends: TopicOffsets, records: int) -> TopicOffsets:
        """Keeps inputs in step. Capacity unused by inputs that are ahead goes to the inputs they wait for.

        Otherwise a table that is older than a stream would be read in ever smaller shares.
        """
        kept = self._in_step(offsets, chosen, ends)
        for _round in range(_ROUNDS):
            spare = records - total(offsets, kept)
            behind = {
                topic: [
                    end - stop if stop == wanted else 0
                    for stop, wanted, end in zip(stops, chosen[topic], ends[topic], strict=True)
                ]
                for topic, stops in kept.items()
            }
            unread = sum(sum(row) for row in behind.values())
            if spare < records * _SPARE or not unread:
                break
            share = min(1.0, spare / unread)
            chosen = {
                topic: [wanted + int(count * share) for wanted, count in zip(chosen[topic], behind[topic], strict=True)]
                for topic in kept
            }
            more = self._in_step(offsets, chosen, ends)
            excess = total(offsets, more) - records
            if excess > 0:
                fitting = self._in_step(offsets, _reduced(kept, more, ends, excess), ends)
                return max(kept, fitting, key=lambda stops: total(offsets, stops))
            kept = more
        return kept

    def _in_step(self, offsets: TopicOffsets, chosen: TopicOffsets, ends: TopicOffsets) -> TopicOffsets:
        """Cuts back inputs that would get ahead in time of others that meet them in a task.

        One record of each is read in any case, because it shows the task up to which time it must wait for the input.
        No record is read of an input whose order position is ahead already: order positions never go back.
        """
        kept = {topic: list(stops) for topic, stops in chosen.items()}
        for group in self._subscription.groups:
            together = [
                (topic, partition, begin, stop, end)
                for topic in sorted(group.inputs & chosen.keys())
                for partition, (begin, stop, end) in enumerate(
                    zip(padded(offsets.get(topic, []), len(ends[topic])), chosen[topic], ends[topic], strict=True)
                )
                if end > begin
            ]
            cut = {(topic, part): (begin, stop) for topic, part, begin, stop, end in together if begin < stop < end}
            if not cut or len(together) < 2:
                continue
            partitions = [(topic, part) for topic, part, *_ in together]
            before = {partition: bound for partition in partitions if (bound := self._bound(*partition)) is not None}
            # Timestamps of the log may be far from those that tasks see. If many records wait, only bounds count.
            reported = {partition: before[partition] for partition in cut if partition in before}
            latest = (reported if self.is_crowded else {}) or {
                partition: max(time, before.get(partition, time))
                for partition, time in self._log.latest_times(cut).items()
            }
            if not latest:
                continue
            # Of records of the same time, tasks take that of the first partition first: see `ordering`.
            edge = limit, slowest = min((time, partition) for partition, time in latest.items())
            ahead = {partition for partition, bound in before.items() if (bound, partition) > edge}
            times = {
                partition: limit + (partition < slowest)
                for partition in partitions
                if partition not in ahead and partition != slowest
            }
            limits = {} if self.is_crowded and reported else self._log.offsets_for_times(times)
            for topic, partition, begin, stop, end in together:
                source = (topic, partition)
                least, later = (begin, begin) if source in ahead else (min(begin + 1, end), limits.get(source, stop))
                kept[topic][partition] = max(least, min(stop, later))
        return kept

    def _bound(self, topic: str, partition: int) -> int | None:
        """The least time, as the running maximum of timestamps, that an unread record can have; None: unknown."""
        has_more = self.has_more.get(topic, [])
        if partition >= len(has_more) or not has_more[partition]:
            return None
        return self.bounds.get((topic, partition))


def _fair(counts: Sequence[int], records: float) -> list[float]:
    """Shares a number of records evenly: none gets more than its count, and the others share the rest.

    >>> _fair([90, 10, 50], 60)
    [25.0, 10, 25.0]
    """
    shares: list[float] = [0] * len(counts)
    ascending = sorted(range(len(counts)), key=counts.__getitem__)
    for place, number in enumerate(ascending):
        shares[number] = min(counts[number], records / (len(counts) - place))
        records -= shares[number]
    return shares


def _reduced(kept: TopicOffsets, more: TopicOffsets, ends: TopicOffsets, excess: int) -> TopicOffsets:
    """Takes back *excess* of the records that *more* adds to *kept*, but not from inputs that are read to their end.

    Another input may wait for just that end.
    """
    added = {
        topic: [
            stop - before if stop < end else 0
            for before, stop, end in zip(kept[topic], more[topic], ends[topic], strict=True)
        ]
        for topic in more
    }
    share = min(1.0, excess / max(1, sum(sum(row) for row in added.values())))
    return {
        topic: [stop - math.ceil(count * share) for stop, count in zip(more[topic], added[topic], strict=True)]
        for topic in more
    }
