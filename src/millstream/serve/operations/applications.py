"""Routes of applications: state, topology, configuration, errors, and commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Path, Request, Response

from millstream.serve.access.authorization import require
from millstream.serve.access.roles import Principal, Role
from millstream.serve.data import ServedData, UnknownApplicationError
from millstream.serve.observe.reports import Report

router = APIRouter(prefix="/api/v1/applications", tags=["applications"])

Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]
Operator = Annotated[Principal, Depends(require(Role.OPERATOR))]
Admin = Annotated[Principal, Depends(require(Role.ADMIN))]
ApplicationId = Annotated[str, Path(description="The application id.", max_length=300)]

_TYPES = {"json": "application/json", "mermaid": "text/plain", "text": "text/plain"}


def data_of(request: Request) -> ServedData:
    """The data that the server serves."""
    data: ServedData = request.app.state.data
    return data


Data = Annotated[ServedData, Depends(data_of)]


@router.get("", summary="All applications")
def list_applications(data: Data, _principal: Viewer) -> dict[str, Any]:
    """Returns a summary of each application, running or not."""
    return {"applications": [summary(data.reports.report(name), name) for name in data.applications()]}


@router.get("/{application}", summary="One application")
def show(application: ApplicationId, data: Data, _principal: Viewer) -> dict[str, Any]:
    """Returns the summary of an application, its metrics and its last errors."""
    report = known(data, application)
    content = report.content
    return {
        **summary(report, application),
        "errors": content.get("errors", []),
        "metrics": content.get("metrics", {}),
    }


@router.get(
    "/{application}/topology",
    summary="The topology",
    response_class=Response,
    responses={200: {"content": {"application/json": {}, "text/plain": {}}, "description": "The topology."}},
)
def topology(
    application: ApplicationId, data: Data, _principal: Viewer, format: Literal["json", "mermaid", "text"] = "json"
) -> Response:
    """Returns the topology as it runs: see `App.describe` for the formats."""
    known(data, application)
    text = data.reports.text(application, f"topology.{format}")
    if text is None:
        raise UnknownApplicationError(f"application {application!r} has not reported its topology: start it once")
    return Response(text, media_type=_TYPES[format])


@router.get("/{application}/configuration", summary="The configuration")
def configuration(application: ApplicationId, data: Data, _principal: Viewer) -> dict[str, Any]:
    """Returns the configuration of an application. Secrets are hidden."""
    known(data, application)
    return data.reports.configuration(application)


@router.post("/{application}/pause", summary="Pause", status_code=202)
def pause(application: ApplicationId, data: Data, _principal: Operator) -> dict[str, str]:
    """Has the application finish the work that it has begun, and process nothing until it is resumed."""
    return _command(data, application, "pause")


@router.post("/{application}/resume", summary="Resume", status_code=202)
def resume(application: ApplicationId, data: Data, _principal: Operator) -> dict[str, str]:
    """Continues after a pause."""
    return _command(data, application, "resume")


@router.post("/{application}/stop", summary="Stop", status_code=202)
def stop(application: ApplicationId, data: Data, _principal: Admin) -> dict[str, str]:
    """Has the application commit what it has processed, and stop."""
    return _command(data, application, "stop")


def known(data: ServedData, application: str) -> Report:
    """Returns the report of an application that exists.

    Raises:
        UnknownApplicationError: It does not exist.
    """
    report = data.reports.report(application)
    if not report.content:
        data.state(application)
    return report


def summary(report: Report, application: str) -> dict[str, Any]:
    """The main figures of an application."""
    content = report.content
    metrics: Mapping[str, Any] = content.get("metrics") or {}
    rates = metrics.get("records_per_second") or {"in": 0.0, "out": 0.0}
    errors = content.get("errors") or []
    counts: Mapping[str, int] = metrics.get("dropped") or {}
    return {
        "id": application,
        "state": report.state,
        "live": report.is_live,
        "late": report.is_late,
        "mode": content.get("mode"),
        "run": content.get("run"),
        "pid": content.get("pid"),
        "started": content.get("started"),
        "since": content.get("since"),
        "reported": content.get("time"),
        "problem": content.get("problem"),
        "error": errors[-1] if errors and report.state == "ERROR" else None,
        "rate_in": rates["in"] if report.is_live else 0.0,
        "rate_out": rates["out"] if report.is_live else 0.0,
        "lag": report.lag,
        "dropped": sum(counts.values()),
        "restarts": metrics.get("restarts", 0),
        "state_bytes": metrics.get("state_bytes", 0),
    }


def _command(data: ServedData, application: str, command: str) -> dict[str, str]:
    report = known(data, application)
    if not report.is_live:
        raise HTTPException(409, f"application {application!r} does not run: its state is {report.state}")
    data.reports.command(application, command)
    return {"application": application, "command": command}
