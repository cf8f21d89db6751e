"""Makes a failing case small: fewer topologies, operators, records, batches and tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.property.generation import Case, Member, Segment
from tests.property.topologies import Builder, Step

from millstream import App
from millstream.errors import MillstreamError

_TYPE_ERRORS = (MillstreamError, AttributeError, IndexError, TypeError)
"""Raised where a step does not fit the nodes before it."""


def minimise(case: Case, fails: Callable[[Case], bool], *, attempts: int = 400) -> Case:
    """Returns a smaller case that fails, too.

    Args:
        case: A case that fails.
        fails: Whether a case fails.
        attempts: The greatest number of cases to try.
    """
    left = attempts
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(case):
            if not left:
                return case
            left -= 1
            if fails(candidate):
                case, smaller = candidate, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Yields cases that are a little smaller, the greatest steps first."""
    if len(case.members) > 1:
        yield from (replace(case, members=(member,)) for member in case.members)
        for number in range(len(case.members)):
            yield replace(case, members=case.members[:number] + case.members[number + 1 :])
    if case.tasks > 1:
        yield replace(case, tasks=case.tasks // 2)
    for segments in _smaller_segments(case.segments):
        yield replace(case, segments=segments)
    for number, member in enumerate(case.members):
        for part in (*_with_fewer_steps(member), *_with_fewer_records(member), *_with_fewer_partitions(member)):
            yield replace(case, members=(*case.members[:number], part, *case.members[number + 1 :]))


def _smaller_segments(segments: tuple[Segment, ...]) -> Iterator[tuple[Segment, ...]]:
    for number, segment in enumerate(segments):
        others = segments[:number], segments[number + 1 :]
        if len(segments) > 1:
            yield (*others[0], *others[1])
        for simpler in (segment._replace(crash=None), segment._replace(cold=False)):
            if simpler != segment:
                yield (*others[0], simpler, *others[1])
        if len(segment.sizes) > 1:
            yield (*others[0], segment._replace(sizes=segment.sizes[:-1]), *others[1])


def _with_fewer_records(member: Member) -> Iterator[Member]:
    size = len(member.records) // 2
    while size:
        for start in range(0, len(member.records), size):
            yield replace(member, records=member.records[:start] + member.records[start + size :])
        size //= 2


def _with_fewer_partitions(member: Member) -> Iterator[Member]:
    if any(count > 1 for count in member.partitions.values()):
        records = tuple(record._replace(partition=0) for record in member.records)
        yield Member(member.steps, dict.fromkeys(member.partitions, 1), records)


def _with_fewer_steps(member: Member) -> Iterator[Member]:
    """Yields the member without one step; its consumers take the node of its first source instead."""
    first = 0
    for index, step in enumerate(member.steps):
        made = 2 if step[0] == "split" else 1
        steps = _without(member.steps, index, first, made)
        if steps is not None and (smaller := _fitting(replace(member, steps=steps))) is not None:
            yield smaller
        first += made


def _without(steps: tuple[Step, ...], index: int, first: int, made: int) -> tuple[Step, ...] | None:
    """Returns the steps without one of them, which made some nodes from a first number on; None if it is needed."""
    removed = steps[index]
    source = removed[1] if isinstance(removed[1], int) else None
    kept = list(steps[:index])
    for step in steps[index + 1 :]:
        sources = 2 if step[0] in TWO_SOURCES else 1
        moved = list(step)
        for place in range(1, 1 + sources):
            number = step[place]
            if not isinstance(number, int):
                continue
            if first <= number < first + made:
                if source is None:
                    return None
                moved[place] = source
            elif number >= first + made:
                moved[place] = number - made
        if sources == 2 and moved[1] == moved[2]:
            return None
        kept.append(tuple(moved))
    return tuple(kept)


TWO_SOURCES = {"merge", "stream_join", "stream_table", "table_join", "foreign_key"}


def _fitting(member: Member) -> Member | None:
    """Returns the member without unused topics; None if its steps do not fit."""
    try:
        builder: Builder = member.build(App("generated"))
    except _TYPE_ERRORS:
        return None
    topics = set(builder.topics)
    return Member(
        member.steps,
        {topic: count for topic, count in member.partitions.items() if topic in topics},
        tuple(record for record in member.records if record.topic in topics),
    )
