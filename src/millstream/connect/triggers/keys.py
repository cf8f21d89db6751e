"""The settings of the trigger source. Where Debezium has a setting, its name is used."""

from __future__ import annotations

import re
from typing import Any

from millstream.config.validators import flag, number, one_of, secret, text
from millstream.connect.settings import REQUIRED, Setting, names
from millstream.errors import ConfigError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}")


def _plain_name(key: str, value: Any) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise ConfigError(f"{key}: {value!r} is not allowed", hint="use letters, digits and underscores, 41 at most")


SETTINGS: dict[str, Setting] = {
    "connection.url": Setting(
        "text", REQUIRED, text, "The database: `postgresql://host:port/database`, or the path of a SQLite file."
    ),
    "connection.user": Setting("text", None, text, "The user."),
    "connection.password": Setting("password", None, secret, "The password, as `${env:NAME}` or `${file:PATH}`."),
    "table.include.list": Setting(
        "list",
        REQUIRED,
        names,
        "The tables: names in SQLite, `schema.table` in PostgreSQL, without regular expressions.",
    ),
    "topic.prefix": Setting(
        "text", REQUIRED, text, "The start of the names of topics: `prefix.table`, or `prefix.schema.table`."
    ),
    "change.table": Setting(
        "text",
        "millstream_changes",
        _plain_name,
        "The table to which the triggers write. Each source has its own.",
    ),
    "tombstones.on.delete": Setting(
        "boolean", True, flag, "Whether the change event of a delete is followed by a record with a null value."
    ),
    "skipped.operations": Setting(
        "text", "t", one_of("t", "none"), "`t`: a TRUNCATE is not emitted. `none`: it is. SQLite has no TRUNCATE."
    ),
    "max.batch.size": Setting("number", 2_048, number(1), "The number of changes in a batch."),
    "poll.interval.ms": Setting("number", 100, number(1), "The pause after a look at an empty change table."),
}
