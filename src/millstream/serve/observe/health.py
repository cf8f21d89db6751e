"""Probes of the server: whether it runs, and whether the applications keep up. They need no token."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from millstream.errors import MillstreamError
from millstream.serve.data import ServedData

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Whether the server runs")
async def healthz() -> dict[str, str]:
    """Answers as long as the server runs."""
    return {"status": "ok"}


@router.get("/readyz", summary="Whether all applications run and keep up")
def readyz(
    request: Request,
    response: Response,
    max_lag: Annotated[int | None, Query(ge=0, description="The largest lag of an application, in records.")] = None,
) -> dict[str, Any]:
    """Answers 200 if each application runs and its lag is within the bound, else 503. It names no application."""
    data: ServedData = request.app.state.data
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
            sources = (report.content.get("metrics") or {}).get("sources", {})
            if max_lag is not None and sum(source["lag"] for source in sources.values()) > max_lag:
                counts["behind"] += 1
    except MillstreamError:
        response.status_code = 503
        return {"status": "unavailable", **counts}
    is_ready = not counts["not_running"] and not counts["behind"]
    if not is_ready:
        response.status_code = 503
        response.headers["Retry-After"] = "1"
    return {"status": "ready" if is_ready else "not ready", **counts}
