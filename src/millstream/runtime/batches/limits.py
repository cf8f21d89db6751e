"""Computes the order of each batch: limits, and the batches whose records are released.

A task that reads an internal topic beside other inputs must not process a record before the records of the internal
topic that come before it in the order. These may still be unread, or not even written: the sub-topologies upstream
process them in this batch or later. The planner knows the least position that each sub-topology may still process. It
is the limit of the sub-topologies downstream.

An application that keeps up makes a record wait only for records that were in the log with it. Once a batch has read
everything in the log of the topics that have to do with a record, the record is released after as many batches as there
are exchanges before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from millstream.runtime.batches.batch_end import TopicOffsets
from millstream.runtime.batches.subscription import TopicGroup
from millstream.runtime.batches.topic_offsets import has_unread, padded
from millstream.runtime.order.batch_order import BatchOrder
from millstream.runtime.order.positions import LEAST, Position
from millstream.runtime.program.program import Program
from millstream.runtime.read.inputs import InputRouting
from millstream.stages.exchange_graph import exchange_graph


class Unread(NamedTuple):
    """The records that a batch can read, and those that it reads.

    Attributes:
        starts: First offsets of the batch.
        chosen: First offsets after the batch.
        ends: End offsets of the topics.
        had_more: Whether a partition had more records than the last batch read.
    """

    starts: TopicOffsets
    chosen: TopicOffsets
    ends: TopicOffsets
    had_more: Mapping[str, list[bool]]


class LimitPlanner:
    """Computes the order of the batches of an application.

    Args:
        program: The program of the application.
        routing: The inputs of its tasks.

    Attributes:
        depth: The most exchanges that a record passes.
    """

    def __init__(self, program: Program, routing: InputRouting) -> None:
        self._graph = exchange_graph(program.placement)
        self._routing = routing
        self._restores = program.restores.keys()
        self.depth = self._graph.depth
        self._is_on: bool = program.config["exact.replays"] and bool(self._graph.writers)

    def next(
        self,
        before: BatchOrder,
        unread: Unread,
        bounds: Mapping[tuple[str, int], Position],
        held: Mapping[int, Position],
        groups: Sequence[TopicGroup],
    ) -> BatchOrder:
        """Returns the order of a batch.

        Args:
            before: The order of the last batch.
            unread: The records to read.
            bounds: For each partition read so far, the least position of its unread records.
            held: The least position that the tasks of a sub-topology have read and not processed.
            groups: The topics of the application.
        """
        sequence = before.sequence + 1
        if not self._is_on:
            return BatchOrder(sequence)
        components, graph = self._graph.components, self._graph
        pending: dict[int, Position] = {}
        known = [(index, at) for index, at in held.items() if index in components]  # the topology may have changed
        for subtopology, at in (*known, *self._starts(before, unread, bounds)):
            component = components[subtopology]
            pending[component] = min(at, pending.get(component, at))
        limits: dict[int, Position] = {}
        for component in dict.fromkeys(components.values()):  # in topological order
            above = [pending[other] for other in graph.upstream(component) if other in pending]
            if above:
                limits[component] = min(above)
                pending[component] = min(limits[component], pending.get(component, limits[component]))
        return BatchOrder(
            sequence,
            limits=[(index, limits[own]) for index, own in components.items() if own in limits],
            pending=[(index, pending[own]) for index, own in components.items() if own in pending],
            released=sorted(batches for group in groups for batches in self._released(before, sequence, unread, group)),
        )

    def _starts(
        self, before: BatchOrder, unread: Unread, bounds: Mapping[tuple[str, int], Position]
    ) -> Iterator[tuple[int, Position]]:
        """The least positions of unread records, each with a sub-topology that processes them."""
        for topic, ends in unread.ends.items():
            readers = self._routing.subtopologies(topic)
            writer = self._graph.writers.get(topic)
            # All records that the topic has got since the last batch have at least this position.
            written = None if writer is None else before.least(writer)
            for partition, (start, end) in enumerate(
                zip(padded(unread.starts.get(topic, []), len(ends)), ends, strict=True)
            ):
                if start >= end:
                    continue
                at = bounds.get((topic, partition), LEAST)
                more = unread.had_more.get(topic, [])
                if written is not None and not (partition < len(more) and more[partition]):
                    at = max(at, written)
                yield from ((reader, at) for reader in readers)

    def _released(
        self, before: BatchOrder, sequence: int, unread: Unread, group: TopicGroup
    ) -> Iterator[tuple[int, list[int]]]:
        """The released batches of each sub-topology of a group; see `BatchOrder.released`."""
        needed = group.topics | self._restores
        ends = {topic: row for topic, row in unread.ends.items() if topic in needed}
        reads_all = not has_unread(unread.chosen, ends)
        reads_internal = not has_unread(unread.chosen, {t: row for t, row in ends.items() if t in group.internal})
        for index in group.subtopologies:
            exchanges = self._graph.depths[index]
            last = [*before.releases(index), *[-1] * (exchanges + 1)]  # the topology may have changed
            first = sequence if reads_all else last[0]
            yield index, [first, *(last[:exchanges] if reads_internal else last[1 : exchanges + 1])]
