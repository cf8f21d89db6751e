"""Routes of metrics, history and alerts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from millstream.serve.access.authorization import require
from millstream.serve.access.roles import Principal, Role
from millstream.serve.observe.observer import Observer
from millstream.serve.operations.applications import ApplicationId, Data, Viewer, known

router = APIRouter(tags=["metrics"])

Scraper = Annotated[Principal, Depends(require(min(Role)))]


def observer_of(request: Request) -> Observer:
    """The observer of the server."""
    observer: Observer = request.app.state.observer
    return observer


Observing = Annotated[Observer, Depends(observer_of)]


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}, "application/openmetrics-text": {}}}},
)
def metrics(
    observer: Observing, _principal: Scraper, accept: Annotated[str, Header(include_in_schema=False)] = ""
) -> Response:
    """Returns the metrics of all applications in the format of Prometheus, or of OpenMetrics by the header Accept.

    It takes a token of any role. Labels have names of applications, topics, operators and stores, never keys or values.
    """
    text, content_type = observer.exposition.text(accept)
    return Response(text, media_type=content_type)


@router.get("/api/v1/applications/{application}/history", summary="The last hour")
def history(
    application: ApplicationId,
    data: Data,
    observer: Observing,
    _principal: Viewer,
    since: Annotated[int, Query(description="The first time, in milliseconds.", ge=0, le=2**53)] = 0,
) -> dict[str, Any]:
    """Returns samples of the last hour at equal distances. A value is null where nothing was reported.

    Of ``series``, the rates are in records per second (``rate_in``, ``rate_out``, ``dropped``, ``failed``, ``late``,
    ``dead_letters``, ``violations``), and ``latency_ms`` and ``processing_ms`` are 95th percentiles. ``phases`` has the
    mean milliseconds of each phase. ``nodes`` has the records that each operator received per second, and ``sent``
    those that it sent, as far as they are known. The server keeps samples in memory: they begin with its start.
    """
    known(data, application)
    return observer.history(application, since)


@router.get("/api/v1/alerts", summary="Alerts")
def alerts(observer: Observing, _principal: Viewer) -> dict[str, Any]:
    """Returns the rules, and the alerts that are pending, that fire, and that ended since the server started."""
    return observer.alerts.read()
