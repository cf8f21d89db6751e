"""Probes of the server: whether it runs, and whether the applications keep up. They need no token."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from millstream.errors import MillstreamError
from millstream.serve.data import ServedData

router = APIRouter(tags=["health"])


class Readiness(BaseModel):
    """The number of applications by what they do."""

    status: str
    running: int
    not_running: int
    behind: Annotated[int, Field(description="Those that run, and whose lag exceeds the bound.")]


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", summary="Whether the server runs")
async def healthz() -> dict[str, str]:
    """Answers as long as the server runs."""
    return {"status": "ok"}


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", summary="Whether all applications run and keep up", responses={503: {"model": Readiness}})
def readyz(
    request: Request,
    response: Response,
    max_lag: Annotated[
        int | None,
        Query(
            ge=0,
            description="The largest lag of an application, in records. Default: `--ready-max-lag` of the server.",
        ),
    ] = None,
) -> Readiness:
    """Answers 200 if each application runs and its lag is within the bound, else 503. It names no application.

    An application that was stopped does not count. One that is paused, restarts, has failed or was killed does not run.
    """
    data: ServedData = request.app.state.data
    bound = data.options.ready_max_lag if max_lag is None else max_lag
    counts = {"running": 0, "not_running": 0, "behind": 0}
    try:
        for name in data.reports.applications():
            report = data.reports.report(name)
            if report.state == "NOT_RUNNING":
                continue  # it was stopped
            if report.state != "RUNNING" or report.is_late:
                counts["not_running"] += 1
                continue
            counts["running"] += 1
            if bound is not None and report.lag > bound:
                counts["behind"] += 1
    except MillstreamError:
        response.status_code = 503
        response.headers["Retry-After"] = "1"
        return Readiness(status="unavailable", **counts)
    is_ready = not counts["not_running"] and not counts["behind"]
    if not is_ready:
        response.status_code = 503
        response.headers["Retry-After"] = "1"
    return Readiness(status="ready" if is_ready else "not ready", **counts)
