"""The state of an application that the log records beside its topics: facts that must survive a restart.

The log keeps it as named entries of bytes. A batch or a start writes only the entries that it changes; the others stay
as they are. Cells are one entry per task, because a batch changes only those of the tasks that it ran.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Self, TypeAlias

import msgspec

from millstream.errors import SetupError
from millstream.log.api import Log, Scope
from millstream.runtime.batches.batch_end import BatchEnd
from millstream.runtime.order.positions import Position

FORMAT = 5
"""Version of the entries. Raise it with every change of the fields of `ApplicationState`."""

ResetPosition: TypeAlias = str | int | dict[str, int]
"""``earliest``, ``latest``, a time in milliseconds, or ``{"offset": number}``."""

_FORMAT_ENTRY = "format"
_PER_TASK = ("cells", "restored_cells")


class ApplicationState(msgspec.Struct, frozen=True, kw_only=True):
    """Recorded facts of an application. None, or an empty dict of cells, means that the entry is not recorded.

    Attributes:
        mode: Form of the state: ``micro_batch``, or ``real_time`` for executions with workers.
        tasks: Number of tasks, decided at the first start.
        started_plan: Topology that was last started.
        published_plan: Topology that published the last batch, and so made the state that exists.
        stateful: Whether that topology has tasks.
        complete_changelogs: Stores whose changelog contains all of their rows.
        queryable_stores: Stores of the started topology that have a view.
        input_topics: Input topics of real-time execution, in the order in which the application began to read them.
        start: Start positions, recorded before the first record is read.
        reset_to: Position at which a reset application starts to read.
        base_batch: Number of batches published before the checkpoint was made.
        checkpoint_identity: Random id that the log and the directory of the checkpoint share.
        checkpoint_location: Path or URL of the checkpoint (see `checkpoint.recorded`).
        former_checkpoints: Locations of earlier checkpoints.
        restores: Stores that are rebuilt from a changelog after a migration, by changelog topic.
        waiting: Number of records that tasks have read and not processed yet.
        bounds: Least order position of the unread records, by topic and partition.
        held: Least order position that the tasks of a sub-topology have read and not processed, by sub-topology.
        cells: State of operators outside of stores, by task.
        restored_cells: Cells with which tasks start after a migration, by task.
    """

    mode: str | None = None
    tasks: int | None = None
    started_plan: dict[str, Any] | None = None
    published_plan: dict[str, Any] | None = None
    stateful: bool | None = None
    complete_changelogs: list[str] | None = None
    queryable_stores: list[str] | None = None
    input_topics: list[str] | None = None
    start: BatchEnd | None = None
    reset_to: ResetPosition | None = None
    base_batch: int | None = None
    checkpoint_identity: str | None = None
    checkpoint_location: str | None = None
    former_checkpoints: list[str] | None = None
    restores: dict[str, str] | None = None
    waiting: int | None = None
    bounds: dict[str, dict[int, Position]] | None = None
    held: dict[int, Position] | None = None
    cells: dict[int, bytes] = {}
    restored_cells: dict[int, bytes] = {}

    @property
    def first_batch(self) -> int:
        """Number of the first batch of the checkpoint."""
        return self.base_batch or 0

    def dump(self) -> dict[str, bytes]:
        """Returns the entries of the recorded facts; an update passes only those that change."""
        entries = {_FORMAT_ENTRY: str(FORMAT).encode()}
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name in _PER_TASK:
                entries |= {f"{name}.{task}": cells for task, cells in value.items()}
            elif value is not None:
                entries[name] = msgspec.json.encode(value)
        return entries

    @classmethod
    def load(cls, application: str, entries: Mapping[str, bytes]) -> Self:
        """Reads the entries of an application; without entries, nothing is recorded.

        Raises:
            SetupError: Another version of Millstream wrote them.
        """
        if entries and entries.get(_FORMAT_ENTRY) != str(FORMAT).encode():
            raise SetupError(
                f"the state of application {application!r} was written by another version of Millstream",
                hint="run or reset it with that version, or choose another application id",
            )
        facts: dict[str, Any] = {name: {} for name in _PER_TASK}
        for name, data in entries.items():
            fact, _, task = name.partition(".")
            if fact in _PER_TASK:
                facts[fact][int(task)] = data
            elif fact in cls.__struct_fields__:
                facts[fact] = msgspec.json.decode(data, type=_types()[fact])
        return cls(**facts)


@functools.cache
def _types() -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(ApplicationState)}


def read_state(log: Log, application: str) -> ApplicationState:
    """Returns the state that a log records of an application.

    Raises:
        SetupError: Another version of Millstream wrote it.
    """
    return ApplicationState.load(application, log.applications.state(Scope(application)))
