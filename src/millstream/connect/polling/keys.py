"""The settings of the polling source. Their names are those of Confluent's JDBC source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.config.validators import flag, number, one_of, secret, text
from millstream.connect.settings import REQUIRED, Setting, names, read_settings
from millstream.errors import ConfigError

MODES = ("incrementing", "timestamp", "timestamp+incrementing")

SETTINGS: dict[str, Setting] = {
    "connection.url": Setting(
        "text",
        None,
        text,
        "The database: `postgresql://host:port/database`, or the path of a SQLite file. For another database, pass a "
        "function that connects.",
    ),
    "connection.user": Setting("text", None, text, "The user."),
    "connection.password": Setting("password", None, secret, "The password, as `${env:NAME}` or `${file:PATH}`."),
    "mode": Setting(
        "text",
        REQUIRED,
        one_of(*MODES),
        "`incrementing`: new rows, by a column that only grows. `timestamp`: new and changed rows, by the time of "
        "their last change. `timestamp+incrementing`: the same, by both columns.",
    ),
    "incrementing.column.name": Setting("text", None, text, "The column that only grows."),
    "timestamp.column.name": Setting("text", None, text, "The column with the time of the last change."),
    "timestamp.unit": Setting(
        "text",
        "milliseconds",
        one_of("seconds", "milliseconds", "microseconds"),
        "The unit of times that are stored as numbers since the epoch.",
    ),
    "timestamp.delay.interval.ms": Setting(
        "number",
        0,
        number(0),
        "How late a transaction may commit. Rows are read that much later, so that rows of slower transactions are "
        "not missed.",
    ),
    "table.whitelist": Setting("list", (), names, "The tables, each with its schema or without: `orders,shop.items`."),
    "query": Setting("text", None, text, "A query in place of tables. Its result must have the columns of the mode."),
    "topic.prefix": Setting(
        "text", REQUIRED, text, "The topic of a table is the prefix and its name. The topic of a query is the prefix."
    ),
    "key.fields": Setting("list", (), names, "The columns of the record key. Default: records have no key."),
    "poll.interval.ms": Setting("number", 5_000, number(1), "The pause between two polls that find nothing more."),
    "batch.max.rows": Setting("number", 1_000, number(1), "The number of rows in a batch."),
    "validate.non.null": Setting(
        "boolean",
        True,
        flag,
        "Whether to refuse a table in which a column of the mode is null: such rows are never read.",
    ),
    "quote.sql.identifiers": Setting(
        "text", "always", one_of("always", "never"), "Whether names are quoted with double quotes in statements."
    ),
    "row.limit": Setting(
        "text",
        "limit",
        one_of("limit", "fetch"),
        "How the database limits the rows of a result: `LIMIT n`, or `FETCH FIRST n ROWS ONLY`.",
    ),
}


def polling_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a polling source.

    Raises:
        ConfigError: A name is unknown, or values do not fit together.
    """
    values = read_settings(SETTINGS, given, "PollingSource")
    mode, words = values["mode"], values["mode"].split("+")
    columns = {word: f"{word}.column.name" for word in ("incrementing", "timestamp")}
    for word, name in columns.items():
        if word in words and values[name] is None:
            raise ConfigError(f"PollingSource: mode={mode} needs a column", hint=f"set {name}")
    for word, name in columns.items():
        if word not in words and values[name] is not None:
            raise ConfigError(f"PollingSource: {name} has no effect with mode={mode}", hint="remove it")
    if bool(values["query"]) == bool(values["table.whitelist"]):
        raise ConfigError("PollingSource: give either table.whitelist or query")
    return values
