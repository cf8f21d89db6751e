"""The position of the source, which is recorded with its records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Identity:
    """The database and the slot that a position belongs to.

    Attributes:
        system: The identifier of the cluster of databases, which replicas share.
        timeline: Its timeline: a promoted replica and a restored backup begin a new one.
        database: The name of the database.
        slot: The name of the slot.
    """

    system: str
    timeline: int
    database: str
    slot: str


@dataclass(frozen=True, slots=True)
class SnapshotState:
    """The progress of a snapshot.

    Attributes:
        tables: The tables whose rows are not all recorded, in order; the first one is being read.
        after: The key of the last recorded row of the first table, in the text format; None: none is recorded.
        first: Whether it is read under the snapshot that was exported with the slot: until the first restart.
        started: Whether a row is recorded.
        waits: The ids of transactions that must have ended before the first table is read. They began before the
            table was published, so their changes of it may not be in the stream.
        emitted: The keys of rows after `after` that are recorded before their turn: a change came first.
    """

    tables: tuple[str, ...]
    after: tuple[str, ...] | None = None
    first: bool = False
    started: bool = False
    waits: tuple[int, ...] = ()
    emitted: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Position:
    """A position in the stream.

    Attributes:
        identity: The database and the slot.
        lsn: All transactions whose commit record is before it are recorded.
        transaction: The commit record of a transaction of which only a part is recorded; 0: there is none.
        index: How many changes of that transaction are recorded.
        snapshot: The snapshot that is being taken; None: none is.
        known: The numbers of the published tables whose rows are recorded, or are requested by `snapshot`.
        handled: The last ids of commands that are done.
    """

    identity: Identity
    lsn: int
    transaction: int = 0
    index: int = 0
    snapshot: SnapshotState | None = None
    known: tuple[int, ...] = ()
    handled: tuple[str, ...] = ()

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with other attributes."""
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """Returns the position as JSON values."""
        values: dict[str, Any] = {
            "system": self.identity.system,
            "timeline": self.identity.timeline,
            "database": self.identity.database,
            "slot": self.identity.slot,
            "lsn": self.lsn,
            "known": list(self.known),
        }
        if self.transaction:
            values |= {"transaction": self.transaction, "index": self.index}
        if self.snapshot is not None:
            state = self.snapshot
            values["snapshot"] = {
                "tables": list(state.tables),
                "after": None if state.after is None else list(state.after),
                "first": state.first,
                "started": state.started,
                "waits": list(state.waits),
                "emitted": [list(key) for key in state.emitted],
            }
        if self.handled:
            values["handled"] = list(self.handled)
        return values

    @classmethod
    def from_json(cls, values: Any) -> Position:
        """Returns the position that `to_json` has written."""
        state = values.get("snapshot")
        snapshot = None
        if state is not None:
            after = None if state["after"] is None else tuple(state["after"])
            snapshot = SnapshotState(
                tuple(state["tables"]),
                after,
                state["first"],
                state["started"],
                tuple(state["waits"]),
                tuple(map(tuple, state["emitted"])),
            )
        return cls(
            Identity(values["system"], values["timeline"], values["database"], values["slot"]),
            values["lsn"],
            values.get("transaction", 0),
            values.get("index", 0),
            snapshot,
            tuple(values["known"]),
            tuple(values.get("handled", ())),
        )
