"""What a table is after its change events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from millstream.connect.api import SourceRecord


def applied(records: Sequence[SourceRecord]) -> dict[str, Any]:
    """The rows that change events lead to, by their keys. Each event must follow from the one before."""
    rows: dict[str, Any] = {}
    for record in records:
        key = json.dumps(record.key)
        if record.value is None:
            assert key not in rows
        elif record.value["op"] == "d":
            assert rows.pop(key) == record.value["before"]
        else:
            assert (key in rows) == (record.value["op"] == "u")
            if record.value["op"] == "u":
                assert rows[key] == record.value["before"]
            rows[key] = record.value["after"]
    return rows


def operations(records: Sequence[SourceRecord]) -> list[tuple[Any, str | None]]:
    """The keys and operations of records; None for a tombstone."""
    return [(record.key, record.value and record.value["op"]) for record in records]
