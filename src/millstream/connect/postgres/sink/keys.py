"""The settings of the PostgreSQL sink. Their names are those of the JDBC sinks of Debezium and Confluent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from millstream.config.validators import anything, flag, number, one_of, secret, text
from millstream.connect.settings import REQUIRED, Setting, names, read_settings
from millstream.errors import ConfigError

INSERT_MODES = ("insert", "upsert", "update", "changelog")
KEY_MODES = ("none", "record_key", "record_value", "kafka")

_TYPE = re.compile(r"[a-z][a-z0-9_ ]*(\(\s*\d+\s*(,\s*-?\d+\s*)?\))?( with(out)? time zone)?(\[\])?", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
PLACEHOLDERS = ("topic", "source.db", "source.schema", "source.table")
"""What a format of table names can contain."""


def format_parts(form: str) -> list[str]:
    """Returns the schema, if any, and the table of a format. The dots in placeholders do not separate them."""
    return re.split(r"\.(?![^{}]*\})", form)


def _table_format(key: str, value: Any) -> str:
    unknown = [name for name in _PLACEHOLDER.findall(str(value)) if name not in PLACEHOLDERS]
    if not isinstance(value, str) or not value or unknown:
        known = ", ".join(f"${{{name}}}" for name in PLACEHOLDERS)
        raise ConfigError(f"{key}: {value!r} is not allowed", hint=f"a format contains text and {known}")
    parts = format_parts(value)
    if len(parts) > 2 or not all(parts):
        raise ConfigError(f"{key}: {value!r} is not the name of a table", hint="write schema.table, or table")
    return value


def _types(key: str, value: Any) -> dict[str, str]:
    """Accepts types of columns: a dict, or text such as ``paid_at:timestamptz,total:numeric(12,2)``."""
    if isinstance(value, str):
        pairs = [pair.partition(":") for pair in re.split(r",(?![^(]*\))", value) if pair.strip()]
        value = {name.strip(): declared.strip() for name, _colon, declared in pairs}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{key}: {value!r} does not name types", hint="write column:type,column:type,…")
    for name, declared in value.items():
        if not isinstance(declared, str) or not _TYPE.fullmatch(declared.strip()):
            raise ConfigError(
                f"{key}: {declared!r} of column {name!r} is not a type", hint="write for example timestamptz"
            )
    return dict(value)


SETTINGS: dict[str, Setting] = {
    "connection.url": Setting(
        "text",
        REQUIRED,
        text,
        "The database: `postgresql://host:port/database`, also with `jdbc:` in front. It should not contain a "
        "password.",
    ),
    "connection.username": Setting("text", None, text, "The user. The name `connection.user` is accepted, too."),
    "connection.password": Setting("password", None, secret, "The password, as `${env:NAME}` or `${file:PATH}`."),
    "connection.user": Setting("text", None, text, "The same as `connection.username`."),
    "insert.mode": Setting(
        "text",
        "insert",
        one_of(*INSERT_MODES),
        "`insert` appends a row for each record. `upsert` inserts or updates the row of the key. `update` updates "
        "existing rows only. `changelog` appends a row for each record, deletes included, with its topic, partition, "
        "offset, time and operation.",
    ),
    "delete.enabled": Setting(
        "boolean",
        False,
        flag,
        "Whether a null value, or Debezium's operation `d`, deletes the row of the key. Otherwise such records are "
        "skipped. It needs `insert.mode=upsert` and `primary.key.mode=record_key`.",
    ),
    "primary.key.mode": Setting(
        "text",
        "none",
        one_of(*KEY_MODES),
        "Where the columns of the primary key come from: `record_key`, `record_value`, `kafka` (topic, partition and "
        "offset), or `none`. Confluent's name `pk.mode` is accepted, too.",
    ),
    "pk.mode": Setting("text", None, one_of(*KEY_MODES), "The same as `primary.key.mode`."),
    "primary.key.fields": Setting(
        "list",
        (),
        names,
        "The columns of the primary key. With `record_key`: the fields of the key, or the names of its parts if it is "
        "not a struct (default: all fields; `key` for a single value). With `record_value`: fields of the value. "
        "Confluent's name `pk.fields` is accepted, too.",
    ),
    "pk.fields": Setting("list", None, names, "The same as `primary.key.fields`."),
    "collection.name.format": Setting(
        "text",
        "${topic}",
        _table_format,
        "The table of a record: `table` or `schema.table`, with `${topic}`, and for Debezium's records `${source.db}`, "
        "`${source.schema}` and `${source.table}`. Dots in the inserted names become underscores. A null "
        "value has no source, and is skipped by such a format: the change event before it has deleted the row.",
    ),
    "table.name.format": Setting("text", None, _table_format, "The same as `collection.name.format`."),
    "schema.evolution": Setting(
        "text",
        "none",
        one_of("none", "basic"),
        "`basic`: the sink creates missing tables, adds missing columns, and widens columns of numbers. `none`: it "
        "refuses records that the table cannot hold.",
    ),
    "auto.create": Setting("boolean", None, flag, "Whether the sink creates tables. Default: by `schema.evolution`."),
    "auto.evolve": Setting(
        "boolean", None, flag, "Whether the sink adds and widens columns. Default: by `schema.evolution`."
    ),
    "column.types": Setting(
        "map",
        {},
        _types,
        "Types of columns that the sink creates, where the values do not show them: "
        "`paid_at:timestamptz,total:numeric(12,2)`. Integers in a column of timestamps are milliseconds since the "
        "epoch, and days since the epoch in a column of dates.",
    ),
    "missing.fields": Setting(
        "text",
        "keep",
        one_of("keep", "null"),
        "What an upsert does to the columns for which the value has no field: `keep` leaves them alone, `null` sets "
        "those without a default to null.",
    ),
    "offsets.schema": Setting(
        "text",
        None,
        text,
        "The schema of the table `millstream_offsets`, in which the sink records what it has written. Default: the "
        "current schema of the user.",
    ),
    "lock.timeout.ms": Setting(
        "number", 10_000, number(1), "How long the sink waits for a lock of the database before it tries again."
    ),
    "write.timeout.ms": Setting(
        "number",
        600_000,
        number(1_000),
        "How long a transaction may take. After that, the sink closes the connection and tries again.",
    ),
    "application.name": Setting("text", None, anything, "The name of the connection in `pg_stat_activity`."),
}

_SYNONYMS = {
    "connection.user": "connection.username",
    "pk.mode": "primary.key.mode",
    "pk.fields": "primary.key.fields",
    "table.name.format": "collection.name.format",
}


def sink_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a sink, without synonyms.

    Raises:
        ConfigError: A name is unknown, or values do not fit together.
    """
    values = read_settings(SETTINGS, given, "PostgresSink")
    for synonym, name in _SYNONYMS.items():
        value = values.pop(synonym)
        if value is not None and name in given:
            raise ConfigError(f"PostgresSink: {synonym} and {name} are the same setting", hint="give one of them")
        if value is not None:
            values[name] = value
    evolves = values["schema.evolution"] == "basic"
    for name in ("auto.create", "auto.evolve"):
        values[name] = evolves if values[name] is None else values[name]
    _check_modes(values)
    return values


def _check_modes(values: Mapping[str, Any]) -> None:
    mode, keys = values["insert.mode"], values["primary.key.mode"]
    if mode in {"upsert", "update"} and keys not in {"record_key", "record_value"}:
        raise ConfigError(
            f"PostgresSink: insert.mode={mode} needs a primary key, and primary.key.mode is {keys}",
            hint="set primary.key.mode to record_key or record_value",
        )
    if keys == "record_value" and not values["primary.key.fields"]:
        raise ConfigError("PostgresSink: primary.key.mode=record_value names no columns", hint="set primary.key.fields")
    if values["delete.enabled"] and (mode != "upsert" or keys != "record_key"):
        raise ConfigError(
            "PostgresSink: delete.enabled needs the key of a row",
            hint="set insert.mode to upsert and primary.key.mode to record_key; changelog records deletes without it",
        )
