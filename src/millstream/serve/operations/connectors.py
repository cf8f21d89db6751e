"""Routes of connectors, with the paths and answers of Kafka Connect's REST API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Depends, HTTPException, Path
from pydantic import BaseModel, ConfigDict, Field

from millstream.connect.plugins import BUILT_IN
from millstream.errors import suggestion
from millstream.serve.access.authorization import require
from millstream.serve.access.roles import Principal, Role
from millstream.serve.data import ServedData
from millstream.serve.observe.reports import Report
from millstream.serve.operations.applications import ApplicationId, Data

router = APIRouter(tags=["connectors"])

Admin = Annotated[Principal, Depends(require(Role.ADMIN))]
ConnectorName = Annotated[
    str,
    Path(
        description="The name of the connector; APPLICATION:NAME if several applications have one of that name.",
        max_length=600,
    ),
]

_STATES = {"RESTARTING": "RUNNING", "FINISHED": "STOPPED", "STOPPED": "UNASSIGNED"}
"""States of tasks that Kafka Connect does not have, and the ones that its clients know."""


class Found(NamedTuple):
    """A connector, as its application has reported it."""

    name: str
    report: Report
    facts: dict[str, Any]


class SnapshotRequest(BaseModel):
    """The tables of an ad-hoc snapshot."""

    model_config = ConfigDict(extra="forbid")

    tables: Annotated[list[str], Field(description="The tables, as schema.table.", min_length=1, max_length=1000)]


@router.get("/connectors", summary="The names of all connectors")
def list_connectors(data: Data, _principal: Admin) -> list[str]:
    """Returns the names of the connectors of all applications."""
    found = list(_all(data))
    names = [one.name for one in found]
    return [one.name if names.count(one.name) == 1 else f"{one.report.application}:{one.name}" for one in found]


@router.get("/connector-plugins", summary="The connector types")
def list_plugins(_principal: Admin) -> list[dict[str, str]]:
    """Returns the connector types of this version."""
    from importlib.metadata import version  # noqa: PLC0415  (needed only here)

    number = version("millstream")
    return [{"class": plugin.name, "type": plugin.kind, "version": number} for plugin in BUILT_IN]


@router.get("/connectors/{name}", summary="One connector")
def show(name: ConnectorName, data: Data, _principal: Admin) -> dict[str, Any]:
    """Returns the type, the promise, the tasks and the metrics of a connector."""
    found = _found(data, name)
    tasks = [{"connector": found.name, "task": number} for number in range(len(found.facts["tasks"]))]
    return {
        "name": found.name,
        "application": found.report.application,
        "config": {"name": found.name, "connector.class": found.facts["class"]},
        "tasks": tasks,
        "type": found.facts["type"],
        "promise": found.facts["promise"],
        "reason": found.facts["reason"],
        "records": found.facts["records"],
    }


@router.get("/connectors/{name}/status", summary="The state of a connector")
def status(name: ConnectorName, data: Data, _principal: Admin) -> dict[str, Any]:
    """Returns the states of a connector and its tasks, with the error of a task that has failed."""
    found = _found(data, name)
    worker = f"{found.report.application}:{found.report.content['pid']}"
    return {
        "name": found.name,
        "connector": {"state": _state(found, found.facts["state"]), "worker_id": worker},
        "tasks": [
            {
                "id": number,
                "split": task["task"],
                "state": _state(found, task["state"]),
                "worker_id": worker,
                "records": task["records"],
                "dropped": task["dropped"],
                "gauges": task["gauges"],
                "progress": task["progress"],
                **({"trace": task["error"], "hint": task["hint"]} if task["error"] else {}),
            }
            for number, task in enumerate(found.facts["tasks"])
        ],
        "type": found.facts["type"],
    }


@router.get("/connectors/{name}/tasks", summary="The tasks of a connector")
def tasks(name: ConnectorName, data: Data, _principal: Admin) -> list[dict[str, Any]]:
    """Returns the numbers and the splits of the tasks."""
    found = _found(data, name)
    return [
        {"id": {"connector": found.name, "task": number}, "config": {"split": task["task"]}}
        for number, task in enumerate(found.facts["tasks"])
    ]


@router.get("/connectors/{name}/topics", summary="The topics of a sink")
def topics(name: ConnectorName, data: Data, _principal: Admin) -> dict[str, Any]:
    """Returns the topics that a sink reads; none of a source, which chooses the topic of each record."""
    found = _found(data, name)
    return {found.name: {"topics": found.facts["topics"]}}


@router.put("/connectors/{name}/pause", summary="Pause a connector", status_code=202)
def pause(name: ConnectorName, data: Data, _principal: Admin) -> dict[str, str]:
    """Has the tasks of a connector commit what they have, and move no records until they are resumed."""
    return _command(data, name, "pause")


@router.put("/connectors/{name}/resume", summary="Resume a connector", status_code=202)
def resume(name: ConnectorName, data: Data, _principal: Admin) -> dict[str, str]:
    """Continues a connector that was paused."""
    return _command(data, name, "resume")


@router.post("/connectors/{name}/restart", summary="Restart a connector", status_code=202)
def restart(name: ConnectorName, data: Data, _principal: Admin) -> dict[str, str]:
    """Starts the tasks of a connector again, also those that have failed."""
    return _command(data, name, "restart")


@router.post("/connectors/{name}/snapshot", summary="Read tables again", status_code=202)
def snapshot(name: ConnectorName, request: SnapshotRequest, data: Data, _principal: Admin) -> dict[str, str]:
    """Has a connector of change data capture read tables again, while changes go on."""
    return _command(data, name, "snapshot", tables=request.tables)


@router.post(
    "/api/v1/applications/{application}/connectors/{connector}/{command}",
    summary="Pause, resume or restart a connector of an application",
    status_code=202,
)
def command_one(
    application: ApplicationId,
    connector: Annotated[str, Path(description="The name of the connector.", max_length=300)],
    command: Literal["pause", "resume", "restart"],
    data: Data,
    _principal: Admin,
) -> dict[str, str]:
    """Gives a command to a connector, as the routes of Kafka Connect do."""
    return _command(data, f"{application}:{connector}", command)


def _all(data: ServedData) -> Iterator[Found]:
    for application in data.reports.applications():
        report = data.reports.report(application)
        for name, facts in ((report.content.get("metrics") or {}).get("connectors") or {}).items():
            yield Found(name, report, facts)


def _found(data: ServedData, name: str) -> Found:
    application, colon, own = name.rpartition(":")
    every = list(_all(data))
    found = [one for one in every if one.name == own and (not colon or one.report.application == application)]
    if not found:
        near = suggestion(own, [one.name for one in every])
        raise HTTPException(404, f"there is no connector {name!r}" + (f": {near}" if near else ""))
    if len(found) > 1:
        there = ", ".join(f"{one.report.application}:{one.name}" for one in found)
        raise HTTPException(409, f"several applications have a connector {name!r}: {there}")
    return found[0]


def _state(found: Found, state: str) -> str:
    return _STATES.get(state, state) if found.report.is_live else "UNASSIGNED"


def _command(data: ServedData, name: str, command: str, **arguments: Any) -> dict[str, str]:
    found = _found(data, name)
    application = found.report.application
    if not found.report.is_live:
        raise HTTPException(409, f"application {application!r} does not run: its state is {found.report.state}")
    order = {"connector": found.name, "command": command, "arguments": arguments}
    data.reports.command(application, "connector", order)
    return {"connector": found.name, "command": command}
