"""The content types of ksqlDB's API: how an answer is written in each of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from millstream.errors import MillstreamError
from millstream.sql.requests.answers import Answer
from millstream.sql.requests.deployment import ResultRow
from millstream.sql.requests.errors import SERVER_ERROR, RequestError
from millstream.sql.requests.json_values import json_value
from millstream.sql.requests.rows import ProtobufRows, error_row, final_row, header, row_entity

KSQL_JSON = "application/vnd.ksql.v1+json"
JSON = "application/json"
DELIMITED = "application/vnd.ksqlapi.delimited.v1"
PROTOBUF = "application/vnd.ksql.v1+protobuf"

Rows = Literal["entities", "lists", "protobuf"]


@dataclass(frozen=True)
class AnswerFormat:
    """How the rows of an answer are written.

    Attributes:
        content_type: The content type.
        rows: Objects with ``header``, ``row`` and ``finalMessage``; or lists of values behind an object; or objects
            with messages of Protobuf.
        is_array: Whether the answer is one JSON array; otherwise, each item is a line.
    """

    content_type: str
    rows: Rows
    is_array: bool

    def text(self, items: Collection[str], *, is_first: bool) -> str:
        """Returns the text of items that follow each other."""
        if not self.is_array:
            return "".join(f"{item}\n" for item in items)
        return ("[" if is_first else ",\n") + ",\n".join(items) if items else ""

    @property
    def end(self) -> str:
        """What ends an answer."""
        return "]" if self.is_array else ""


QUERY_FORMATS = {
    KSQL_JSON: AnswerFormat(KSQL_JSON, "entities", is_array=True),
    JSON: AnswerFormat(JSON, "entities", is_array=True),
    DELIMITED: AnswerFormat(DELIMITED, "lists", is_array=False),
    PROTOBUF: AnswerFormat(PROTOBUF, "protobuf", is_array=True),
}
"""The formats of ``/query``, the default first."""

QUERY_STREAM_FORMATS = {
    DELIMITED: AnswerFormat(DELIMITED, "lists", is_array=False),
    JSON: AnswerFormat(JSON, "lists", is_array=True),
    KSQL_JSON: AnswerFormat(KSQL_JSON, "entities", is_array=True),
    PROTOBUF: AnswerFormat(PROTOBUF, "protobuf", is_array=True),
}
"""The formats of ``/query-stream``, the default first."""

INSERT_FORMATS = {
    DELIMITED: AnswerFormat(DELIMITED, "entities", is_array=False),
    JSON: AnswerFormat(JSON, "entities", is_array=True),
    KSQL_JSON: AnswerFormat(KSQL_JSON, "entities", is_array=True),
}
"""The formats of ``/inserts-stream``, the default first."""

_ALIASES = {"application/vnd.ksqlapi.protobuf.v1": PROTOBUF}


def accepted(header_value: str | None, offered: Collection[str]) -> str | None:
    """Returns the content type that the header Accept prefers; None if it admits none of them.

    >>> accepted(None, [DELIMITED, JSON]), accepted("text/html, application/json;q=0.9", [DELIMITED, JSON])
    ('application/vnd.ksqlapi.delimited.v1', 'application/json')
    >>> accepted("application/json;q=0.1, application/*", [DELIMITED, JSON]), accepted("text/html", [JSON])
    ('application/vnd.ksqlapi.delimited.v1', None)
    """
    if header_value is None or not header_value.strip():
        return next(iter(offered))
    wanted = []
    for place, part in enumerate(header_value.split(",")[:50]):
        kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
        wanted.append((-_quality(parameters), place, _ALIASES.get(kind, kind)))
    for quality, _place, kind in sorted(wanted):
        for each in offered if quality < 0 else ():
            if kind in {each, "*/*", "application/*"}:
                return each
    return None


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return max(0.0, min(1.0, float(value)))
            except ValueError:
                return 0.0
    return 1.0


class Writer:
    """Writes the items of an answer as JSON values."""

    def __init__(self, rows: Rows, answer: Answer) -> None:
        self._rows = rows
        self._answer = answer
        self._protobuf = ProtobufRows(answer) if rows == "protobuf" else None

    def header(self) -> dict[str, Any]:
        """Returns the first item: the id of the query and its columns."""
        if self._protobuf is not None:
            return self._protobuf.header()
        if self._rows == "entities":
            return header(self._answer)
        columns = self._answer.columns
        return {
            "queryId": self._answer.query_id,
            "columnNames": [column.name for column in columns],
            "columnTypes": [str(column.type) for column in columns],
        }

    def row(self, row: ResultRow) -> dict[str, Any] | list[Any] | None:
        """Returns the item of a row; None: the format has none for the row of a table that has vanished."""
        if self._protobuf is not None:
            return self._protobuf.row_entity(row)
        if self._rows == "entities":
            return row_entity(self._answer, row)
        if row.tombstone:
            return None
        return [json_value(value, column.type) for value, column in zip(row.values, self._answer.columns, strict=True)]

    def final(self) -> dict[str, Any] | None:
        """Returns the last item, which says why the rows end; None if there is none."""
        return None if self._rows == "lists" else final_row(self._answer)

    def error(self, error: MillstreamError) -> dict[str, Any]:
        """Returns the item of an error after rows."""
        if self._rows != "lists":
            return error_row(error)
        return RequestError(error.message, error_code=SERVER_ERROR).entity
