"""The values of the metrics of rules: those of the last sample, and those that need the samples before it."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.serve.observe.history import History
from millstream.serve.observe.reports import Report
from millstream.serve.observe.samples import Sample

_FIVE_MINUTES = 300_000
_TEN_MINUTES = 600_000
_LEAST_SPAN = 60_000
"""A growth over less time says little."""


def values_of(report: Report, sample: Sample, history: History | None, now: int) -> Mapping[str, float | None]:
    """Returns the values of the metrics of rules; None where there is none.

    Args:
        report: The last report of the application.
        sample: Its last sample.
        history: Its samples; None: it has none.
        now: The time, in milliseconds.
    """
    is_failing = report.state in {"ERROR", "PENDING_ERROR", "KILLED"} or bool(
        report.is_live and report.content.get("problem")
    )
    values: dict[str, float | None] = {
        **sample,
        "failing": float(is_failing),
        "not_reporting": float(report.is_late),
    }
    if history is not None and sample:
        values["lag_growth"] = _growth(history, "lag", sample.get("lag"), now)
        values["late_share"] = _share(history, now)
        values["idle_seconds"] = _idle(history, report, now)
        first = history.first("restarts", now - _TEN_MINUTES)
        restarts = sample.get("restarts")
        if first is not None and restarts is not None:
            began = report.content["started"] > first[0]  # a new run counts from zero
            values["recent_restarts"] = restarts if began else max(0.0, restarts - first[1])
    return values


def _growth(history: History, name: str, value: float | None, now: int) -> float | None:
    """The growth per second over the last five minutes."""
    first = history.first(name, now - _FIVE_MINUTES)
    if first is None or value is None or now - first[0] < _LEAST_SPAN:
        return None
    return (value - first[1]) / (now - first[0]) * 1000


def _share(history: History, now: int) -> float | None:
    """The part of the records of the last five minutes that were late; None if hardly any were read."""
    read, late = history.mean("rate_in", now - _FIVE_MINUTES), history.mean("late", now - _FIVE_MINUTES)
    if read is None or late is None:
        return None
    return late / read if read else 0.0


def _idle(history: History, report: Report, now: int) -> float | None:
    """The seconds without a record, as far back as the samples and the run go."""
    last = history.last_above("rate_in", 0.0)
    since: int = max(report.content["started"], history.start if last is None else last)
    return max(0.0, (now - since) / 1000)
