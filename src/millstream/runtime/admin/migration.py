"""Migrates the state of an application that is not running to another topology, or to another execution mode."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection

from millstream.config import Config
from millstream.errors import SetupError
from millstream.log import Scope
from millstream.log.opening import log_location, open_location
from millstream.plan.side import BEGIN_AGAIN
from millstream.runtime.admin.migrated_application import Migrated, NewCheckpoint, keeping, rebuilt
from millstream.runtime.admin.mode_change import to_micro_batches, to_workers
from millstream.runtime.admin.steps import as_done, delete_local
from millstream.runtime.definition import ApplicationDefinition
from millstream.runtime.program.program import Program
from millstream.runtime.real_time.comparison import compare_workers, worker_topology
from millstream.runtime.start.application_state import ApplicationState, read_state
from millstream.runtime.start.checkpoint import checkpoint_of
from millstream.runtime.start.compatibility import compare_with_last, plain
from millstream.runtime.start.instance_lock import directory_of, lock_application
from millstream.runtime.start.schemas import with_recorded_schemas
from millstream.runtime.start.view_rebuild import forget_rows


def migrate(app: ApplicationDefinition, *, keep: Collection[str] = (), dry_run: bool = False) -> list[str]:
    """Gives an application a new checkpoint, in which its named stores are rebuilt from their changelogs.

    The application continues at its committed offsets. Global tables are read again. Unnamed stores begin empty: they
    have no changelog. A migration is needed if unnamed stores of the topology have changed, if it needs state for the
    first time or not any more, or if the checkpoint is lost.

    An application that has run in workers (real-time or local execution) has no checkpoint, and all of its stores have
    changelogs. Its migration discards the local stores of the workers, and those stores begin empty that the topology
    has changed.

    If ``execution.mode`` is configured, and the application has run in the other form (micro-batches, or workers), the
    migration changes the form: named stores are rebuilt from their changelogs, input topics are read on where the other
    mode has stopped, and unnamed stores begin empty.

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
        SetupError: There is no such application; tasks hold records that they have not processed; the location of the
            checkpoint is in use and on another machine (``hdfs://…``); or a named store cannot be carried to the other
            mode: a versioned one, or one whose rows are not in the partitions of their keys.
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
        if state.waiting:
            raise SetupError(
                f"application {application!r} was stopped while its tasks held {state.waiting} records that wait "
                "for other inputs",
                hint="run the former topology until it has caught up: app.run(until_caught_up=True); or, if the "
                f"checkpoint is lost, {BEGIN_AGAIN}",
            )
        topology = with_recorded_schemas(topology, state, register=False)
        migrated = Migrated(topology, config, place, directory, log, state, published)
        steps = _migration_of(config, state)(migrated, keep, dry_run=dry_run)
    return steps if dry_run else as_done(steps)


def _migration_of(config: Config, state: ApplicationState) -> Callable[..., list[str]]:
    """The migration that an application needs. Without a configured mode, it stays in that in which it has run."""
    ran = state.mode or "micro_batch"
    is_worker = config.explicit.get("execution.mode", ran) != "micro_batch"
    if ran == "micro_batch":
        return to_workers if is_worker else _migrate_checkpoint
    return _migrate_workers if is_worker else to_micro_batches


def _migrate_workers(app: Migrated, keep: Collection[str], *, dry_run: bool) -> list[str]:
    """Migrates an application that has run in workers; returns the steps."""
    config, log, state = app.config, app.log, app.state
    topology = worker_topology(app.topology, config, state, log)
    program = Program(topology, config, app.tasks, {}, app.place, shuffle=False)
    comparison = compare_workers(app.topology, config, state, log, checkpoint_of(state, config, app.directory))
    stores = rebuilt(program, log, state, keeping(comparison, keep))
    if not dry_run:
        application = Scope(topology.application_id)
        facts = ApplicationState(
            published_plan=plain(topology),
            started_plan=plain(topology),
            complete_changelogs=sorted(program.logged),
            checkpoint_identity=secrets.token_hex(8),  # local stores of another identity are not used
        )
        log.applications.set_state(application, facts.dump(), log.applications.acquire(application))
        forget_rows(program, log, stores.without_rows(topology))
    return stores.steps + delete_local({app.directory / "workers": "local stores of workers"}, dry_run=dry_run)


def _migrate_checkpoint(app: Migrated, keep: Collection[str], *, dry_run: bool) -> list[str]:
    """Migrates an application that has run in micro-batches; returns the steps."""
    topology, config, log, state = app.topology, app.config, app.log, app.state
    program = Program(topology, config, app.tasks, {}, app.place)
    last = checkpoint_of(state, config, app.directory)
    comparison = compare_with_last(topology, program.placement, state, log, last)
    stores = rebuilt(program, log, state, keeping(comparison, keep))
    new = NewCheckpoint(app, program, stores)
    if not dry_run:
        # Cells that tasks recorded before the application had no tasks are outdated.
        cells = state.cells if state.stateful is not False else {}
        facts = new.facts(app.published.offsets, {task: cells.get(task, b"") for task in range(app.tasks)})
        application = Scope(topology.application_id)
        log.applications.set_state(application, facts.dump(), log.applications.acquire(application))
        forget_rows(program, log, stores.without_rows(topology))
    return new.steps
