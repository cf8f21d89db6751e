"""The settings of the source for change data capture, with Debezium's names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from millstream.config.validators import Validator, flag, number, one_of, optional, secret, text
from millstream.connect.postgres.client import Server
from millstream.connect.postgres.types import TypeOptions
from millstream.connect.settings import REQUIRED, Setting, names, read_settings
from millstream.core.names import check_name
from millstream.errors import ConfigError

WHAT = "PostgreSQL source"

_NAME = re.compile(r"[a-z0-9_]{1,63}")


def _prefix(key: str, value: Any) -> str:
    return check_name(value, key)


def _slot(key: str, value: Any) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise ConfigError(f"{key}: {value!r} is not allowed", hint="use up to 63 of: a to z, 0 to 9, _")


def _patterns(key: str, value: Any) -> tuple[str, ...]:
    listed = names(key, value)
    for pattern in listed:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"{key}: {pattern!r} is not a regular expression: {error}") from None
    return listed


def _operations(key: str, value: Any) -> tuple[str, ...]:
    listed = names(key, value)
    return () if listed == ("none",) else tuple(one_of("c", "u", "d", "t")(key, name) for name in listed)


def _key_columns(key: str, value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Accepts ``table-pattern:column,column;table-pattern:…``."""
    if not isinstance(value, str):
        raise ConfigError(f"{key}: {value!r} is not text", hint="write schema.table:column,column;…")
    entries = []
    for entry in filter(None, (part.strip() for part in value.split(";"))):
        pattern, colon, columns = entry.rpartition(":")
        if not colon:
            raise ConfigError(f"{key}: {entry!r} names no columns", hint="write schema.table:column,column;…")
        entries.append((_patterns(key, [pattern])[0], names(key, columns)))
    return tuple(entries)


def _list(doc: str, check: Validator = _patterns) -> Setting:
    return Setting("list", None, optional(check), doc)


def _choice(default: str, *others: str, doc: str) -> Setting:
    allowed = ", ".join(f"`{name}`" for name in (default, *others))
    return Setting("text", default, one_of(default, *others), f"{doc} One of {allowed}.")


SETTINGS: dict[str, Setting] = {
    "topic.prefix": Setting(
        "text", REQUIRED, _prefix, "The first part of the names of topics: `<prefix>.<schema>.<table>`."
    ),
    "database.hostname": Setting("text", "localhost", text, "The host of the server, or the directory of its socket."),
    "database.port": Setting("number", 5432, number(1, 65_535), "The port of the server."),
    "database.user": Setting("text", REQUIRED, text, "The role. It needs `REPLICATION`, and `SELECT` on the tables."),
    "database.password": Setting("text", None, secret, "The password of the role. It is never printed."),
    "database.dbname": Setting("text", REQUIRED, text, "The database."),
    "database.sslmode": _choice(
        "prefer", "disable", "allow", "require", "verify-ca", "verify-full", doc="Whether the connection uses TLS."
    ),
    "database.sslrootcert": Setting("text", None, optional(text), "The file with the trusted certificates."),
    "database.sslcert": Setting("text", None, optional(text), "The file with the certificate of the client."),
    "database.sslkey": Setting("text", None, optional(text), "The file with the key of the client."),
    "slot.name": Setting(
        "text",
        "millstream",
        _slot,
        "The replication slot. It belongs to this connector alone: without a recorded position, a slot of this name "
        "is created again for the first snapshot.",
    ),
    "slot.drop.on.stop": Setting(
        "boolean",
        False,
        flag,
        "Whether the slot is dropped when the connector stops or is paused. It cannot continue then: for tests only.",
    ),
    "publication.name": Setting("text", "millstream_publication", text, "The publication that the slot reads."),
    "publication.autocreate.mode": _choice(
        "filtered",
        "all_tables",
        "disabled",
        doc="Whether the publication is created, for the captured tables or for all tables (for superusers). With "
        "`filtered`, captured tables that are created later are added to it.",
    ),
    "schema.include.list": _list("Regular expressions of the schemas to capture, which match the whole name."),
    "schema.exclude.list": _list("Regular expressions of schemas not to capture."),
    "table.include.list": _list("Regular expressions of the tables to capture, as `schema.table`."),
    "table.exclude.list": _list("Regular expressions of tables not to capture, as `schema.table`."),
    "column.include.list": _list("Regular expressions of the columns in values, as `schema.table.column`."),
    "column.exclude.list": _list("Regular expressions of columns not in values, as `schema.table.column`."),
    "message.key.columns": _list(
        "Columns of the key in place of the primary key: `schema.table:column,column;…`.", _key_columns
    ),
    "snapshot.mode": _choice(
        "initial",
        "initial_only",
        "always",
        "when_needed",
        "no_data",
        "never",
        doc="When the rows of the tables are read: at the first start (`initial`), and then end (`initial_only`); at "
        "each start (`always`), as incremental snapshots; at the first start and when the slot is lost "
        "(`when_needed`); or not at all (`no_data`, `never`).",
    ),
    "snapshot.fetch.size": Setting("number", 10_240, number(1), "Rows that the first snapshot reads at a time."),
    "incremental.snapshot.chunk.size": Setting(
        "number", 1_024, number(1), "Rows that an incremental snapshot reads at a time."
    ),
    "max.batch.size": Setting("number", 2_048, number(1), "Changes in a batch. Larger transactions are cut."),
    "decimal.handling.mode": _choice("precise", "double", "string", doc="The form of `numeric` and `money`."),
    "money.fraction.digits": Setting("number", 2, number(0, 10), "Digits after the point of `money`."),
    "time.precision.mode": _choice(
        "adaptive",
        "adaptive_time_microseconds",
        "connect",
        doc="The form of dates and times: by the precision of the column, with times in microseconds, or Kafka "
        "Connect's own types in milliseconds.",
    ),
    "binary.handling.mode": _choice("bytes", "base64", "base64-url-safe", "hex", doc="The form of `bytea`."),
    "interval.handling.mode": _choice(
        "numeric", "string", doc="The form of `interval`: microseconds with months of 30.4375 days, or ISO 8601."
    ),
    "hstore.handling.mode": _choice("map", "json", doc="The form of `hstore`."),
    "unavailable.value.placeholder": Setting(
        "text",
        "__debezium_unavailable_value",
        text,
        "The text in place of a large value that an update did not change and that the server did not send.",
    ),
    "tombstones.on.delete": Setting(
        "boolean", True, flag, "Whether a record without a value follows each delete, for compacted topics."
    ),
    "skipped.operations": Setting(
        "list",
        ("t",),
        _operations,
        "Operations without records: `c` insert, `u` update, `d` delete, `t` truncate; or `none`.",
    ),
    "provide.transaction.metadata": Setting(
        "boolean", False, flag, "Whether records name their transaction, and a topic has the bounds of transactions."
    ),
    "topic.transaction": Setting("text", "transaction", text, "The name of that topic, after the prefix."),
    "heartbeat.interval.ms": Setting(
        "number",
        0,
        number(0),
        "The time between records in the heartbeat topic; 0: there are none. The position moves also without.",
    ),
    "topic.heartbeat.prefix": Setting(
        "text", "__debezium-heartbeat", text, "The name of the heartbeat topic, before the prefix of topics."
    ),
    "status.update.interval.ms": Setting(
        "number", 5_000, number(100), "The time between reports of the position to an idle server."
    ),
}


class Settings:
    """The settings of a source, checked.

    Attributes:
        values: The value of each setting, by name.
        server: The database.
        types: How values are converted.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.values = values = read_settings(SETTINGS, given, WHAT)
        tls = {name: values[f"database.{name}"] for name in ("sslmode", "sslrootcert", "sslcert", "sslkey")}
        self.server = Server(
            host=values["database.hostname"],
            port=values["database.port"],
            database=values["database.dbname"],
            user=values["database.user"],
            password=values["database.password"],
            tls={name: value for name, value in tls.items() if value is not None},
        )
        self.types = TypeOptions(
            decimals=values["decimal.handling.mode"],
            times=values["time.precision.mode"],
            binary=values["binary.handling.mode"],
            intervals=values["interval.handling.mode"],
            hstore=values["hstore.handling.mode"],
            money_digits=values["money.fraction.digits"],
            placeholder=values["unavailable.value.placeholder"],
        )
        for kind in ("schema", "table", "column"):
            if values[f"{kind}.include.list"] and values[f"{kind}.exclude.list"]:
                raise ConfigError(f"{WHAT}: {kind}.include.list and {kind}.exclude.list are both given")

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __repr__(self) -> str:
        return f"Settings({self.server})"

    @property
    def prefix(self) -> str:
        """The first part of the names of topics."""
        return str(self.values["topic.prefix"])
