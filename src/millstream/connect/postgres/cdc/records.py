"""Makes the records of changes, and of rows of snapshots."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from millstream.connect.api import SourceRecord
from millstream.connect.postgres.cdc.envelope import CONNECTOR, VERSION, Origin, sequence
from millstream.connect.postgres.cdc.pgoutput import Delete, Insert, Update
from millstream.connect.postgres.cdc.settings import Settings
from millstream.connect.postgres.cdc.tables import CapturedTable, TextRow
from millstream.connect.schema import INT64, STRING, array_of, struct_of
from millstream.core.records import Headers
from millstream.errors import ConnectorError

NEW_KEY_HEADER = "__debezium.newkey"
OLD_KEY_HEADER = "__debezium.oldkey"

_HEARTBEAT_KEY = struct_of("io.debezium.connector.common.ServerNameKey", {"serverName": STRING})
_HEARTBEAT_VALUE = struct_of("io.debezium.connector.common.Heartbeat", {"ts_ms": INT64})
_BOUND_KEY = struct_of("io.debezium.connector.common.TransactionMetadataKey", {"id": STRING})
_BOUND_VALUE = struct_of(
    "io.debezium.connector.common.TransactionMetadataValue",
    {
        "status": STRING,
        "id": STRING,
        "event_count": INT64.as_optional(),
        "data_collections": array_of(
            struct_of("event.collection", {"data_collection": STRING, "event_count": INT64}), optional=True
        ),
        "ts_ms": INT64,
    },
)


class RecordMaker:
    """Makes records as the settings say."""

    def __init__(self, settings: Settings) -> None:
        self._prefix = settings.prefix
        self._database = settings.server.database
        self._tombstones = settings["tombstones.on.delete"]
        self._skipped = frozenset(settings["skipped.operations"])
        self._heartbeat_topic = f"{settings['topic.heartbeat.prefix']}.{self._prefix}"
        self._transaction_topic = f"{self._prefix}.{settings['topic.transaction']}"

    def row(self, table: CapturedTable, row: TextRow, origin: Origin) -> SourceRecord:
        """Returns the record of a row of a snapshot."""
        return self._record(table, self._value(table, "r", origin, None, row), row)

    def change(
        self, table: CapturedTable, change: Insert | Update | Delete, origin: Callable[[], Origin]
    ) -> list[SourceRecord]:
        """Returns the records of a change.

        Args:
            table: The table.
            change: The change.
            origin: Returns where the change is from. It is called once for each envelope: it counts them.
        """
        if isinstance(change, Insert):
            return [] if "c" in self._skipped else [self._create(table, change.new, origin())]
        if isinstance(change, Delete):
            return [] if "d" in self._skipped else self._delete(table, change.old, origin, old_is_key=change.old_is_key)
        return [] if "u" in self._skipped else self._update(table, change, origin)

    def truncate(self, table: CapturedTable, origin: Callable[[], Origin]) -> list[SourceRecord]:
        """Returns the record of a TRUNCATE of a table."""
        if "t" in self._skipped:
            return []
        value = self._value(table, "t", origin(), None, None)
        return [SourceRecord(table.topic, None, value, value["source"]["ts_ms"], value_schema=table.value_schema)]

    def _create(self, table: CapturedTable, row: TextRow, origin: Origin, headers: Headers = ()) -> SourceRecord:
        return self._record(table, self._value(table, "c", origin, None, row), row, headers)

    def _update(self, table: CapturedTable, change: Update, origin: Callable[[], Origin]) -> list[SourceRecord]:
        old = change.old
        new = table.completed(change.new, old, old_is_key=change.old_is_key)
        if not table.has_key(old_is_key=old is None or change.old_is_key):
            raise _no_key(table)
        before = None if change.old_is_key else old
        if old is None or table.key_text(old) == table.key_text(new):
            return [self._record(table, self._value(table, "u", origin(), before, new), new)]
        deleted = self._delete(
            table, old, origin, old_is_key=change.old_is_key, headers=_header(NEW_KEY_HEADER, table.key_of(new))
        )
        headers = _header(OLD_KEY_HEADER, table.key_of(old))
        return [*deleted, self._create(table, new, origin(), headers)]

    def _delete(
        self,
        table: CapturedTable,
        old: TextRow,
        origin: Callable[[], Origin],
        *,
        old_is_key: bool,
        headers: Headers = (),
    ) -> list[SourceRecord]:
        if not table.has_key(old_is_key=old_is_key):
            raise _no_key(table)
        record = self._record(table, self._value(table, "d", origin(), old, None), old, headers)
        if not self._tombstones or record.key is None:
            return [record]
        return [record, record.replace(value=None, value_schema=None)]

    def _record(self, table: CapturedTable, value: dict[str, Any], row: TextRow, headers: Headers = ()) -> SourceRecord:
        """Returns a record with the key of a row."""
        return SourceRecord(
            table.topic,
            table.key_of(row),
            value,
            value["source"]["ts_ms"],
            headers,
            key_schema=table.key_schema,
            value_schema=table.value_schema,
        )

    def _value(
        self, table: CapturedTable, op: str, origin: Origin, before: TextRow | None, after: TextRow | None
    ) -> dict[str, Any]:
        return {
            "before": None if before is None else table.value_of(before),
            "after": None if after is None else table.value_of(after),
            "source": {
                "version": VERSION,
                "connector": CONNECTOR,
                "name": self._prefix,
                "ts_ms": origin.time,
                "snapshot": origin.snapshot,
                "db": self._database,
                "sequence": sequence(origin.commit, origin.lsn),
                "schema": table.schema,
                "table": table.name,
                "txId": origin.xid,
                "lsn": origin.lsn,
                "xmin": None,
            },
            "op": op,
            "ts_ms": now(),
            "transaction": origin.transaction,
        }

    def heartbeat(self) -> SourceRecord:
        """Returns a record of the heartbeat topic."""
        time = now()
        return SourceRecord(
            self._heartbeat_topic,
            {"serverName": self._prefix},
            {"ts_ms": time},
            time,
            key_schema=_HEARTBEAT_KEY,
            value_schema=_HEARTBEAT_VALUE,
        )

    def bound(self, id: str, time: int, counts: dict[str, int] | None = None) -> SourceRecord:
        """Returns the record of the beginning of a transaction or, with the changes of each table, of its end."""
        value: dict[str, Any] = {
            "status": "BEGIN" if counts is None else "END",
            "id": id,
            "event_count": None if counts is None else sum(counts.values()),
            "data_collections": None
            if counts is None
            else [{"data_collection": name, "event_count": count} for name, count in counts.items()],
            "ts_ms": time,
        }
        return SourceRecord(
            self._transaction_topic, {"id": id}, value, time, key_schema=_BOUND_KEY, value_schema=_BOUND_VALUE
        )


def now() -> int:
    """Returns the time in milliseconds."""
    return time.time_ns() // 1_000_000


def _header(name: str, key: dict[str, Any] | None) -> Headers:
    if key is None:
        return ()
    return ((name, json.dumps(key, default=_plain, ensure_ascii=False).encode()),)


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)


def _no_key(table: CapturedTable) -> ConnectorError:
    return ConnectorError(
        f"PostgreSQL, table {table.full_name}: the old row of a change does not have the columns of the key, "
        f"{', '.join(table.key)}",
        hint=f"run: ALTER TABLE {table.full_name} REPLICA IDENTITY FULL; or remove it from message.key.columns",
    )
