"""Refused requests, as ksqlDB's API reports them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.errors import MillstreamError

BAD_REQUEST, BAD_STATEMENT, QUERY_ENDPOINT, ASSERTION_FAILED, SERVER_ERROR = 40000, 40001, 40002, 41700, 50000


class RequestError(MillstreamError):
    """A request was refused.

    Attributes:
        error_code: The code of the API; its first three digits are the status of HTTP.
        statement: The text of the statement that was refused, None if no statement was.
        entities: What the statements before it returned.
    """

    code = "request"

    def __init__(
        self,
        message: str,
        *,
        error_code: int = BAD_REQUEST,
        statement: str | None = None,
        entities: Sequence[dict[str, Any]] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.error_code = error_code
        self.statement = statement
        self.entities = list(entities)

    @property
    def status(self) -> int:
        """The status of HTTP."""
        return self.error_code // 100

    @property
    def entity(self) -> dict[str, Any]:
        """The error as the API returns it."""
        if self.statement is None:
            return {"@type": "generic_error", "error_code": self.error_code, "message": self.message}
        return {
            "@type": "statement_error",
            "error_code": self.error_code,
            "message": self.message,
            "statementText": self.statement,
            "entities": self.entities,
        }
