"""Prepares an application to run: lock, epoch, compatibility with its last run, topics, views and start positions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from millstream.config import Config
from millstream.connect import Connector
from millstream.core.failpoints import declare, reach
from millstream.errors import BrokerError, IncompatibleTopologyError, SetupError
from millstream.log.api import Log, Offsets, Scope
from millstream.log.opening import log_location, open_location
from millstream.plan.side import BEGIN_AGAIN
from millstream.runtime.batches.batch_end import BatchEnd
from millstream.runtime.batches.subscription import Subscription
from millstream.runtime.clock import SYSTEM_CLOCK, Clock
from millstream.runtime.program.program import Program
from millstream.runtime.queries import queryable
from millstream.runtime.start.application_state import ApplicationState, read_state
from millstream.runtime.start.checkpoint import checkpoint_of, last_batch, local_path, recorded
from millstream.runtime.start.checkpoint_identity import check_identity
from millstream.runtime.start.compatibility import compare_with_last, complete_changelogs, is_stateful, plain, same_plan
from millstream.runtime.start.instance_lock import directory_of, lock_application
from millstream.runtime.start.schemas import with_recorded_schemas
from millstream.runtime.start.start_positions import StartPositions
from millstream.runtime.start.topics import create_source_topics, create_topics, input_counts
from millstream.runtime.start.view_rebuild import forget_rows, rebuild_views
from millstream.stages import Topology

T = TypeVar("T")

MOST_TASKS = 48
"""Greatest default number of tasks: each costs some milliseconds in every batch that has records for it. 48 is
divisible by 2, 3, 4, 6, 8, 12, 16 and 24 cores."""

_PAUSE = 0.5

LOCKED = declare("start.locked")
ACQUIRED = declare("start.acquired")
CREATED = declare("start.topics-created")
RECORDED = declare("start.recorded")


class PreparedApplication:
    """An application that holds its lock and its epoch, and whose start positions are recorded. It must be closed.

    Args:
        topology: The topology as it runs; it carries the application id.
        config: The configuration.
        clock: The clock of the runtime.
        log: A log that it shares with other applications, and does not close; None: it opens its own.
        connectors: The connectors that run beside the topology.

    Attributes:
        id: The application id.
        program: The program of the application.
        place: Location of its log.
        log: The log.
        epoch: Epoch of this instance. The log rejects publications of an older one.
        first: Start positions: the end of an imaginary batch before the first one.
        subscription: The topics that it reads.
        directory: Its own directory in the data directory.
        checkpoint: Path or URL of its checkpoint.
        base: Number of batches published before the checkpoint was made.
        lost: Stores that the topology does not have any more; their rows are lost.

    Raises:
        AlreadyRunningError: Another instance holds the lock.
        IncompatibleTopologyError: The topology cannot continue with the state of the application.
        SetupError: The checkpoint and the log do not belong together, or a topic is missing.
    """

    mode = "micro_batch"
    """The form of the state of the application."""

    def __init__(
        self,
        topology: Topology,
        config: Config,
        *,
        clock: Clock = SYSTEM_CLOCK,
        log: Log | None = None,
        connectors: Sequence[Connector] = (),
    ) -> None:
        self.id = topology.application_id
        self.connectors = connectors
        self.place = log_location(config)
        self._shares_log = log is not None
        self.log: Log = log or open_location(self.place)
        self.directory = directory_of(self.place, self.id)
        self._clock = clock
        self._lock = lock_application(self.directory, self.id)
        try:
            reach(LOCKED)
            self.retry_while_unavailable(lambda: create_source_topics(connectors, self.log))
            self.retry_while_unavailable(lambda: self._prepare(topology, config))
        except BaseException:
            self.close()
            raise

    def retry_while_unavailable(self, step: Callable[[], T]) -> T:
        """Runs an idempotent step of the start once the broker answers, and again if the broker fails meanwhile."""
        failed: float | None = None
        while True:
            self.log.connect(self.place.patience, tell)
            try:
                return step()
            except BrokerError as error:
                now = self._clock.monotonic()
                failed = failed or now
                if not error.may_pass or now - failed > self.place.patience:
                    raise
                tell(f"{error.message}: trying again")
                self._clock.sleep(_PAUSE)

    def committed_offsets(self) -> Offsets:
        """The offsets from which on the application reads its topics, as the last publication has them."""
        published = self.log.applications.published(Scope(self.id))
        return {} if published is None else published.offsets

    def close(self) -> None:
        """Closes the log and releases the lock."""
        if not self._shares_log:
            self.log.close()
        self._lock.close()

    def positions(self) -> Offsets:
        """The offsets at which the application starts to read partitions that it has never read."""
        first = self.first.offsets
        return {(t, part): offset for t in self.subscription.topics for part, offset in enumerate(first.get(t, []))}

    @property
    def local_checkpoint(self) -> Path:
        """Directory of the checkpoint, which must be on this machine."""
        local = local_path(self.checkpoint)
        assert local is not None
        return local

    def started_batch(self) -> BatchEnd | None:
        """The end of the batch that the checkpoint has begun and the log has not published; None if there is none."""
        offsets = self.local_checkpoint / "offsets"
        number = last_batch(offsets)
        published = self.log.applications.published(Scope(self.id))
        if number < 0 or (published is not None and published.batch >= number + self.base):
            return None
        return BatchEnd.from_json((offsets / str(number)).read_text(encoding="utf-8").splitlines()[-1])

    def _prepare(self, topology: Topology, config: Config) -> None:
        state = self._read_state(topology)
        topology = with_recorded_schemas(topology, state, register=True)
        self.checkpoint: str = checkpoint_of(state, config, self.directory)
        if config["processing.guarantee"] == "at_most_once" and local_path(self.checkpoint) is None:
            raise SetupError(
                f"application {self.id!r} cannot be at_most_once with its checkpoint in {self.checkpoint}",
                hint="the start must read there which batch was begun, and can read local directories only: choose "
                "one as checkpoint.location (and migrate, if the application has run), or another guarantee",
            )
        self.base = state.first_batch
        counts = input_counts(topology, self.log)
        self.program = Program(
            topology,
            config,
            self._tasks(state, config, counts),
            counts,
            self.place,
            restores=_restorable(topology, state),
            cells={task: cells for task, cells in sorted(state.restored_cells.items()) if cells},
        )
        published = self.log.applications.published(Scope(self.id))
        self.lost = self._check_plan(state, config)
        identity = check_identity(self.id, state, published, self.checkpoint, self.directory)
        self.epoch = self.log.applications.acquire(Scope(self.id))
        reach(ACQUIRED)
        self.program = replace(self.program, complete_changelogs=complete_changelogs(self.program.logged, state))
        if state.published_plan is not None:
            before = state.published_plan["stores"]
            forget_rows(self.program, self.log, [spec for spec in topology.stores if spec.name not in before])
        create_topics(self.program, self.log)
        reach(CREATED)
        rebuild_views(self.program, self.log, tell, again=self._is_run_again())
        self.subscription = Subscription(self.program, self.log, self._clock)
        self.first = StartPositions(self.program, self.log, self.subscription, self.epoch, self._clock).find(state)
        has_published = published is not None and published.batch >= self.base
        started = ApplicationState(
            tasks=self.program.tasks,
            started_plan=plain(topology),
            queryable_stores=queryable(topology, config),
            start=self.first,
            stateful=None if has_published else is_stateful(topology),
            checkpoint_identity=identity,
            checkpoint_location=recorded(self.checkpoint, self.directory, goes_along=self.place.cluster is None),
            mode=self.mode,
        )
        self.log.applications.set_state(Scope(self.id), started.dump(), self.epoch)
        reach(RECORDED)

    def _read_state(self, topology: Topology) -> ApplicationState:
        """The recorded state of the application.

        Raises:
            SetupError: The topology reads nothing, or the application has run in another mode.
        """
        if not topology.plan.nodes and not self.connectors:
            raise SetupError(f"application {self.id!r} reads no topic", hint="begin with app.stream(…) or app.table(…)")
        state = read_state(self.log, self.id)
        if state.mode is not None and state.mode != self.mode:
            again = "real_time or local" if state.mode == "real_time" else state.mode  # one form of state
            raise SetupError(
                f"application {self.id!r} has run with execution.mode={state.mode}, and the state of "
                f"{self.mode} has another form",
                hint=f"start it with execution.mode={again}; or carry its named stores over: millstream migrate, with "
                f"the new execution.mode in the configuration; or {BEGIN_AGAIN}",
            )
        return state

    def _tasks(self, state: ApplicationState, config: Config, counts: dict[str, int]) -> int:
        """The number of tasks: as recorded, else as configured, else the largest partition count of the inputs."""
        configured: int | None = config["num.tasks"]
        if state.tasks is None:
            return configured or min(max(counts.values(), default=1), MOST_TASKS)
        if configured is not None and configured != state.tasks:
            raise IncompatibleTopologyError(
                f"application {self.id!r} has {state.tasks} tasks, and num.tasks is now {configured}",
                hint=f"the number is fixed at the first start: remove num.tasks; or {BEGIN_AGAIN}",
            )
        return state.tasks

    def _is_run_again(self) -> bool:
        """Whether the last published batch will be run again: the checkpoint does not contain its commit."""
        published = self.log.applications.published(Scope(self.id))
        local = local_path(self.checkpoint)
        if published is None or local is None:
            return False
        return published.batch > last_batch(local / "commits") + self.base

    def _read_offsets(self) -> Offsets | None:
        """The offsets up to which topics were read, if others than those of the last batch."""
        return None

    def _check_plan(self, state: ApplicationState, config: Config) -> list[str]:
        """Checks that the topology can continue; returns the stores that it does not have any more."""
        if state.started_plan is None:
            return []
        ran = state.published_plan
        exact = config["processing.guarantee"] == "exactly_once"
        if exact and self._is_run_again() and ran is not None and not same_plan(ran, plain(self.program.topology)):
            raise IncompatibleTopologyError(
                f"application {self.id!r} was killed right after it published a batch. The next start replays that "
                "batch, which must give the same results, and the topology has changed since",
                hint="nothing was changed; start the former topology once more, with run(until_caught_up=True), and "
                f"then this one; or {BEGIN_AGAIN}",
            )
        program = self.program
        comparison = compare_with_last(
            program.topology, program.placement, state, self.log, self.checkpoint, self._read_offsets()
        )
        if not comparison.compatible:
            raise IncompatibleTopologyError(
                f"application {self.id!r} cannot use its existing state.\n{comparison}",
                hint="nothing was changed; run the former topology to continue",
            )
        if comparison.changed_functions is not None:
            tell(comparison.changed_functions)
        return comparison.names("lost")


def _restorable(topology: Topology, state: ApplicationState) -> dict[str, str]:
    """Of the stores that a migration has rebuilt, those that the topology still has, by changelog topic."""
    names = {spec.name for spec in topology.stores}
    return {topic: name for topic, name in (state.restores or {}).items() if name in names}


def tell(what: str) -> None:
    """Prints a message about the start."""
    print(f"millstream: {what}", file=sys.stderr, flush=True)  # noqa: T201
