"""Finds topics whose retention may delete records before an application has read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from millstream.core.diagnostics import Check
from millstream.core.durations import show_ms
from millstream.log.api import Log, Records, Scope, Topic
from millstream.log.topic_config import TopicSettings, settings
from millstream.text.sizes import show_bytes

_LISTED = 3


def check_retention(log: Log, configs: Mapping[str, Mapping[str, str]], now: int) -> Iterator[Check]:
    """Yields a warning for each topic that may lose records before they are read, or one check without a warning.

    Retention goes by the timestamps of records, so old data may be deleted as soon as it is written.

    Args:
        log: The log.
        configs: The configurations of topics including defaults, by topic.
        now: The time, in milliseconds since the epoch.
    """
    limited = {topic.name: topic for topic in log.topics() if not topic.internal and _limits(configs, topic.name)}
    if not limited:
        yield Check("retention", "ok", "topics keep their records without limit")
        return
    positions = {group: log.committed(group) for group in log.groups()}
    warned = False
    for name, topic in limited.items():
        limit = _limits(configs, name)
        readers = {group: read for group, read in positions.items() if any(place[0] == name for place in read)}
        for risk in _endangered(log, topic, settings(configs[name]), readers, now):
            warned = True
            yield Check("retention", "warn", f"{name}: {risk}; it keeps {limit}, read or not", _fix(name))
    if not warned:
        listed = _listed(f"{name} keeps {_limits(configs, name)}" for name in limited)
        yield Check("retention", "ok", f"no application is far behind; a new one reads only what is kept: {listed}")


def _limits(configs: Mapping[str, Mapping[str, str]], topic: str) -> str:
    """Describes the retention limits of a topic; empty if it has none."""
    if topic not in configs:
        return ""
    limits = settings(configs[topic])
    parts = []
    if limits.delete and limits.retention_ms is not None:
        parts.append(f"records for {show_ms(limits.retention_ms)} by their timestamps")
    if limits.delete and limits.retention_bytes is not None:
        parts.append(f"{show_bytes(limits.retention_bytes)} of each partition")
    return " and ".join(parts)


def _endangered(
    log: Log, topic: Topic, limits: TopicSettings, readers: Mapping[str, Mapping[tuple[str, int], int]], now: int
) -> Iterator[str]:
    """Yields the groups whose unread records are beyond half of the retention limit of a topic."""
    starts, ends = log.starts([topic.name])[topic.name], log.ends([topic.name])[topic.name]
    if not readers:
        expired = _older_than(log, topic, limits.retention_ms, now)
        count = sum(max(0, bound - start) for bound, start in zip(expired, starts, strict=True))
        if count:
            yield f"{_records(count)} can be deleted at any moment, and no application has read them"
        return
    bounds = _older_than(log, topic, None if limits.retention_ms is None else limits.retention_ms // 2, now)
    if limits.retention_bytes is not None:
        bounds = [max(bound, (start + end) // 2) for bound, start, end in zip(bounds, starts, ends, strict=True)]
    for group, read in readers.items():
        positions = [max(start, read.get((topic.name, number), start)) for number, start in enumerate(starts)]
        count = sum(max(0, bound - position) for bound, position in zip(bounds, positions, strict=True))
        if count:
            kind = "group" if log.applications.published(Scope(group)) is None else "application"
            yield f"{kind} {group!r} has not read {_records(count)} that can be deleted soon"


def _older_than(log: Records, topic: Topic, age_ms: int | None, now: int) -> list[int]:
    """Returns the offset of the first record that is not older, by partition; 0 if no age is given."""
    if age_ms is None:
        return [0] * topic.partitions
    places = [(topic.name, number) for number in range(topic.partitions)]
    offsets = log.offsets_for_times(dict.fromkeys(places, max(0, now - age_ms)))
    return [offsets[place] for place in places]


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


def _fix(topic: str) -> str:
    return f"millstream topics alter {topic} --config retention.ms=-1 --config retention.bytes=-1"


def _listed(texts: Iterable[str]) -> str:
    ordered = sorted(texts)
    more = len(ordered) - _LISTED
    return "; ".join(ordered[:_LISTED]) + (f"; and {more} more" if more > 0 else "")
