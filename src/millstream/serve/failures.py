"""Turns errors into answers: a status, a message, a hint, and the number of the request."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from millstream.errors import (
    BrokerError,
    ConfigError,
    InvalidNameError,
    LogError,
    MillstreamError,
    OffsetOutOfRangeError,
    RecordRefusedError,
    SchemaError,
    SerdeError,
    SetupError,
    StateError,
    TopicExistsError,
    UnknownGroupError,
    UnknownSchemaError,
    UnknownStoreError,
    UnknownTopicError,
)

_STATUS: tuple[tuple[type[MillstreamError], int], ...] = (
    (UnknownStoreError, 404),
    (UnknownTopicError, 404),
    (UnknownGroupError, 404),
    (UnknownSchemaError, 404),
    (InvalidNameError, 400),
    (OffsetOutOfRangeError, 400),
    (RecordRefusedError, 400),
    (ConfigError, 400),
    (SerdeError, 400),
    (SchemaError, 400),
    (TopicExistsError, 409),
    (SetupError, 409),
    (BrokerError, 503),
    (StateError, 503),
    (LogError, 503),
)


def status_of(error: MillstreamError) -> int:
    """Returns the status of an error: that of the first of its classes in the list."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 400)


def answer(
    request: Request, status: int, message: str, *, code: str | None = None, hint: str | None = None, **more: Any
) -> JSONResponse:
    """Returns the answer for an error."""
    error = {"message": message, "code": code, "hint": hint, **more}
    content = {
        "error": {key: value for key, value in error.items() if value is not None},
        "request_id": request.state.request_id,
    }
    return JSONResponse(content, status, {"Retry-After": "1"} if status == 503 else None)


def install(app: FastAPI) -> None:
    """Adds the handlers of errors."""

    async def failed(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, MillstreamError)
        return answer(request, status_of(error), error.message, code=error.code, hint=error.hint)

    async def refused(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        response = answer(request, error.status_code, str(error.detail))
        response.headers.update(error.headers or {})
        return response

    async def invalid(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        problems = [
            {"at": ".".join(str(part) for part in problem["loc"]), "message": problem["msg"]}
            for problem in error.errors()
        ]
        return answer(request, 422, "the request is not valid", code="request", problems=problems)

    app.add_exception_handler(MillstreamError, failed)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, invalid)
