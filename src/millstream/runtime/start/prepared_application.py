"""What comes before an application runs: its directory and lock, its topics, and whether it may go on where it was."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, TypeVar

from millstream.config import Config
from millstream.core.durations import later
from millstream.core.failpoints import declare, reach
from millstream.dsl.app import App
from millstream.errors import (
    AlreadyRunningError,
    BrokerError,
    IncompatibleTopologyError,
    SetupError,
    UnknownTopicError,
)
from millstream.log.api import Log, Topic
from millstream.log.opening import LogLocation, log_location, open_location
from millstream.plan.side import BEGIN_AGAIN
from millstream.plan.sources import Source
from millstream.plan.stateless import Repartition, Sink
from millstream.runtime.batches.batch_end import BatchEnd
from millstream.runtime.program.program import Program
from millstream.runtime.queries import queryable, stores_of
from millstream.runtime.start.application_state import ApplicationState, read_state
from millstream.runtime.start.checkpoint import checkpoint_of, local_path, recorded
from millstream.runtime.start.compatibility import (
    compare_with_last,
    complete_changelogs,
    is_stateful,
    last_batch,
    plain,
    same_plan,
)
from millstream.runtime.start.start_positions import StartPositions
from millstream.runtime.start.view_rebuild import forget_rows, rebuild_views
from millstream.stages import Topology
from millstream.state.spec import StoreSpec

T = TypeVar("T")

MOST_TASKS = 48
"""As many tasks as there are by default, at most: each takes some milliseconds in every batch that has records for it.
They go evenly to 2, 3, 4, 6, 8, 12, 16, 24 and 48 cores."""

_PAUSE = 0.5
_DAY_MS = 24 * 60 * 60 * 1000

LOCKED = declare("start.locked")
ACQUIRED = declare("start.acquired")
CREATED = declare("start.topics-created")
RECORDED = declare("start.recorded")


class PreparedApplication:
    """An application with its log and its directory, made ready to run; to be closed.

    Attributes:
        program: What is to run.
        place: Where its log is.
        log: The log.
        epoch: Which instance of the application this is.
        first: Where its first batch begins.
        directory: Its own directory in the data directory.
        checkpoint: Where Spark keeps its checkpoint.
        base: How many batches were published before that was made.

    Raises:
        AlreadyRunningError: Another instance has the lock.
        IncompatibleTopologyError: The topology cannot go on with the state that there is.
        SetupError: The checkpoint and the log do not belong together, or a topic is missing.
    """

    def __init__(self, app: App) -> None:
        config = app.config
        self.place = log_location(config)
        self.log: Log = open_location(self.place)
        self.directory = directory_of(self.place, app.id)
        self._lock = lock_application(self.directory, app.id)
        try:
            reach(LOCKED)
            self.retry_while_unavailable(lambda: self._prepare(app, config))
        except BaseException:
            self.close()
            raise

    def retry_while_unavailable(self, step: Callable[[], T]) -> T:
        """Takes a step of the start that may be taken again, once the broker is there; again if it goes meanwhile."""
        failed: float | None = None
        while True:
            self.log.connect(self.place.patience, _tell)
            try:
                return step()
            except BrokerError as error:
                now = time.monotonic()
                failed = failed or now
                if not error.may_pass or now - failed > self.place.patience:
                    raise
                _tell(f"{error.message}: trying again")
                time.sleep(_PAUSE)

    def close(self) -> None:
        """Gives up the lock and the log."""
        self.log.close()
        self._lock.close()

    def _prepare(self, app: App, config: Config) -> None:
        topology = app.topology()
        if not topology.plan.nodes:
            raise SetupError(f"application {app.id!r} reads no topic", hint="begin with app.stream(…) or app.table(…)")
        state = read_state(self.log, app.id)
        self.checkpoint: str = checkpoint_of(state, config, self.directory)
        if config["processing.guarantee"] == "at_most_once" and local_path(self.checkpoint) is None:
            raise SetupError(
                f"application {app.id!r} cannot be at_most_once with its checkpoint in {self.checkpoint}",
                hint="which batch was begun is looked up there, and only directories of this machine can be looked "
                "into: choose one as checkpoint.location (if it has run: and migrate), or another guarantee",
            )
        self.base = state.first_batch
        counts = self._input_counts(topology)
        if state.tasks is not None:
            tasks = state.tasks
            wanted = config["num.tasks"]
            if wanted is not None and wanted != tasks:
                raise IncompatibleTopologyError(
                    f"application {app.id!r} has {tasks} tasks, and num.tasks now says {wanted}",
                    hint=f"that is decided at the first start: leave num.tasks out; or {BEGIN_AGAIN}",
                )
        else:
            tasks = config["num.tasks"] or min(max(counts.values(), default=1), MOST_TASKS)
        self.program = Program(
            topology,
            config,
            tasks,
            counts,
            self.place,
            restores=_restorable(topology, state),
            cells={task: cells for task, cells in sorted(state.restored_cells.items()) if cells},
        )
        self.lost = self._check_plan(app, state)
        self._check_checkpoint(app, state)
        self.epoch = self.log.applications.acquire(app.id)
        reach(ACQUIRED)
        self.program = replace(self.program, whole=complete_changelogs(self.program.logged, state))
        if state.published_plan is not None:
            before = state.published_plan["stores"]
            added = [spec for spec in self.stores() if spec.name not in before]
            forget_rows(self.program, self.log, added)
        self._create_topics(counts)
        reach(CREATED)
        location = recorded(self.checkpoint, self.directory, goes_along=self.place.cluster is None)
        rebuild_views(self.program, self.log, _tell, again=self._is_run_again())
        self.first = StartPositions(self.program, self.log, self.epoch).find(state)
        started = ApplicationState(
            tasks=tasks,
            started_plan=plain(topology),
            queryable_stores=queryable(topology, config),
            start=self.first,
            stateful=None if self._has_published else is_stateful(topology),
            checkpoint_identity=self._identity,
            checkpoint_location=location,
        )
        self.log.applications.set_state(app.id, started.dump(), self.epoch)
        reach(RECORDED)

    # ----- topics ----------------------------------------------------------------------------------------------

    def _input_counts(self, topology: Any) -> dict[str, int]:
        """How many partitions the input topics have, which must be there."""
        counts = {}
        sources = list(topology.plan.of_type(Source))
        named = [(topic, source.at) for source in sources for topic in source.topics]
        named += [(table.topic, table.at) for table in topology.global_tables]
        for topic, at in named:
            try:
                counts[topic] = self.log.topic(topic).partitions
            except UnknownTopicError as error:
                hint = (
                    error.hint
                    if error.hint and "did you mean" in error.hint
                    else f"create it: log.create_topic({topic!r})"
                )
                raise UnknownTopicError(f"{at}: there is no topic {topic!r}", hint=hint) from None
        return counts

    def _create_topics(self, counts: dict[str, int]) -> None:
        """Creates the topics that the application writes to, where they are not there yet."""
        program, topology = self.program, self.program.topology
        direct = program.placement.direct
        for node in topology.plan.nodes:
            if isinstance(node, Repartition) and node not in direct:
                config = {"cleanup.policy": "delete", "retention.ms": "-1"}  # what has been read is deleted
                self._create(topology.topic_of(node), node.partitions or program.tasks, config, internal=True)
            elif isinstance(node, Sink) and isinstance(node.topic, str):
                self._create(node.topic, program.tasks, {}, internal=False)
        for spec in self.stores():
            topic = program.changelog_of(spec)
            if topic is not None:
                config = {"cleanup.policy": "compact"}
                if spec.kind == "versioned" and spec.retention_ms is not None:  # its rows have more than one value
                    config["min.compaction.lag.ms"] = str(later(spec.retention_ms, _DAY_MS))
                self._create(topic, program.tasks, config, internal=True)
        letters = program.config["errors.dead.letter.queue.topic.name"]
        if letters is not None:
            self._create(letters, 1, {}, internal=False)

    def _create(self, topic: str, partitions: int, config: dict[str, str], *, internal: bool) -> None:
        found = self.log.create_topic(topic, partitions, config, internal=internal, exist_ok=True)
        if internal:
            _check_internal(found, partitions, config["cleanup.policy"])
        self.program.counts[topic] = found.partitions

    def stores(self) -> list[StoreSpec]:
        """The stores that are kept."""
        return stores_of(self.program.topology)

    def _is_run_again(self) -> bool:
        """Whether Spark will run the last batch again that was published: it did not hear that it was."""
        published = self.log.applications.published(self.program.topology.application_id)
        local = local_path(self.checkpoint)
        if published is None or local is None:
            return False
        return published.batch > last_batch(local / "commits") + self.base

    def started_batch(self) -> BatchEnd | None:
        """Where the batch ends that Spark had begun and that was not published; None if there is none."""
        offsets = Path(self.checkpoint) / "offsets"
        number = last_batch(offsets)
        published = self.log.applications.published(self.program.topology.application_id)
        if number < 0 or (published is not None and published.batch >= number + self.base):
            return None
        return BatchEnd.from_json((offsets / str(number)).read_text(encoding="utf-8").splitlines()[-1])

    # ----- going on where it was -------------------------------------------------------------------------------

    def _check_plan(self, app: App, state: ApplicationState) -> list[str]:
        """Makes sure that the application can go on; returns the stores that its topology has no more."""
        if state.started_plan is None:
            return []
        ran = state.published_plan
        exact = app.config["processing.guarantee"] == "exactly_once"
        if exact and self._is_run_again() and ran is not None and not same_plan(ran, plain(self.program.topology)):
            raise IncompatibleTopologyError(
                f"application {app.id!r} was ended right after it had published a batch, which is run once more at the "
                "next start and must give the same; and its topology has changed since",
                hint="nothing was changed; start the former topology once more, with run(until_caught_up=True), and "
                f"then this one; or {BEGIN_AGAIN}",
            )
        comparison = compare_with_last(self.program.topology, state, self.log, self.checkpoint)
        if not comparison.compatible:
            raise IncompatibleTopologyError(
                f"application {app.id!r} cannot go on with the state that it has.\n{comparison}",
                hint="nothing was changed; run the former topology to go on",
            )
        if comparison.changed_functions is not None:
            _tell(comparison.changed_functions)
        return comparison.names("lost")

    def _check_checkpoint(self, app: App, state: ApplicationState) -> None:
        """Makes sure that checkpoint and log belong together: else batches would be lost or doubled."""
        own = self.directory / "identity"
        found = own.read_text(encoding="ascii") if own.exists() else None
        expected = state.checkpoint_identity
        local = local_path(self.checkpoint)
        published = self.log.applications.published(app.id)
        self._has_published = started = published is not None and published.batch >= self.base
        noted = -1 if local is None else last_batch(local / "commits")
        last = self.base - 1 if published is None else published.batch
        if expected is not None and noted + self.base > last:
            raise SetupError(
                f"the checkpoint of application {app.id!r} is ahead of its log: it has batch {noted + self.base}, and "
                f"the last one that was published is {last if published is not None else 'none'}: the log was brought "
                "back from a copy",
                hint=f"bring back the checkpoint of the same moment; or remove it, and {_without_checkpoint(state)}",
            )
        if started and local is not None and not (local / "metadata").exists():
            raise SetupError(
                f"the checkpoint of application {app.id!r} is gone: {self.checkpoint}",
                hint=f"bring it back; or {_without_checkpoint(state)}",
            )
        if started and local is not None and published is not None:
            begun = last_batch(local / "offsets")
            if published.batch > begun + self.base:
                raise SetupError(
                    f"the checkpoint of application {app.id!r} is older than its results: it ends with batch "
                    f"{begun + self.base}, and batch {published.batch} was published",
                    hint=f"bring the last one back; or {_without_checkpoint(state)}",
                )
        if expected is not None and found is not None and found != expected:
            raise SetupError(
                f"the checkpoint of application {app.id!r} belongs to another log",
                hint=f"use the data directory in which both were made; or {BEGIN_AGAIN}",
            )
        if expected is None and local is not None and (local / "metadata").exists():
            raise SetupError(
                f"there is a checkpoint of an application {app.id!r} that this log does not know: {self.checkpoint}",
                hint="remove it, or use the data directory that it was made with",
            )
        self._identity = expected or found or secrets.token_hex(8)
        if found is None:
            own.write_text(self._identity, encoding="ascii")


def _without_checkpoint(state: ApplicationState) -> str:
    """What helps an application whose checkpoint is lost. Records that wait for others are nowhere else."""
    if state.waiting:
        return BEGIN_AGAIN
    return f"make a new one, with named stores rebuilt from their changelogs: millstream migrate; or {BEGIN_AGAIN}"


def _restorable(topology: Topology, state: ApplicationState) -> dict[str, str]:
    """The stores that a migration has rebuilt from their changelogs, by topic; those that are still there."""
    names = {spec.name for spec in stores_of(topology)}
    return {topic: name for topic, name in (state.restores or {}).items() if name in names}


def _check_internal(topic: Topic, partitions: int, policy: str) -> None:
    """Makes sure that an internal topic that was there is as it must be."""
    known = topic.config.get("cleanup.policy", "delete")
    if topic.partitions == partitions and policy in known.split(","):
        return
    what = f"{topic.partitions} partitions" if topic.partitions != partitions else f"cleanup.policy {known}"
    needed = f"{partitions}" if topic.partitions != partitions else policy
    raise SetupError(
        f"the application's own topic {topic.name!r} has {what}, and must have {needed}",
        hint="it belongs to another application, or to an earlier form of this one: choose another application id; or "
        "begin again from the input: millstream reset",
    )


def _tell(what: str) -> None:
    print(f"millstream: {what}", file=sys.stderr, flush=True)  # noqa: T201


def directory_of(place: LogLocation, application: str) -> Path:
    """Where an application has its checkpoint and its lock."""
    return place.directory / "applications" / application


def lock_application(directory: Path, application: str) -> IO[str]:
    """Takes the lock of an application; it is given up when it is closed, or the process ends, however it ends.

    Raises:
        AlreadyRunningError: Another process has it.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = (directory / "lock").open("a+", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        holder = lock.read().strip()
        lock.close()
        raise AlreadyRunningError(
            f"application {application!r} is running already (process {holder or 'unknown'})",
            hint="stop that one first, or give this one another application id",
        ) from None
    with contextlib.suppress(OSError):
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
    return lock
