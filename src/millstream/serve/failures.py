"""Turns errors into answers: a status, a message, a hint, and the number of the request."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from millstream.errors import (
    BrokerError,
    ConfigError,
    FencedError,
    InvalidNameError,
    LogError,
    MillstreamError,
    OffsetOutOfRangeError,
    RecordRefusedError,
    RegistryError,
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
from millstream.serve.access.guard import UNEXPECTED

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
    (RegistryError, 503),
    (SchemaError, 400),
    (TopicExistsError, 409),
    (FencedError, 409),
    (SetupError, 409),
    (BrokerError, 503),
    (StateError, 503),
    (LogError, 503),
)


class Error(BaseModel):
    """What happened, and what to do about it."""

    message: Annotated[str, Field(description="What happened, and where.")]
    code: Annotated[str | None, Field(description="The code of the error: see the reference of errors.")] = None
    hint: Annotated[str | None, Field(description="What to do.")] = None
    problems: Annotated[
        list[dict[str, str]] | None, Field(description="Of a request that is not valid: each place, and its problem.")
    ] = None


class Failure(BaseModel):
    """The answer to a request that has failed."""

    error: Error
    request_id: Annotated[str, Field(description="The number of the request, which the log of the server has, too.")]


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Failure, "description": description}
    for status, description in (
        (400, "The request asks for something that cannot be."),
        (401, "There is no valid token and no session."),
        (403, "The role is not sufficient, or the request comes from another site."),
        (404, "There is no such thing."),
        (405, "The path does not have this method."),
        (409, "The state of the thing does not permit it."),
        (413, "The body exceeds 1 MB."),
        (422, "A parameter or the body is not valid."),
        (429, "There were too many requests. Retry-After says when to try again."),
        (503, "The log, a broker or the registry does not answer, or not in time. Retry-After says when to try again."),
    )
}
"""The errors of all routes, for OpenAPI."""
# The HTTP library sends these, before any route.
RESPONSES[414] = {"description": "The address exceeds 64 kB. This answer has no body."}
RESPONSES[431] = {"description": "The address and the headers exceed 64 kB. This answer has no body."}


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

    async def unexpected(request: Request, _error: Exception) -> JSONResponse:
        return answer(request, 500, UNEXPECTED, code="unexpected")  # the guard prints the traceback

    app.add_exception_handler(Exception, unexpected)
    app.add_exception_handler(MillstreamError, failed)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, invalid)
