"""Migrations from micro-batches to workers, and back.

Both modes have the same changelogs of named stores, with rows in the partition of their key, the same cells of
operators, and offsets of input topics. They have other internal topics, and keep offsets and cells elsewhere. So a
change of the mode is possible when no record is between two tasks: the former mode has read its internal topics to
their ends.

A crash in the middle of a migration leaves an application that the former mode may refuse. The migration can be run
again.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

import msgspec

from millstream.errors import AlreadyRunningError, SetupError
from millstream.log import Log, Scope
from millstream.log.api import Append, Publication
from millstream.log.blocks import ColumnBlock
from millstream.plan.stateless import Repartition
from millstream.runtime.admin.carried_state import bounds_of, check_internal, check_stores, offsets_of, times_of
from millstream.runtime.admin.migrated_application import (
    Migrated,
    NewCheckpoint,
    Rebuilt,
    former_checkpoints,
    keeping,
    rebuilt,
)
from millstream.runtime.admin.steps import delete_local, own_topics
from millstream.runtime.batches.batch_end import BatchEnd
from millstream.runtime.program.program import Program
from millstream.runtime.real_time.comparison import compare_workers, worker_topology
from millstream.runtime.real_time.input_partitioning import existing_counts, with_repartitions
from millstream.runtime.real_time.start import MODE, changelog_config
from millstream.runtime.real_time.task import specs_of
from millstream.runtime.real_time.task_record import CONFIG, KEY, TaskRecord, encode, last_record, topic_of
from millstream.runtime.start.application_state import ApplicationState
from millstream.runtime.start.checkpoint import checkpoint_of
from millstream.runtime.start.compatibility import compare_with_last, plain
from millstream.runtime.start.topics import REPARTITION, input_counts
from millstream.runtime.start.view_rebuild import forget_rows
from millstream.runtime.tasks.memory import decode_cells, encode_cells, merged, task_name, with_stream_times
from millstream.stages.placement import place

_TO_WORKERS = "continue in workers, where micro-batches have stopped (execution.mode=real_time or local)"
_TO_MICRO_BATCHES = "continue in micro-batches, where workers have stopped (execution.mode=micro_batch)"


def to_workers(app: Migrated, keep: Collection[str], *, dry_run: bool) -> list[str]:
    """Migrates an application that has run in micro-batches to workers; returns the steps."""
    topology, config, log, state = app.topology, app.config, app.log, app.state
    former = Program(topology, config, app.tasks, {}, app.place)
    comparison = compare_with_last(topology, former.placement, state, log, checkpoint_of(state, config, app.directory))
    stores = rebuilt(former, log, state, keeping(comparison, keep))
    specs = {spec.name: spec for spec in topology.stores}
    check_stores(log, {topic: specs[name] for topic, name in stores.restores.items()}, app.tasks)
    obsolete = _internal_topics(log, topology.application_id)
    check_internal(log, topology.application_id, obsolete, app.published.offsets)
    workers = _workers(app, stores)
    if not dry_run:
        application = Scope(topology.application_id)
        epoch = log.applications.acquire(application)
        if log.applications.published(application) != app.published:
            raise _running(application)
        for topic in (*obsolete, *_existing(log, [topic_of(topology.application_id)])):
            log.delete_topic(topic)
        for topic, count in workers.exchanges.items():
            log.create_topic(topic, count, REPARTITION, internal=True)
        for topic, name in stores.restores.items():
            log.alter_topic(topic, changelog_config(specs[name]))
        forget_rows(workers.program, log, stores.without_rows(workers.program.topology))
        records = list(_first_records(app, former, workers))
        log.create_topic(topic_of(topology.application_id), max(1, len(records)), CONFIG, internal=True)
        _publish(app, epoch, records, _worker_facts(app, workers.program))
    steps = [_TO_WORKERS, *stores.steps, *(f"delete the internal topic {topic}" for topic in obsolete)]
    return steps + delete_local({app.directory / "workers": "local stores of workers"}, dry_run=dry_run)


class _Workers(NamedTuple):
    """An application as it will run in workers.

    Attributes:
        program: The program.
        exchanges: The number of partitions of internal topics whose readers have rows already.
        tasks: The number of tasks of each sub-topology.
    """

    program: Program
    exchanges: dict[str, int]
    tasks: dict[int, int]


def _workers(app: Migrated, stores: Rebuilt) -> _Workers:
    """Finds out how many tasks each sub-topology has in workers.

    Micro-batches have one number of tasks. So what leads to rows of micro-batches has as many partitions.

    Raises:
        SetupError: A repartition, or a topic, has another number of partitions than the rows that its records reach.
    """
    topology, config, log = app.topology, app.config, app.log
    kept = set(stores.restores.values())
    inputs = input_counts(topology, log)
    internal = {topic.name for topic in log.topics() if topic.internal} - stores.restores.keys()
    counts = inputs | {t: count for t, count in existing_counts(topology, log).items() if t not in internal}
    topology, added, _messages = with_repartitions(topology, config["input.partitioning"], counts, None)
    program = Program(topology, config, app.tasks, {}, app.place, shuffle=False)
    exchanges = dict(added)
    parts = [part for part in program.placement.tasks if part.parts]
    for part in parts:
        if kept & {spec.name for spec in specs_of(part)}:
            sources = [source for source in part.parts[0].sources if isinstance(source, Repartition)]
            exchanges |= {topology.topic_of(source): source.partitions or app.tasks for source in sources}
    partitions = topology.partitions(counts | exchanges)
    tasks = replace(topology, parts=tuple(part.parts[0] for part in parts)).task_counts(partitions)
    for part in parts:
        count = tasks[part.parts[0].index]
        for name in sorted(kept & {spec.name for spec in specs_of(part)}):
            if count != app.tasks:
                raise SetupError(
                    f"store {name!r} has rows in {app.tasks} partitions, and its inputs have {count}",
                    hint="nothing was changed; leave partitions=… of the repartition out, or give it that number; or "
                    "set input.partitioning=repartition",
                )
    return _Workers(program, exchanges, tasks)


def _first_records(app: Migrated, former: Program, workers: _Workers) -> Iterable[TaskRecord]:
    """Yields the records with which tasks begin. The start leaves out the inputs that a task does not read."""
    state, placement = app.state, workers.program.placement
    known = {topic.name for topic in app.log.topics() if not topic.internal}
    tables = {table.topic for table in app.topology.global_tables}
    offsets = {place: offset for place, offset in app.published.offsets.items() if place[0] in known - tables}
    times = [entry for entry in times_of(state.bounds or {}) if entry[:2] in offsets]
    for part in (part for part in placement.tasks if part.parts):
        for number in range(workers.tasks[part.parts[0].index]):
            stored = state.cells.get(number, b"") if state.stateful is not False else b""
            cells = decode_cells(stored) if stored else {}
            yield TaskRecord(
                task_name(part),
                number,
                [(*place, offset) for place, offset in offsets.items() if place[1] == number],
                times=[entry for entry in times if entry[1] == number],
                cells=with_stream_times(cells, former.placement.tasks, placement.tasks),
            )


def _worker_facts(app: Migrated, program: Program) -> ApplicationState:
    offsets = {} if app.state.start is None else dict(app.state.start.offsets)
    inputs = {topic.name for topic in app.log.topics() if not topic.internal}
    return ApplicationState(
        mode=MODE,
        published_plan=plain(program.topology),
        started_plan=plain(program.topology),
        complete_changelogs=sorted(program.logged),
        start=BatchEnd(offsets={topic: row for topic, row in offsets.items() if topic in inputs}),
        restores={},
        waiting=0,
        bounds={},
        held={},
        checkpoint_identity=secrets.token_hex(8),  # local stores of another identity are not used
        former_checkpoints=former_checkpoints(app),
    )


def _publish(app: Migrated, epoch: int, records: Iterable[TaskRecord], facts: ApplicationState) -> None:
    """Publishes task records, and the facts that make them valid."""
    application, number = app.topology.application_id, app.published.batch + 1
    blocks = [ColumnBlock([0], [KEY], [encode(record, (epoch, number))]) for record in records]
    app.log.applications.publish(
        Publication(
            scope=Scope(application),
            epoch=epoch,
            batch=number,
            appends=[Append(topic_of(application), slot, block) for slot, block in enumerate(blocks)],
            state=facts.dump(),
        )
    )


def to_micro_batches(app: Migrated, keep: Collection[str], *, dry_run: bool) -> list[str]:
    """Migrates an application that has run in workers to micro-batches; returns the steps."""
    topology, config, log, state = app.topology, app.config, app.log, app.state
    application = topology.application_id
    records = _records(log, application)
    offsets = offsets_of(log, application, records)
    obsolete = _internal_topics(log, application)
    check_internal(log, application, obsolete, offsets)
    comparison = compare_workers(topology, config, state, log, checkpoint_of(state, config, app.directory))
    program = Program(topology, config, app.tasks, {}, app.place)
    stores = rebuilt(program, log, state, keeping(comparison, keep))
    specs = {spec.name: spec for spec in topology.stores}
    tasks = _tasks(app, stores)
    check_stores(log, {topic: specs[name] for topic, name in stores.restores.items()}, tasks)
    workers = worker_topology(topology, config, state, log)
    new = NewCheckpoint(app, program, stores)
    if not dry_run:
        epoch = log.applications.acquire(Scope(application))
        if _records(log, application) != records:
            raise _running(Scope(application))
        former = place(workers, shuffle=False).tasks
        cells = {
            number: encode_cells([with_stream_times(own, former, program.placement.tasks)])
            for number in range(tasks)
            if (own := merged(record.cells for record in records if record.partition == number))
        }
        inputs = {key: offset for key, offset in offsets.items() if key[0] not in obsolete}
        facts = new.facts(inputs, {number: cells.get(number, b"") for number in range(tasks)})
        assert facts.start is not None
        # Internal topics are new: they are read from their first record.
        begins = {topic: [] if topic in obsolete else row for topic, row in facts.start.offsets.items()}
        facts = msgspec.structs.replace(
            facts,
            mode="micro_batch",
            tasks=tasks,
            start=msgspec.structs.replace(facts.start, offsets=begins),
            waiting=0,
            held={},
            bounds=bounds_of(records, inputs),
            cells=cells,
            checkpoint_identity=secrets.token_hex(8),
        )
        for topic in obsolete:
            log.delete_topic(topic)
        (app.directory / "identity").unlink(missing_ok=True)
        log.applications.set_state(Scope(application), facts.dump(), epoch)
        log.delete_topic(topic_of(application))
        former_program = Program(workers, config, tasks, {}, app.place, shuffle=False)
        forget_rows(former_program, log, stores.without_rows(workers))
    steps = [_TO_MICRO_BATCHES, *new.steps, *(f"delete the internal topic {topic}" for topic in obsolete)]
    return steps + delete_local({app.directory / "workers": "local stores of workers"}, dry_run=dry_run)


def _tasks(app: Migrated, stores: Rebuilt) -> int:
    """The number of tasks in micro-batches: that of the partitions that have rows.

    Raises:
        SetupError: Stores have different numbers of partitions, or not the one that is configured.
    """
    counts = {name: app.log.topic(topic).partitions for topic, name in stores.restores.items()}
    configured: int | None = app.config["num.tasks"]
    wanted = configured or next(iter(counts.values()), app.tasks)
    for name, count in counts.items():
        if count != wanted:
            others = "num.tasks is" if configured is not None else "other stores have"
            raise SetupError(
                f"store {name!r} has rows in {count} partitions, and {others} {wanted}: micro-batches have one number "
                "of tasks",
                hint="nothing was changed; let stores with another number begin empty, under another name",
            )
    return wanted


def _running(application: Scope) -> AlreadyRunningError:
    return AlreadyRunningError(
        f"application {application.application!r} is running elsewhere: it has just published", hint="stop it first"
    )


def _records(log: Log, application: str) -> list[TaskRecord]:
    slots = range(log.topic(topic_of(application)).partitions)
    return [record for slot in slots if (record := last_record(log, application, slot)) is not None]


def _internal_topics(log: Log, application: str) -> list[str]:
    """The repartition topics of an application."""
    return [topic for topic in own_topics(log, application) if topic.endswith("-repartition")]


def _existing(log: Log, topics: Iterable[str]) -> list[str]:
    existing = {topic.name for topic in log.topics()}
    return [topic for topic in topics if topic in existing]
