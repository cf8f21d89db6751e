"""The rows of an answer in the JSON of ksqlDB's API."""

from __future__ import annotations

from typing import Any

from millstream.errors import MillstreamError
from millstream.sql.catalog.sources import Column, FormatInfo
from millstream.sql.formats import codec
from millstream.sql.formats.numbers import to_base64
from millstream.sql.formats.protobuf_schemas import protobuf_schema
from millstream.sql.requests.answers import Answer
from millstream.sql.requests.deployment import ResultRow
from millstream.sql.requests.errors import SERVER_ERROR, RequestError
from millstream.sql.requests.json_values import json_value


def header(answer: Answer) -> dict[str, Any]:
    """Returns the first row of an answer: the id of the query and the columns."""
    return {"header": {"queryId": answer.query_id, "schema": ", ".join(map(str, answer.columns))}}


def final_row(answer: Answer) -> dict[str, Any] | None:
    """Returns the last row of an answer, which says why it ended; None if it has none."""
    return None if answer.final_message is None else {"finalMessage": answer.final_message}


def error_row(error: MillstreamError) -> dict[str, Any]:
    """Returns the row of a query that fails after rows have been sent."""
    return {"errorMessage": RequestError(error.message, error_code=SERVER_ERROR).entity}


class ProtobufRows:
    """The rows of an answer as Protobuf messages, whose schema the first row has.

    Attributes:
        schema: The text of the schema.
    """

    def __init__(self, answer: Answer) -> None:
        columns = [Column(column.name, column.type) for column in answer.columns]
        self.schema = protobuf_schema(columns, None, None, wrapped=True)
        self._answer = answer
        self._codec = codec(FormatInfo("PROTOBUF_NOSR", wrap=True), columns, is_key=False)

    def header(self) -> dict[str, Any]:
        """Returns the first row."""
        members = header(self._answer)["header"]
        return {"header": {**members, "protoSchema": self.schema}}

    def row_entity(self, row: ResultRow) -> dict[str, Any]:
        """Returns a row: the bytes of a message, in base64."""
        data = self._codec.encode_values(row.values)
        assert data is not None
        return {"row": {"protobufBytes": to_base64(data), **({"tombstone": True} if row.tombstone else {})}}


def row_entity(answer: Answer, row: ResultRow) -> dict[str, Any]:
    """Returns a row of an answer."""
    columns = [
        None if value is None else json_value(value, column.type)
        for value, column in zip(row.values, answer.columns, strict=True)
    ]
    return {"row": {"columns": columns, **({"tombstone": True} if row.tombstone else {})}}
