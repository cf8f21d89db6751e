"""Migrates the state of an application that is not running to another topology, or to another execution mode."""

from __future__ import annotations

import secrets
from collections.abc import Collection

import msgspec

from millstream.config import Config
from millstream.errors import SetupError
from millstream.log import Scope
from millstream.log.opening import log_location, open_location
from millstream.plan.side import BEGIN_AGAIN
from millstream.runtime.admin.migrated import Migrated, keeping, rebuilt, restoring_start
from millstream.runtime.admin.steps import as_done, delete_local
from millstream.runtime.definition import ApplicationDefinition
from millstream.runtime.program.program import Program
from millstream.runtime.real_time.comparison import compare_workers, worker_topology
from millstream.runtime.start.application_state import ApplicationState, read_state
from millstream.runtime.start.checkpoint import all_checkpoints, checkpoint_of, new_checkpoint, recorded
from millstream.runtime.start.compatibility import compare_with_last, facts_of, plain
from millstream.runtime.start.instance_lock import directory_of, lock_application
from millstream.runtime.start.view_rebuild import forget_rows


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
        steps = migrates(Migrated(topology, config, place, directory, log, state, published), keep, dry_run=dry_run)
    return steps if dry_run else as_done(steps)


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


def _migrate_workers(app: Migrated, keep: Collection[str], *, dry_run: bool) -> list[str]:
    """Migrates an application that has run in workers; returns the steps."""
    config, log, state = app.config, app.log, app.state
    topology = worker_topology(app.topology, config, state, log)
    program = Program(topology, config, app.tasks, {}, app.place, shuffle=False)
    comparison = compare_workers(app.topology, config, state, log, checkpoint_of(state, config, app.directory))
    restores, empty, added, lost = rebuilt(program, log, state, keeping(comparison, keep))
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
    return steps + delete_local({app.directory / "workers": "local stores of workers"}, dry_run=dry_run)


def _migrate_checkpoint(app: Migrated, keep: Collection[str], *, dry_run: bool) -> list[str]:
    """Migrates an application that has run in micro-batches; returns the steps."""
    topology, config, place, directory, log, state, published = app
    program = Program(topology, config, app.tasks, {}, place)
    last = checkpoint_of(state, config, directory)
    comparison = compare_with_last(topology, program.placement, state, log, last)
    restores, empty, added, lost = rebuilt(program, log, state, keeping(comparison, keep))
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
            start=restoring_start(log, state, published.offsets, sorted(restores), tables),
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
