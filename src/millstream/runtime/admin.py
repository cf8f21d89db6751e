"""Administration of an application that is not running: reset it, or migrate its state to another topology."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from millstream.config import Config
from millstream.core.names import check_name
from millstream.errors import AlreadyRunningError, IncompatibleTopologyError, SetupError, suggestion
from millstream.log import Log, Offsets, Scope
from millstream.log.api import Published
from millstream.log.opening import LogLocation, log_location, open_location
from millstream.plan.compare import Comparison
from millstream.plan.side import BEGIN_AGAIN
from millstream.plan.sources import ToTable
from millstream.runtime.batches.batch_end import BatchEnd
from millstream.runtime.definition import ApplicationDefinition
from millstream.runtime.program.program import Program
from millstream.runtime.real_time.comparison import compare_workers, worker_topology
from millstream.runtime.start.application_state import ApplicationState, ResetPosition, read_state
from millstream.runtime.start.checkpoint import all_checkpoints, checkpoint_of, local_path, new_checkpoint, recorded
from millstream.runtime.start.compatibility import compare_with_last, complete_changelogs, facts_of, plain
from millstream.runtime.start.instance_lock import directory_of, lock_application
from millstream.runtime.start.view_rebuild import forget_rows
from millstream.stages import Topology

Position = Literal["earliest", "latest"] | int

_LOOK_SECONDS = 3.0
_AS_DONE = {
    "delete ": "deleted ",
    "leave ": "left ",
    "shut out ": "shut out ",
    "give up ": "gave up ",
    "begin to read ": "the next start begins to read ",
    "begin with ": "the next start begins with ",
    "begin a new checkpoint ": "the next start begins a new checkpoint ",
    "rebuild ": "the next start rebuilds ",
    "read global table ": "the next start reads global table ",
}
"""The beginning of each step as it is planned, and as it is reported once it is done."""


def reset(
    application_id: str,
    *,
    to: Position = "earliest",
    to_offset: int | None = None,
    state_dir: str | None = None,
    config: Mapping[str, Any] | None = None,
    checkpoint_gone: bool = False,
    dry_run: bool = False,
) -> list[str]:
    """Deletes the state of an application: stores, internal topics, views, committed offsets and checkpoint.

    Input and output topics are not changed. The next start is a first start.

    An instance on another machine is noticed only if it publishes: on a cluster, the reset waits three seconds for
    that. An idle instance is not noticed. It is fenced, and stops at its next batch without having written anything.

    Args:
        application_id: The application.
        to: Position at which it starts to read its input: the ``earliest`` record, the ``latest``, or the first record
            of a time in milliseconds.
        to_offset: Or this offset in each partition, limited to the offsets that exist.
        state_dir: The data directory; default: ``.millstream``.
        config: The settings of the application that locate its log: ``bootstrap.servers``, ….
        checkpoint_gone: A checkpoint outside of this machine (``hdfs://…``) was deleted, or the application has another
            ``checkpoint.location`` from now on. It would continue with an old checkpoint.
        dry_run: Return the steps without doing them.

    Returns:
        The steps that were, or would be, done: one sentence each.

    Raises:
        AlreadyRunningError: An instance of the application is running, with this data directory or elsewhere.
        SetupError: There is no such application, or its checkpoint has to be deleted by hand.
    """
    check_name(application_id, "application")
    if not (to in {"earliest", "latest"} or (type(to) is int and to >= 0)):
        raise SetupError(f"reset: cannot begin at {to!r}", hint="'earliest', 'latest' or a time in milliseconds")
    if to_offset is not None and (type(to_offset) is not int or to_offset < 0):
        raise SetupError(f"reset: cannot begin at offset {to_offset!r}", hint="the first record has offset 0")
    place = log_location(config or {}, state_dir)
    directory = directory_of(place, application_id)
    steps = []
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open_location(place, create=False))
        if not log.applications.state(Scope(application_id)) and not directory.exists():
            raise SetupError(f"there is no application {application_id!r} in {place}")
        stack.enter_context(lock_application(directory, application_id))
        state = read_state(log, application_id)
        checkpoints = [local_path(location) or location for location in all_checkpoints(state, directory)]
        elsewhere = [location for location in checkpoints if isinstance(location, str)]
        if elsewhere and not checkpoint_gone:
            raise SetupError(
                f"the checkpoint of application {application_id!r} cannot be deleted from here: {elsewhere[0]}",
                hint="nothing was changed; delete it with the tool of that storage (hdfs dfs -rm -r, aws s3 rm "
                "--recursive, …), or set another checkpoint.location; then reset with checkpoint_gone=True "
                "(--checkpoint-gone)",
            )
        if not dry_run:
            _shut_out(log, application_id, place)
        for topic in _own_topics(log, application_id):
            steps.append(f"delete the internal topic {topic}")
            if not dry_run:
                log.delete_topic(topic)
        steps += _forgotten(application_id, place)
        steps += [f"leave the checkpoint {location}, which should be gone" for location in elsewhere]
        local = {path: "checkpoint" for path in checkpoints if isinstance(path, Path)}
        local[directory / "workers"] = "local stores of workers"
        steps += _delete_local(local, dry_run=dry_run)
        begin: ResetPosition = {"offset": to_offset} if to_offset is not None else to
        where = f"offset {to_offset}" if to_offset is not None else f"the {to}" if isinstance(to, str) else f"time {to}"
        steps.append(f"begin to read at {where}")
        if not dry_run:
            (directory / "identity").unlink(missing_ok=True)
            log.applications.delete(application_id)
            epoch = log.applications.acquire(Scope(application_id))
            log.applications.set_state(Scope(application_id), ApplicationState(reset_to=begin).dump(), epoch)
    return steps if dry_run else _as_done(steps)


def _delete_local(paths: Mapping[Path, str], *, dry_run: bool) -> list[str]:
    """Deletes directories of this machine, if they exist; returns the steps.

    Args:
        paths: The content of each directory.
        dry_run: Delete nothing.
    """
    existing = {path: content for path, content in paths.items() if path.exists()}
    if not dry_run:
        for path in existing:
            shutil.rmtree(path)
    return [f"delete the {content} {path}" for path, content in existing.items()]


def _as_done(steps: list[str]) -> list[str]:
    """Rewrites planned steps as done; steps that only the next start does are named as such."""
    prefixes = [next(prefix for prefix in _AS_DONE if step.startswith(prefix)) for step in steps]
    return [_AS_DONE[prefix] + step.removeprefix(prefix) for prefix, step in zip(prefixes, steps, strict=True)]


def _own_topics(log: Log, application: str) -> list[str]:
    """The internal topics of an application, without those of applications whose id has its id as a prefix."""
    begin = f"{application}-"
    others = [
        group
        for group in log.groups()
        if group.startswith(begin) and log.applications.published(Scope(group)) is not None
    ]
    return [
        topic.name
        for topic in log.topics()
        if topic.internal
        and topic.name.startswith(begin)
        and topic.name.endswith(("-repartition", "-changelog", "-progress.tasks"))
        and not topic.name.startswith(tuple(f"{other}-" for other in others))
    ]


def _forgotten(application: str, place: LogLocation) -> list[str]:
    """Steps of a reset beside internal topics and checkpoint."""
    if place.cluster is None:
        return ["delete its views, its committed offsets and what the log knows of it"]
    return [
        f"delete its journal, the topic {application}-progress, and its committed offsets",
        f"delete its views in {place.views}",
        "shut out an instance of it that runs on another machine, if there is one: it stops",
    ]


def _shut_out(log: Log, application: str, place: LogLocation) -> None:
    """Fences other instances. The lock of another machine is not visible here, but its publications are."""
    if place.cluster is None:
        log.applications.acquire(Scope(application))
        return
    before = log.applications.published(Scope(application))
    time.sleep(_LOOK_SECONDS)
    after = log.applications.published(Scope(application))
    if after is not None and after != before:
        raise AlreadyRunningError(
            f"application {application!r} is running elsewhere: it has just published batch {after.batch}",
            hint="stop that instance first",
        )
    log.applications.acquire(Scope(application))


def migrate(app: ApplicationDefinition, *, keep: Collection[str] = (), dry_run: bool = False) -> list[str]:
    """Gives an application a new checkpoint, in which its named stores are rebuilt from their changelogs.

    The application continues at its committed offsets. Global tables are read again. Unnamed stores begin empty: they
    have no changelog. A migration is needed if unnamed stores of the topology have changed, if it needs state for the
    first time or not any more, or if the checkpoint is lost.

    An application that has run in workers (real-time or local execution) has no checkpoint, and all of its stores have
    changelogs. Its migration discards the local stores of the workers, and those stores begin empty that the topology
    has changed. No migration leads from one form of state to the other.

    Args:
        app: The application, with its new topology.
        keep: Named stores whose rows are kept unchanged although the new topology would compute others, because of
            another grace or another expression.
        dry_run: Return the steps without doing them.

    Returns:
        The steps that were, or would be, done: one sentence each.

    Raises:
        AlreadyRunningError: An instance of the application is running.
        IncompatibleTopologyError: A named store cannot be kept.
        SetupError: There is no such application; it is configured for the other form of state; tasks hold records that
            they have not processed; or the location of the checkpoint is in use and on another machine
            (``hdfs://…``).
    """
    topology, config = app.topology(), app.config
    application = topology.application_id
    place = log_location(config)
    directory = directory_of(place, application)
    with open_location(place, create=False) as log, lock_application(directory, application):
        state, published = read_state(log, application), log.applications.published(Scope(application))
        if published is None or state.tasks is None:
            raise SetupError(
                f"application {application!r} has nothing to migrate in {place}: it has published nothing yet",
                hint="just start it; or, if its topology has changed since it was first started: millstream reset",
            )
        _check_mode(application, config, state)
        if state.waiting:
            raise SetupError(
                f"application {application!r} was stopped while its tasks held {state.waiting} records that wait "
                "for other inputs",
                hint="run the former topology until it has caught up: app.run(until_caught_up=True); or, if the "
                f"checkpoint is lost, {BEGIN_AGAIN}",
            )
        migrates = _migrate_workers if state.mode == "real_time" else _migrate_checkpoint
        steps = migrates(_Migrated(topology, config, place, directory, log, state, published), keep, dry_run=dry_run)
    return steps if dry_run else _as_done(steps)


def _check_mode(application: str, config: Config, state: ApplicationState) -> None:
    """Raises an error if an application is configured for another form of state than the one it has."""
    wanted = config.explicit.get("execution.mode")
    ran = state.mode or "micro_batch"
    if wanted is not None and (wanted == "micro_batch") != (ran == "micro_batch"):
        raise SetupError(
            f"application {application!r} has run with execution.mode={ran}, and the state of {wanted} has another "
            "form: it cannot be migrated",
            hint=f"nothing was changed; to run it with execution.mode={wanted}, {BEGIN_AGAIN}",
        )


class _Migrated(NamedTuple):
    """An application to migrate: its new topology, and what is recorded of it."""

    topology: Topology
    config: Config
    place: LogLocation
    directory: Path
    log: Log
    state: ApplicationState
    published: Published

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        assert self.state.tasks is not None
        return self.state.tasks


def _migrate_workers(app: _Migrated, keep: Collection[str], *, dry_run: bool) -> list[str]:
    """Migrates an application that has run in workers; returns the steps."""
    config, log, state = app.config, app.log, app.state
    topology = worker_topology(app.topology, config, state, log)
    program = Program(topology, config, app.tasks, {}, app.place, shuffle=False)
    comparison = compare_workers(app.topology, config, state, log, checkpoint_of(state, config, app.directory))
    restores, empty, added, lost = _rebuilt(program, log, state, _keeping(comparison, keep))
    steps = [f"rebuild store {name} from {topic}" for topic, name in restores.items()]
    steps += [f"begin with an empty store {name}" for name in empty]
    steps += [f"give up store {name}, which the topology has no more" for name in lost]
    if not dry_run:
        application = Scope(topology.application_id)
        facts = ApplicationState(
            published_plan=plain(topology),
            started_plan=plain(topology),
            complete_changelogs=sorted(program.logged),
            checkpoint_identity=secrets.token_hex(8),  # local stores of another identity are not used
        )
        log.applications.set_state(application, facts.dump(), log.applications.acquire(application))
        forget_rows(program, log, [spec for spec in topology.stores if spec.name in {*empty, *added}])
    return steps + _delete_local({app.directory / "workers": "local stores of workers"}, dry_run=dry_run)


def _migrate_checkpoint(app: _Migrated, keep: Collection[str], *, dry_run: bool) -> list[str]:
    """Migrates an application that has run in micro-batches; returns the steps."""
    topology, config, place, directory, log, state, published = app
    program = Program(topology, config, app.tasks, {}, place)
    last = checkpoint_of(state, config, directory)
    comparison = compare_with_last(topology, program.placement, state, log, last)
    restores, empty, added, lost = _rebuilt(program, log, state, _keeping(comparison, keep))
    tables = {table.topic: table.store.name for table in topology.global_tables}
    number = published.batch + 1
    checkpoint = new_checkpoint(state, config, directory, number)
    steps = [f"rebuild store {name} from {topic}" for topic, name in restores.items()]
    steps += [f"read global table {name} again from {topic}" for topic, name in tables.items()]
    steps += [f"begin with an empty store {name}" for name in empty]
    steps += [f"give up store {name}, which the topology has no more" for name in lost]
    steps.append(f"begin a new checkpoint {checkpoint}")
    if not dry_run:
        # Cells that tasks recorded before the application had no tasks are outdated.
        cells = state.cells if state.stateful is not False else {}
        beside = place.cluster is None
        # A store that is not rebuilt begins empty, and so does its changelog.
        facts = msgspec.structs.replace(
            facts_of(topology, program.logged),
            start=_restoring_start(log, state, published.offsets, sorted(restores), tables),
            restores=restores,
            base_batch=number,
            checkpoint_location=recorded(checkpoint, directory, goes_along=beside),
            former_checkpoints=[
                recorded(former, directory, goes_along=beside) for former in all_checkpoints(state, directory)
            ],
            started_plan=plain(topology),
            restored_cells={task: cells.get(task, b"") for task in range(app.tasks)},
        )
        application = Scope(topology.application_id)
        log.applications.set_state(application, facts.dump(), log.applications.acquire(application))
        forget_rows(program, log, [spec for spec in topology.stores if spec.name in {*empty, *added}])
    return steps


class _Rebuilt(NamedTuple):
    """The stores of a migration.

    Attributes:
        restores: Stores that are rebuilt, by changelog topic.
        empty: Stores that exist and begin empty.
        added: New stores.
        lost: Stores that the topology does not have any more.
    """

    restores: dict[str, str]
    empty: list[str]
    added: list[str]
    lost: list[str]


def _rebuilt(program: Program, log: Log, state: ApplicationState, comparison: Comparison) -> _Rebuilt:
    topology = program.topology
    specs = {spec.name: spec for node in topology.plan.nodes for spec in node.stores}
    named = [change for change in comparison.stores if change.name in specs and specs[change.name].named]
    for change in (*named, *comparison.topics):
        if change.status == "incompatible":
            raise IncompatibleTopologyError(
                f"{change.name} (of {change.operator}): {'; '.join(change.reasons)}", hint=change.remedy
            )
    for table in topology.plan.of_type(ToTable):
        is_logged = program.changelog_of(table.store) is not None
        if table.reuse_source and not is_logged and table.store.name in comparison.names("kept"):
            raise SetupError(
                f"store {table.store.name!r} ({table.at}) cannot be rebuilt: it has no changelog, because its topic is "
                "one (topology.optimization)",
                hint=f"nothing was changed; {BEGIN_AGAIN}",
            )
    topics = {topic.name for topic in log.topics()}
    tables = {table.store.name for table in topology.global_tables}
    kept = {name: program.changelog_of(specs[name]) for name in comparison.names("kept") if name not in tables}
    restores = {topic: name for name, topic in kept.items() if topic is not None and topic in topics}
    whole = complete_changelogs(kept, state)
    for name in (name for name in restores.values() if name not in whole):
        raise SetupError(
            f"store {name!r} cannot be rebuilt: its changelog lacks the changes of the time when it was switched off",
            hint=f'nothing was changed; let it begin empty, under another name (store="{name}-v2"); or {BEGIN_AGAIN}',
        )
    empty = [name for name in (*kept, *comparison.names("incompatible")) if name not in restores.values()]
    return _Rebuilt(restores, empty, comparison.names("added"), comparison.names("lost"))


def _keeping(comparison: Comparison, keep: Collection[str]) -> Comparison:
    """Marks the stores in *keep* as kept, although their rows have another meaning now."""
    stores = {change.name: change for change in comparison.stores}
    for name in keep:
        if name not in stores:
            hint = suggestion(name, stores) or f"the stores are: {', '.join(sorted(stores)) or 'none'}"
            raise SetupError(f"there is no store {name!r} to keep", hint=hint)
        change = stores[name]
        if change.status == "incompatible" and not change.keepable:
            raise IncompatibleTopologyError(
                f"the rows of {name} (of {change.operator}) cannot be kept: {'; '.join(change.reasons)}",
                hint=change.remedy,
            )
        if change.status == "incompatible":
            stores[name] = replace(change, status="kept", reasons=(), notes=change.reasons, remedy="")
    return replace(comparison, stores=tuple(stores.values()))


def _restoring_start(
    log: Log, state: ApplicationState, read: Offsets, changelogs: list[str], unread: Collection[str]
) -> BatchEnd:
    """Start positions of an application that first rebuilds its stores, then continues at its committed offsets.

    Topics in *unread* are read again.
    """
    assert state.start is not None
    offsets = {topic: list(row) for topic, row in state.start.offsets.items()}
    topics = {topic.name for topic in log.topics()}
    for (topic, partition), offset in read.items():
        if topic in topics:
            row = offsets.setdefault(topic, [])
            row += [0] * (partition + 1 - len(row))
            row[partition] = offset
    offsets |= log.starts(changelogs)
    kept = {topic: row for topic, row in offsets.items() if topic not in unread}
    return BatchEnd(offsets=kept, global_ends=log.ends(changelogs))
