"""Rebuilds views from changelogs: those that are damaged, or all if the application ran on another machine before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from millstream.log.api import Log, Records
from millstream.runtime.program.program import Program
from millstream.state.paged.history import versions_put
from millstream.state.spec import NO_TIMESTAMP, ChangelogRecord, StoreSpec
from millstream.views.changes import ViewChange, change_of, row_time

_AT_ONCE = 8 << 20
_NO_TIME = -1


def rebuild_views(program: Program, log: Log, tell: Callable[[str], None], *, again: bool) -> None:
    """Rebuilds the views of an application that are damaged or behind its published batches.

    Rows of a store without a complete changelog reappear in its view when they change.

    Args:
        program: The program of the application.
        log: Its log.
        tell: Called with a message if views are rebuilt.
        again: The last published batch will be run again.
    """
    application = program.topology.application_id
    viewed = [spec for spec in program.topology.stores if program.has_view(spec)]
    complete = [spec for spec in viewed if spec.name in program.complete_changelogs]
    changelogs = [(spec, topic) for spec in complete if (topic := program.changelog_of(spec)) is not None]

    def changes(damaged: Collection[str] | None) -> Iterator[ViewChange]:
        if damaged is None:
            tell(f"the views of application {application!r} are not on this machine: making them from its changelogs")
            return _changes(log, program, changelogs)
        rebuildable = [(spec, topic) for spec, topic in changelogs if spec.name in damaged]
        rebuilt = [spec.name for spec, _topic in rebuildable]
        if rebuilt:
            tell(f"damaged views of application {application!r} are made anew from changelogs: {', '.join(rebuilt)}")
        lost = sorted(set(damaged).difference(rebuilt))
        if lost:
            tell(f"damaged views without a whole changelog begin empty, rows come as they change: {', '.join(lost)}")
        return _changes(log, program, rebuildable)

    if viewed:
        log.views.repair(application, changes, again=again)


def forget_rows(program: Program, log: Log, stores: Iterable[StoreSpec]) -> None:
    """Deletes rows that views and changelogs contain of stores that begin empty.

    They belong to an earlier store of the same name. Queries would show them, and a migration would restore them.
    """
    stores = list(stores)
    changelogs = {program.changelog_of(spec) for spec in stores} & {topic.name for topic in log.topics()}
    for topic in sorted(filter(None, changelogs)):
        if log.starts([topic]) != log.ends([topic]):
            log.delete_topic(topic)
    log.views.drop(program.topology.application_id, [spec.name for spec in stores])


def _changes(log: Records, program: Program, stores: list[tuple[StoreSpec, str]]) -> Iterator[ViewChange]:
    topics = [topic for _, topic in stores]
    starts, ends = log.starts(topics), log.ends(topics)
    for spec, topic in stores:
        for partition, (start, end) in enumerate(zip(starts[topic], ends[topic], strict=False)):
            for change in _of_partition(log, spec, topic, partition, start, end):
                # In changelogs of workers, the version is a part of the key.
                has_versions = spec.kind == "versioned" and not program.shuffle
                yield change._replace(records=list(versions_put(change.records))) if has_versions else change


def _of_partition(
    log: Records, spec: StoreSpec, topic: str, partition: int, start: int, end: int
) -> Iterator[ViewChange]:
    time = None if spec.kind == "key-value" else _NO_TIME
    timed = spec.timestamped or spec.kind != "key-value"
    yield change_of(spec, partition, [], time)
    while start < end:
        table = log.read(topic, partition, start, end, max_bytes=_AT_ONCE)
        keys, values, stamps = (table[name].to_pylist() for name in ("key", "value", "timestamp"))
        times = stamps if timed else [NO_TIMESTAMP] * len(stamps)
        records = list(map(ChangelogRecord, keys, values, times))
        if time is not None:
            time = max([time, *(row_time(spec, record) for record in records)])
        yield change_of(spec, partition, records, time)
        start = table["offset"][-1].as_py() + 1 if len(table) else end
