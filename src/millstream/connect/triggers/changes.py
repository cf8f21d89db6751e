"""Changes that triggers have written, and how they become records in Debezium's envelope."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from millstream.connect.api import SourceRecord

Operation: TypeAlias = Literal["c", "u", "d", "t"]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a row.

    Attributes:
        sequence: Its number in the change table.
        table: The table: its schema, if the database has schemas, and its name.
        operation: As in Debezium's envelope.
        key: The columns of the primary key; empty if the table has none.
        before: The row before the change.
        after: The row after it.
        transaction: The id of its transaction; None if the database has no ids.
        ts_ms: When it happened, in milliseconds since the epoch.
    """

    sequence: int
    table: tuple[str, ...]
    operation: Operation
    key: tuple[str, ...]
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    transaction: int | None
    ts_ms: int


class ChangeTable(ABC):
    """The change table of a database, and the triggers that write to it."""

    @abstractmethod
    def install(self, tables: Sequence[str]) -> None:
        """Creates the change table if there is none, and the triggers of tables anew."""

    @abstractmethod
    def remove(self) -> None:
        """Drops the triggers, and the change table with all changes in it."""

    @abstractmethod
    def installation(self) -> str:
        """Returns the id of the change table, which is another one after it was dropped and created."""

    @abstractmethod
    def bound(self) -> Iterator[int | None]:
        """Yields None until no change up to a number can appear any more; then the number, if there are changes."""

    @abstractmethod
    def changes(self, after: int, to: int, limit: int) -> list[Change]:
        """Returns changes with numbers in a range, in their order."""

    @abstractmethod
    def discard(self, to: int) -> None:
        """Deletes changes up to a number."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connection."""


class Envelopes:
    """Makes records of changes.

    Args:
        config: The settings of the source.
        database: The name of the database, for the block ``source``.
    """

    def __init__(self, config: Mapping[str, Any], database: str) -> None:
        self._prefix: str = config["topic.prefix"]
        self._tombstones: bool = config["tombstones.on.delete"]
        self._skips_truncate = config["skipped.operations"] == "t"
        self._database = database

    def records(self, change: Change) -> list[SourceRecord]:
        """Returns the records of a change, as Debezium orders them.

        An update that changes the key becomes the delete of the old key and the creation of the new one.
        """
        if change.operation == "t":
            return [] if self._skips_truncate else [self._event(change, "t", None, None)]
        old, new = _key(change.key, change.before), _key(change.key, change.after)
        if change.operation == "u" and old != new:
            return [*self._delete(change), self._event(change, "c", None, change.after)]
        if change.operation == "d":
            return self._delete(change)
        return [self._event(change, change.operation, change.before, change.after)]

    def _delete(self, change: Change) -> list[SourceRecord]:
        event = self._event(change, "d", change.before, None)
        if not self._tombstones or event.key is None:
            return [event]
        return [event, event.replace(value=None)]

    def _event(
        self, change: Change, operation: Operation, before: dict[str, Any] | None, after: dict[str, Any] | None
    ) -> SourceRecord:
        *schema, table = change.table
        source = {
            "connector": "millstream-triggers",
            "name": self._prefix,
            "ts_ms": change.ts_ms,
            "snapshot": "false",
            "db": self._database,
            "schema": schema[0] if schema else None,
            "table": table,
            "txId": change.transaction,
            "sequence": change.sequence,
        }
        value = {
            "before": before,
            "after": after,
            "source": source,
            "op": operation,
            "ts_ms": int(time.time() * 1_000),
            "transaction": None,
        }
        topic = ".".join((self._prefix, *change.table))
        return SourceRecord(topic, _key(change.key, after if before is None else after or before), value)


def _key(columns: Sequence[str], row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return {column: row[column] for column in columns} if columns and row is not None else None
