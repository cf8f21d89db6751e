"""The outbox pattern: rows of an outbox table become events in the topics of their aggregates."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from millstream.config.validators import flag, one_of, optional, text
from millstream.connect.api import SourceRecord
from millstream.connect.schema import ConnectSchema, struct_of
from millstream.connect.settings import Setting, names, read_settings
from millstream.core.records import Headers
from millstream.errors import ConfigError, ConnectorError

WHAT = "outbox"

_VARIABLE = re.compile(r"\$\{(\w+)\}")


def _regex(key: str, value: Any) -> re.Pattern[str]:
    try:
        return re.compile(re.sub(r"\(\?<(?=\w)", "(?P<", str(value)))
    except re.error as error:
        raise ConfigError(f"{key}: {value!r} is not a regular expression: {error}") from None


def _placements(key: str, value: Any) -> tuple[tuple[str, str, str], ...]:
    """Accepts ``column:placement:alias,…``, where the alias may be left out."""
    placements = []
    for entry in names(key, value):
        column, _, rest = entry.partition(":")
        placement, _, alias = rest.partition(":")
        placements.append((column, one_of("header", "envelope", "partition")(key, placement), alias or column))
    return tuple(placements)


def _column(default: str | None, doc: str) -> Setting:
    return Setting("text", default, optional(text), doc)


SETTINGS: dict[str, Setting] = {
    "table": _column(None, "The outbox table, as `schema.table`. Default: all records are of outbox tables."),
    "table.field.event.id": _column("id", "The column with the id of the event, which becomes the header `id`."),
    "table.field.event.key": _column("aggregateid", "The column that becomes the key."),
    "table.field.event.payload": _column("payload", "The column that becomes the value."),
    "table.field.event.timestamp": _column(None, "The column with the time of the event. Default: the commit."),
    "table.fields.additional.placement": Setting(
        "list",
        None,
        optional(_placements),
        "Other columns, as `column:placement:alias,…`; the placement is `header`, `envelope` (the value becomes a "
        "struct of the payload and these columns) or `partition`.",
    ),
    "table.expand.json.payload": Setting("boolean", False, flag, "Whether a payload of JSON text becomes a value."),
    "table.op.invalid.behavior": Setting(
        "text",
        "warn",
        one_of("warn", "error", "fatal"),
        "What happens when a row of the outbox is updated: it is dropped (`warn`, `error`), or an error (`fatal`). "
        "Deletes are always dropped.",
    ),
    "route.by.field": _column("aggregatetype", "The column that decides the topic."),
    "route.topic.regex": Setting("text", "(?<routedByValue>.*)", _regex, "A regular expression of its values."),
    "route.topic.replacement": Setting(
        "text",
        "outbox.event.${routedByValue}",
        text,
        "The topic; `${name}` stands for a group of the regular expression.",
    ),
    "route.tombstone.on.empty.payload": Setting(
        "boolean", False, flag, "Whether an empty payload becomes a record without a value."
    ),
}


class Outbox:
    """Routes the rows of an outbox table to topics. It is one of the `transforms` of a connector.

    >>> outbox = Outbox({"table": "public.outbox", "route.topic.replacement": "${routedByValue}.events"})
    >>> row = {"id": "7", "aggregatetype": "orders", "aggregateid": "o1", "type": "created", "payload": "{}"}
    >>> event = outbox(SourceRecord("shop.public.outbox", {"id": "7"}, {"op": "c", "after": row}))
    >>> event.topic, event.key, event.value, event.headers
    ('orders.events', 'o1', '{}', (('id', b'7'),))

    Args:
        configuration: The settings, with the names of Debezium's outbox event router.
    """

    def __init__(self, configuration: Mapping[str, Any] | None = None) -> None:
        self._settings = settings = read_settings(SETTINGS, configuration or {}, WHAT)
        self._suffix = "" if settings["table"] is None else f".{settings['table']}"
        self._placements: tuple[tuple[str, str, str], ...] = settings["table.fields.additional.placement"] or ()

    def __call__(self, record: SourceRecord) -> SourceRecord | None:
        """Returns the event of a row; None for a delete; other records as they are."""
        if not record.topic.endswith(self._suffix):
            return record
        value = record.value
        if value is None or value["op"] in ("d", "t"):
            return None
        if value["op"] == "u":
            if self._settings["table.op.invalid.behavior"] == "fatal":
                raise ConnectorError(
                    f"outbox: a row of {record.topic} was updated, with the key {record.key}",
                    hint="rows of an outbox are only inserted and deleted",
                )
            return None
        row = value["after"]
        payload, schema = self._payload(record, row)
        return SourceRecord(
            self._topic(record, row),
            self._get(record, row, "table.field.event.key"),
            payload,
            self._timestamp(record, row),
            self._headers(record, row),
            self._partition(record, row),
            _schema(record, self._settings["table.field.event.key"]),
            schema,
        )

    def _topic(self, record: SourceRecord, row: Mapping[str, Any]) -> str:
        routed = str(self._get(record, row, "route.by.field"))
        match = self._settings["route.topic.regex"].fullmatch(routed)
        if match is None:
            return record.topic
        groups = match.groupdict()
        return _VARIABLE.sub(lambda variable: groups.get(variable[1]) or "", self._settings["route.topic.replacement"])

    def _payload(self, record: SourceRecord, row: Mapping[str, Any]) -> tuple[Any, ConnectSchema | None]:
        payload = self._get(record, row, "table.field.event.payload")
        schema = _schema(record, self._settings["table.field.event.payload"])
        if payload in (None, "", b"") and self._settings["route.tombstone.on.empty.payload"]:
            return None, None
        if self._settings["table.expand.json.payload"] and isinstance(payload, str):
            try:
                payload, schema = json.loads(payload), None
            except ValueError as error:
                raise ConnectorError(
                    f"outbox: the payload of a row of {record.topic} is not JSON: {error}, with the key {record.key}",
                    hint="set table.expand.json.payload to false",
                ) from None
        added = {alias: column for column, placement, alias in self._placements if placement == "envelope"}
        if not added:
            return payload, schema
        value = {"payload": payload, **{alias: self._named(record, row, column) for alias, column in added.items()}}
        schemas = {"payload": schema, **{alias: _schema(record, column) for alias, column in added.items()}}
        known = {name: each for name, each in schemas.items() if each is not None}
        return value, struct_of(None, known) if len(known) == len(schemas) else None

    def _headers(self, record: SourceRecord, row: Mapping[str, Any]) -> Headers:
        columns = {alias: column for column, placement, alias in self._placements if placement == "header"}
        values = {"id": self._get(record, row, "table.field.event.id")}
        values |= {alias: self._named(record, row, column) for alias, column in columns.items()}
        return tuple((name, _bytes(value)) for name, value in values.items())

    def _partition(self, record: SourceRecord, row: Mapping[str, Any]) -> int | None:
        for column, placement, _alias in self._placements:
            if placement == "partition":
                return int(self._named(record, row, column))
        return record.partition

    def _timestamp(self, record: SourceRecord, row: Mapping[str, Any]) -> int | None:
        column = self._settings["table.field.event.timestamp"]
        if column is None:
            return record.timestamp
        time = self._named(record, row, column)
        if isinstance(time, str):
            return int(datetime.fromisoformat(time).timestamp() * 1000)
        schema = _schema(record, column)
        micros = schema is not None and (schema.name or "").endswith("MicroTimestamp")
        return None if time is None else int(time) // (1000 if micros else 1)

    def _get(self, record: SourceRecord, row: Mapping[str, Any], setting: str) -> Any:
        return self._named(record, row, self._settings[setting])

    @staticmethod
    def _named(record: SourceRecord, row: Mapping[str, Any], column: str) -> Any:
        if column not in row:
            raise ConnectorError(
                f"outbox: the rows of {record.topic} have no column {column!r}; they have: {', '.join(row)}",
                hint="name the outbox table and its columns in the settings of the outbox",
            )
        return row[column]


def _schema(record: SourceRecord, column: str) -> ConnectSchema | None:
    if record.value_schema is None:
        return None
    row = next(field.schema for field in record.value_schema.fields if field.name == "after")
    return next((field.schema for field in row.fields if field.name == column), None)


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode()
