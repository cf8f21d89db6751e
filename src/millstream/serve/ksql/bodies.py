"""The bodies of requests to ksqlDB's API."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from millstream.serve.ksql.engine import CallFailed
from millstream.sql.requests.errors import BAD_REQUEST

Scalar = str | int | float | bool
Properties = dict[str, Scalar | None]
T = TypeVar("T")


class Statements(msgspec.Struct):
    """The body of ``/ksql``, ``/query`` and ``/query-stream``. Each takes the names of the others, too."""

    ksql: str | None = None
    sql: str | None = None
    streamsProperties: Properties | None = None  # noqa: N815  (the name of ksqlDB)
    properties: Properties | None = None
    sessionVariables: Properties | None = None  # noqa: N815

    def arguments(self) -> dict[str, Any]:
        """Returns the text, the properties and the variables.

        Raises:
            CallFailed: There is no text.
        """
        text = self.ksql if self.ksql is not None else self.sql
        if text is None:
            raise CallFailed.generic(BAD_REQUEST, "the body needs the statements: ksql, or sql for /query-stream")
        given = {**(self.streamsProperties or {}), **(self.properties or {})}
        properties = {name: value for name, value in given.items() if value is not None}
        variables = {name: value for name, value in (self.sessionVariables or {}).items() if value is not None}
        return {"text": text, "properties": properties, "variables": variables}


class CloseQuery(msgspec.Struct):
    """The body of ``/close-query``."""

    queryId: str  # noqa: N815


class InsertTarget(msgspec.Struct):
    """The first line of ``/inserts-stream``."""

    target: str
    properties: Properties | None = None


def decoded(body: bytes, type_: type[T]) -> T:
    """Reads a body.

    Raises:
        CallFailed: It is not JSON, or a member is missing or has another type.
    """
    try:
        return msgspec.json.decode(body, type=type_)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CallFailed.generic(BAD_REQUEST, f"the body of the request is not valid: {error}") from None


def schema(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """Returns the description of a body for OpenAPI."""
    described = {"type": "object", "properties": properties, "required": list(required)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": described}}}}
