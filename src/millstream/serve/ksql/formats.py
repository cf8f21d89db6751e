"""The content types of ksqlDB's API: how an answer is written in each of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from millstream.errors import MillstreamError
from millstream.sql.requests.answers import COMPLETED, Answer
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


class Framing:
    r"""Puts the items of an answer together.

    >>> framing = Framing(AnswerFormat(JSON, "lists", is_array=True))
    >>> framing.add(["1", "2"]) + framing.add([]) + framing.add(["3"]) + framing.end()
    '[1,\n2,\n3]\n'

    Args:
        form: The format.
        by_line: An item of an array is followed by its comma and the end of its line at once, for readers of lines. The
            answer then has a last item, which `end` takes.
    """

    def __init__(self, form: AnswerFormat, *, by_line: bool = False) -> None:
        self._form = form
        self._by_line = by_line
        self._is_empty = True

    def add(self, items: Collection[str]) -> str:
        """Returns the text of further items."""
        if not items:
            return ""
        first, self._is_empty = self._is_empty, False
        if not self._form.is_array:
            return "".join(f"{item}\n" for item in items)
        if self._by_line:
            return ("[" if first else "") + "".join(f"{item},\n" for item in items)
        return ("[" if first else ",\n") + ",\n".join(items)

    def end(self, last: str | None = None) -> str:
        """Returns the end of the answer, with its last item, if there is one."""
        if not self._form.is_array:
            return "" if last is None else f"{last}\n"
        if self._by_line:
            return f"{'[' if self._is_empty else ''}{last or 'null'}]\n"
        text = "" if last is None else self.add([last])
        return f"{text}{'[' if self._is_empty else ''}]\n"


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
        """Returns the last item, which says why the rows end; None if there is none. A push query always has one."""
        if self._rows == "lists":
            return None
        ended = {"finalMessage": COMPLETED} if self._answer.kind == "push" else None
        return final_row(self._answer) or ended

    def error(self, error: MillstreamError) -> dict[str, Any]:
        """Returns the item of an error after rows."""
        if self._rows != "lists":
            return error_row(error)
        return RequestError(error.message, error_code=SERVER_ERROR).entity
