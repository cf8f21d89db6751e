"""Which tables and columns are captured."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from millstream.connect.postgres.cdc.settings import Settings

_SYSTEM_SCHEMAS = re.compile(r"pg_.*|information_schema")


class Filters:
    """Decides by the lists of patterns in the settings. A pattern matches a whole name."""

    def __init__(self, settings: Settings) -> None:
        self._schema = _decision(settings, "schema")
        self._table = _decision(settings, "table")
        self._column = _decision(settings, "column")
        self._keys = [(re.compile(pattern), columns) for pattern, columns in settings["message.key.columns"] or ()]

    def table(self, schema: str, table: str) -> bool:
        """Returns whether a table is captured."""
        return not _SYSTEM_SCHEMAS.fullmatch(schema) and self._schema(schema) and self._table(f"{schema}.{table}")

    def column(self, schema: str, table: str, column: str) -> bool:
        """Returns whether a column is in the values of its table."""
        return bool(self._column(f"{schema}.{table}.{column}"))

    def key_columns(self, schema: str, table: str) -> tuple[str, ...] | None:
        """Returns the columns of the key that the settings name; None: they name none."""
        full = f"{schema}.{table}"
        return next((columns for pattern, columns in self._keys if pattern.fullmatch(full)), None)


def _decision(settings: Settings, kind: str) -> Any:
    include, exclude = settings[f"{kind}.include.list"], settings[f"{kind}.exclude.list"]
    patterns = [re.compile(pattern) for pattern in include or exclude or ()]

    @cache
    def decide(name: str) -> bool:
        matches = any(pattern.fullmatch(name) for pattern in patterns)
        return matches if include else not matches

    return decide
