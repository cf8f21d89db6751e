"""Reads the state that a migration carries to the other execution mode: rows of named stores, offsets, cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from millstream.errors import SetupError
from millstream.log import Log, Offsets
from millstream.log.arrays import partitions_of_keys
from millstream.plan.side import BEGIN_AGAIN
from millstream.runtime.order.positions import Position, ordinal, position, time_of
from millstream.runtime.real_time.task_inputs import UNREAD
from millstream.runtime.real_time.task_record import TaskRecord
from millstream.serde.windowed import window_bytes
from millstream.state.spec import StoreKind, StoreSpec

_AT_ONCE = 8 << 20
_SUFFIXES: dict[StoreKind, int] = {"key-value": 0, "window": 12, "session": 16}
"""The bytes behind the key of a row in a changelog, by kind of store, where both modes have the same form."""


_CATCH_UP = "nothing was changed; run it once more in its former mode, with run(until_caught_up=True), and migrate then"


def check_stores(log: Log, specs: Mapping[str, StoreSpec], tasks: int) -> None:
    """Checks that the other mode can use the rows of stores, each in the task of the same number.

    Args:
        log: The log.
        specs: The stores, by changelog.
        tasks: The number of tasks.

    Raises:
        SetupError: Changelogs have another form or number of partitions, or rows are not where their key belongs.
    """
    for topic, spec in specs.items():
        if spec.kind not in _SUFFIXES:
            raise _refused(spec, f"the changelog of a {spec.kind} store has another form in the other mode")
        partitions = log.topic(topic).partitions
        if partitions != tasks:
            raise _refused(spec, f"its changelog has {partitions} partitions, and the tasks are {tasks}")
        suffix = _SUFFIXES[spec.kind] + window_bytes(spec.key)
        for partition in range(partitions if partitions > 1 else 0):
            if any((found != partition).any() for found in _partitions_of(log, topic, partition, partitions, suffix)):
                raise _refused(
                    spec, f"rows of partition {partition} of {topic} have keys that belong to other partitions"
                )


def _partitions_of(log: Log, topic: str, partition: int, count: int, suffix: int) -> Iterator[Any]:
    """Yields arrays of the partitions in which Kafka's default partitioner puts the keys of a changelog's rows."""
    start, end = log.starts([topic])[topic][partition], log.ends([topic])[topic][partition]
    while start < end:
        table = log.read(topic, partition, start, end, max_bytes=_AT_ONCE)
        if not len(table):
            return
        keys = table["key"].to_pylist()
        yield partitions_of_keys([key[:-suffix] for key in keys] if suffix else keys, count)
        start = table["offset"][-1].as_py() + 1


def _refused(spec: StoreSpec, reason: str) -> SetupError:
    return SetupError(
        f"store {spec.name!r} cannot be carried to the other execution mode: {reason}",
        hint=f'nothing was changed; let it begin empty, under another name (store="{spec.name}-v2"); or {BEGIN_AGAIN}',
    )


def check_internal(log: Log, application: str, topics: Iterable[str], read: Offsets) -> None:
    """Checks that all records of internal topics were read: the other mode cannot read them.

    Raises:
        SetupError: Some were not.
    """
    for topic in topics:
        starts, ends = log.starts([topic])[topic], log.ends([topic])[topic]
        for partition, (first, end) in enumerate(zip(starts, ends, strict=True)):
            start = max(first, read.get((topic, partition), 0))
            if start < end and len(log.read(topic, partition, start, end, max_bytes=1)):
                raise SetupError(
                    f"application {application!r} was stopped before it had read all records of its topic {topic}",
                    hint=_CATCH_UP,
                )


def offsets_of(log: Log, application: str, records: Iterable[TaskRecord]) -> dict[tuple[str, int], int]:
    """Returns the offset of each partition before which all tasks have taken all records, and none a later one.

    Raises:
        SetupError: Tasks have taken different records of a partition.
    """
    existing = {topic.name for topic in log.topics()}  # without those that an interrupted migration has deleted
    found: dict[tuple[str, int], list[int]] = {}
    for topic, partition, offset in (entry for record in records for entry in record.offsets):
        if topic in existing:
            found.setdefault((topic, partition), []).append(offset)
    starts = log.starts(sorted({topic for topic, _partition in found}))
    for (topic, partition), offsets in found.items():
        least, greatest = max(min(offsets), starts[topic][partition]), max(offsets)
        if least < greatest and len(log.read(topic, partition, least, greatest, max_bytes=1)):
            raise SetupError(
                f"application {application!r} was stopped while one of its tasks was ahead of another in partition "
                f"{partition} of topic {topic!r}",
                hint=_CATCH_UP,
            )
    return {place: max(offsets) for place, offsets in found.items()}


def times_of(bounds: Mapping[str, Mapping[int, Position]]) -> list[tuple[str, int, int]]:
    """The greatest time of the records that were read, by topic and partition, from the bounds of micro-batches."""
    return [(topic, part, time_of(bound)) for topic, own in bounds.items() for part, bound in own.items()]


def bounds_of(records: Iterable[TaskRecord], offsets: Offsets) -> dict[str, dict[int, Position]]:
    """The bounds of micro-batches, from task records: the inverse of `times_of`."""
    times: dict[tuple[str, int], int] = {}
    for topic, partition, time in (entry for record in records for entry in record.times):
        times[topic, partition] = max(time, times.get((topic, partition), time))
    topics = sorted({topic for topic, _partition in offsets})
    bounds: dict[str, dict[int, Position]] = {}
    for (topic, partition), time in times.items():
        if time > UNREAD and (topic, partition) in offsets:
            number = ordinal(topics.index(topic), partition)
            bounds.setdefault(topic, {})[partition] = position(time, number, offsets[topic, partition])
    return bounds
