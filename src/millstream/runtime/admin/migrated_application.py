"""The application of a migration, and the stores that it rebuilds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from millstream.config import Config
from millstream.errors import IncompatibleTopologyError, SetupError, suggestion
from millstream.log import Log, Offsets
from millstream.log.api import Published
from millstream.log.opening import LogLocation
from millstream.plan.compare import Comparison
from millstream.plan.side import BEGIN_AGAIN
from millstream.plan.sources import ToTable
from millstream.runtime.batches.batch_end import BatchEnd
from millstream.runtime.program.program import Program
from millstream.runtime.start.application_state import ApplicationState
from millstream.runtime.start.checkpoint import all_checkpoints, new_checkpoint, recorded
from millstream.runtime.start.compatibility import complete_changelogs, facts_of, plain
from millstream.stages import Topology
from millstream.state.spec import StoreSpec


class Migrated(NamedTuple):
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


class Rebuilt(NamedTuple):
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

    @property
    def steps(self) -> list[str]:
        """The steps of the next start."""
        steps = [f"rebuild store {name} from {topic}" for topic, name in self.restores.items()]
        steps += [f"begin with an empty store {name}" for name in self.empty]
        return steps + [f"give up store {name}, which the topology has no more" for name in self.lost]

    def without_rows(self, topology: Topology) -> list[StoreSpec]:
        """The stores of a topology that begin empty, and so do their changelogs."""
        return [spec for spec in topology.stores if spec.name in {*self.empty, *self.added}]


def rebuilt(program: Program, log: Log, state: ApplicationState, comparison: Comparison) -> Rebuilt:
    """Finds out which stores a migration rebuilds, and which begin empty.

    Raises:
        IncompatibleTopologyError: A named store, or an internal topic with unread records, cannot be kept.
        SetupError: A store has no changelog, or not a complete one.
    """
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
    return Rebuilt(restores, empty, comparison.names("added"), comparison.names("lost"))


def keeping(comparison: Comparison, keep: Collection[str]) -> Comparison:
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


class NewCheckpoint:
    """A checkpoint with which an application begins again in micro-batches: stores are rebuilt first.

    Args:
        app: The application.
        program: Its program, in micro-batches.
        stores: The stores that are rebuilt.

    Raises:
        SetupError: The location is in use and on another machine.
    """

    def __init__(self, app: Migrated, program: Program, stores: Rebuilt) -> None:
        self._app = app
        self._program = program
        self._stores = stores
        self._tables = {table.topic: table.store.name for table in app.topology.global_tables}
        self._number = app.published.batch + 1
        self._location = new_checkpoint(app.state, app.config, app.directory, self._number)

    @property
    def steps(self) -> list[str]:
        """The steps of the next start."""
        steps = [f"read global table {name} again from {topic}" for topic, name in self._tables.items()]
        return [*self._stores.steps, *steps, f"begin a new checkpoint {self._location}"]

    def facts(self, read: Offsets, cells: dict[int, bytes]) -> ApplicationState:
        """The facts to record.

        Args:
            read: The offsets up to which topics were read.
            cells: The cells of the operators, by task.
        """
        app, restores = self._app, self._stores.restores
        beside = app.place.cluster is None
        # A store that is not rebuilt begins empty, and so does its changelog.
        return msgspec.structs.replace(
            facts_of(app.topology, self._program.logged),
            start=_restoring_start(app.log, app.state, read, sorted(restores), self._tables),
            restores=restores,
            base_batch=self._number,
            checkpoint_location=recorded(self._location, app.directory, goes_along=beside),
            former_checkpoints=former_checkpoints(app),
            started_plan=plain(app.topology),
            restored_cells=cells,
        )


def former_checkpoints(app: Migrated) -> list[str]:
    """All checkpoints of an application so far, as they are recorded."""
    beside = app.place.cluster is None
    return [recorded(each, app.directory, goes_along=beside) for each in all_checkpoints(app.state, app.directory)]


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
