"""Turns records into changes of rows: the table, the key, the values of the columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from millstream.connect.api import SinkRecord
from millstream.connect.postgres.sink.keys import format_parts
from millstream.connect.postgres.sink.logical import from_connect
from millstream.connect.postgres.sink.refusals import Refusal
from millstream.core.records import Windowed

Operation: TypeAlias = Literal["c", "u", "d", "r"]

TOPIC, PARTITION, OFFSET = "__connect_topic", "__connect_partition", "__connect_offset"
OPERATION, TIMESTAMP = "__op", "__ts"
RESERVED = "__millstream_"
"""The start of the names of the sink's own columns in staging tables."""

_ENVELOPE = frozenset({"before", "after", "source", "op", "ts_ms", "ts_us", "ts_ns", "transaction"})
_OPERATIONS = ("c", "u", "d", "r", "t")
_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
_LONGEST_NAME = 63
_SCALAR = ("key",)
_MOST_NAMES = 10_000
"""Names that were checked are remembered up to this number: records can have any."""


class Table(NamedTuple):
    """The name of a table.

    Attributes:
        schema: Its schema; None: PostgreSQL finds it by the search path.
        name: Its name.
    """

    schema: str | None
    name: str

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


class Change(NamedTuple):
    """What a record changes in a table.

    Attributes:
        place: The place of the record in its batch.
        table: The table.
        key: The columns of the primary key and their values; empty if the table has none.
        fields: All columns of the row, those of the key included; None deletes the row.
    """

    place: int
    table: Table
    key: dict[str, Any]
    fields: dict[str, Any] | None


class RowMapping:
    """Maps records to changes, as the settings of the sink say."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._format: str = settings["collection.name.format"]
        self._needs_source = "${source" in self._format
        self._changelog = settings["insert.mode"] == "changelog"
        self._deletes: bool = settings["delete.enabled"]
        self._key_mode: str = "kafka" if self._changelog else settings["primary.key.mode"]
        self._key_fields: tuple[str, ...] = tuple(settings["primary.key.fields"])
        self._tables: dict[str, Table] = {}
        self._names: set[str] = set()

    def change(self, place: int, record: SinkRecord) -> Change | None:
        """Returns the change of a record; None if the sink skips it.

        Raises:
            Refusal: The record cannot be a row.
        """
        value = from_connect(record.value)
        operation, source = "u" if value is not None else "d", None
        key = from_connect(record.key)
        if is_envelope(value):
            operation, source = value["op"], value.get("source")
            if operation == "t":  # TRUNCATE: as other sinks, this one does not follow it
                return None
            value = value.get("after") if operation != "d" else None
            if value is None and operation != "d":
                raise Refusal(f"the operation {operation!r} of Debezium has no 'after'")
        if value is None and not self._changelog and not self._deletes:
            return None
        if value is None and source is None and self._needs_source:
            return None  # a tombstone has no source, and the change event before it has deleted the row
        table = self._table(record.topic, source)
        if self._changelog:
            return Change(place, table, *self._changelog_row(record, key, value, operation))
        key_columns = self._key(record, key, value)
        if value is None:
            return Change(place, table, key_columns, None)
        return Change(place, table, key_columns, {**self._fields(value), **key_columns})

    def _changelog_row(
        self, record: SinkRecord, key: Any, value: Any, operation: str
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        position = self._kafka_key(record)
        row = {} if key is None else self._key_of_record(key)
        if value is not None:
            row |= self._fields(value)
        return position, {**row, **position, OPERATION: operation, TIMESTAMP: record.timestamp}

    @staticmethod
    def _kafka_key(record: SinkRecord) -> dict[str, Any]:
        return {TOPIC: record.topic, PARTITION: record.partition, OFFSET: record.offset}

    def _key(self, record: SinkRecord, key: Any, value: Any) -> dict[str, Any]:
        if self._key_mode == "none":
            return {}
        if self._key_mode == "kafka":
            return self._kafka_key(record)
        if self._key_mode == "record_value":
            fields = self._fields(value)
            missing = [name for name in self._key_fields if name not in fields]
            if missing:
                raise Refusal(f"the value has no field {missing[0]!r}, which is part of the primary key")
            columns = {name: fields[name] for name in self._key_fields}
        elif key is None:
            raise Refusal("the record has no key, and primary.key.mode is record_key")
        else:
            columns = self._key_of_record(key)
        null = next((name for name, part in columns.items() if part is None), None)
        if null is not None:
            raise Refusal(f"column {null!r} of the primary key is null")
        return columns

    def _key_of_record(self, key: Any) -> dict[str, Any]:
        names = self._key_fields
        if isinstance(key, Windowed):
            inner = self._key_of_record(key.key)
            return {**inner, "window_start": key.start, "window_end": key.end}
        if isinstance(key, Mapping):
            fields = self._fields(key)
            missing = [name for name in names if name not in fields]
            if missing:
                raise Refusal(f"the key has no field {missing[0]!r}, which primary.key.fields names")
            return {name: fields[name] for name in names} if names else fields
        parts = tuple(key) if isinstance(key, tuple | list) else (key,)
        if not names and len(parts) == 1:
            names = _SCALAR
        if len(parts) != len(names):
            raise Refusal(f"the key has {len(parts)} parts, and primary.key.fields names {len(names)} columns")
        for name in names:
            self._check_name(name, "column")
        return dict(zip(names, parts, strict=True))

    def _fields(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            return {"value": value}
        if not self._names.issuperset(value):
            for name in value:
                self._check_name(name, "column")
        return dict(value)

    def _check_name(self, name: Any, what: str) -> None:
        if name in self._names:
            return
        reason = _name_mistake(name)
        if reason:
            raise Refusal(f"{what} {str(name)[:100]!r}: {reason}")
        if len(self._names) > _MOST_NAMES:
            self._names.clear()
        self._names.add(name)

    def _table(self, topic: str, source: Any) -> Table:
        if not self._needs_source:
            table = self._tables.get(topic)
            if table is None:
                table = self._tables[topic] = self._table_of({"topic": topic})
            return table
        if not isinstance(source, Mapping):
            raise Refusal(f"the record has no source, which the format {self._format!r} of table names needs")
        return self._table_of({"topic": topic, **{f"source.{name}": source.get(name) for name in source}})

    def _table_of(self, values: Mapping[str, Any]) -> Table:
        def insert(found: re.Match[str]) -> str:
            value = values.get(found[1])
            if not isinstance(value, str):
                raise Refusal(f"the record has no {found[1]}, which the format {self._format!r} of table names needs")
            return value.replace(".", "_")

        parts = [_PLACEHOLDER.sub(insert, part) for part in format_parts(self._format)]
        for part in parts:
            self._check_name(part, "table")
        return Table(parts[0] if len(parts) == 2 else None, parts[-1])


def is_envelope(value: Any) -> bool:
    """Whether a value has the form of Debezium's change events."""
    return (
        isinstance(value, Mapping)
        and value.get("op") in _OPERATIONS
        and ("after" in value or "before" in value or value["op"] == "t")
        and _ENVELOPE.issuperset(value)
    )


def _name_mistake(name: Any) -> str | None:
    if not isinstance(name, str) or not name:
        return "a name is text of at least one character"
    if "\0" in name:
        return "a name cannot contain the character NUL"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "the name is not valid Unicode"
    if name.startswith(RESERVED):
        return f"names that begin with {RESERVED} are reserved for the sink"
    return f"the name has {size} bytes, PostgreSQL allows {_LONGEST_NAME}" if size > _LONGEST_NAME else None
