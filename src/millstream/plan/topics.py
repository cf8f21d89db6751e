"""The topics that a plan reads and writes, and the operators that do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from millstream.plan.node import Plan
from millstream.plan.sources import GlobalTable, Source
from millstream.plan.stateless import Sink


def reader_of(plan: Plan, topic: str) -> Source | GlobalTable | None:
    """Returns the first operator that reads a topic: by its name, or by a pattern that matches it."""
    by_name = (reader for reader in _readers(plan) if topic in reader.topics)
    return next(by_name, None) or next((source for source in plan.of_type(Source) if reads(source, topic)), None)


def reads(source: Source, topic: str) -> bool:
    """Whether a source reads a topic."""
    return topic in source.topics or (source.pattern is not None and bool(re.fullmatch(source.pattern, topic)))


def writer_of(plan: Plan, topic: str) -> Sink | None:
    """Returns the first operator that writes to a topic by its name."""
    return next((sink for sink in plan.of_type(Sink) if topic in sink.topics), None)


def free_writer(plan: Plan) -> Sink | None:
    """Returns the first operator whose topics a function chooses: it may write to any topic."""
    return next((sink for sink in plan.of_type(Sink) if sink.topic_function is not None), None)


def topics_read(plan: Plan) -> list[str]:
    """Returns the topics that are read by name."""
    return [topic for reader in _readers(plan) for topic in reader.topics]


def topics_written(plan: Plan) -> list[str]:
    """Returns the topics that are written by name."""
    return [topic for sink in plan.of_type(Sink) for topic in sink.topics]


def _readers(plan: Plan) -> Iterator[Source | GlobalTable]:
    yield from plan.of_type(Source)
    yield from plan.of_type(GlobalTable)
