"""Which operators read and write a topic."""

from __future__ import annotations

import re
from collections.abc import Iterator

from millstream.plan.node import Plan
from millstream.plan.sources import GlobalTable, Source
from millstream.plan.stateless import Sink


def reader_of(plan: Plan, topic: str) -> Source | GlobalTable | None:
    """The first operator that reads a topic: by its name, or because a pattern takes it."""
    named = (one for one in _readers(plan) if topic in _names(one))
    return next(named, None) or next((one for one in plan.of_type(Source) if reads(one, topic)), None)


def reads(source: Source, topic: str) -> bool:
    """Whether a source reads a topic."""
    return topic in source.topics or (source.pattern is not None and bool(re.fullmatch(source.pattern, topic)))


def writer_of(plan: Plan, topic: str) -> Sink | None:
    """The first operator that writes to a topic by its name."""
    return next((sink for sink in plan.of_type(Sink) if sink.topic == topic), None)


def free_writer(plan: Plan) -> Sink | None:
    """The first operator that writes to topics that a function chooses: it may write to any."""
    return next((sink for sink in plan.of_type(Sink) if not isinstance(sink.topic, str)), None)


def topics_read(plan: Plan) -> list[str]:
    """The topics that are read by their names."""
    return [name for one in _readers(plan) for name in _names(one)]


def topics_written(plan: Plan) -> list[str]:
    """The topics that are written to by their names."""
    return [sink.topic for sink in plan.of_type(Sink) if isinstance(sink.topic, str)]


def _readers(plan: Plan) -> Iterator[Source | GlobalTable]:
    yield from plan.of_type(Source)
    yield from plan.of_type(GlobalTable)


def _names(reader: Source | GlobalTable) -> tuple[str, ...]:
    return reader.topics if isinstance(reader, Source) else (reader.topic,)
