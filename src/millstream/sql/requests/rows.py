"""The rows of an answer in the JSON of ksqlDB's API."""

from __future__ import annotations

from typing import Any

from millstream.sql.requests.answers import Answer
from millstream.sql.requests.deployment import ResultRow
from millstream.sql.requests.json_values import json_value


def header(answer: Answer) -> dict[str, Any]:
    """Returns the first row of an answer: the id of the query and the columns."""
    return {"header": {"queryId": answer.query_id, "schema": ", ".join(map(str, answer.columns))}}


def row_entity(answer: Answer, row: ResultRow) -> dict[str, Any]:
    """Returns a row of an answer."""
    columns = [
        None if value is None else json_value(value, column.type)
        for value, column in zip(row.values, answer.columns, strict=True)
    ]
    return {"row": {"columns": columns, **({"tombstone": True} if row.tombstone else {})}}
