"""Turns the reports of an application, which have totals, into samples: rates and latencies between two reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millstream.plan.contracts import counted
from millstream.serve.observe.reports import Report

Sample = dict[str, float | None]

_INTENDED = {"duplicate", "stale answer"}
_COLUMNS = (("node", "in"), ("sent", "out"))
_LATE = {"late", "older than the history", "before the window"}


class Sampler:
    """Makes samples of one application.

    Totals begin again with each run. Between the last report of a run and the first one of the next, what the new run
    has done counts.

    Args:
        since: A run that began after this time, in milliseconds, counts from its start on. Of an earlier one, another
            server may have seen the beginning.
    """

    def __init__(self, since: int) -> None:
        self._since = since
        self._last: tuple[str, int, dict[str, float], dict[str, list[int]]] | None = None
        self._sample: Sample = {}

    def sample(self, report: Report) -> Sample:
        """Returns the sample of a report; an empty one if the application does not run or has not reported.

        Without a new report since the last sample, the sample is the last one.
        """
        metrics = report.content.get("metrics")
        if not report.is_live or not metrics:
            self._last, self._sample = None, {}
            return {}
        if report.is_late:
            return {}
        run, time = report.content["run"], report.content["time"]
        last = self._last
        if last is not None and last[:2] == (run, time):
            return self._sample
        if last is None and report.content["started"] >= self._since:
            last = run, report.content["started"], {}, {}
        totals, histograms = _totals(metrics), _histograms(metrics)
        self._last = run, time, totals, histograms
        sample: Sample = {
            "lag": float(sum(source["lag"] for source in metrics["sources"].values())),
            "state_bytes": metrics["state_bytes"],
            "state_rows": float(sum(store.get("rows", 0) for store in metrics["stores"].values())),
            "memory_bytes": float(sum(metrics["memory"].values())),
            "stream_lag_ms": _behind(metrics, time),
            "restarts": float(metrics["restarts"]),
            **_of_connectors(metrics.get("connectors", {})),
        }
        if last is not None and time > last[1]:
            same_run = last[0] == run
            before, buckets = (last[2], last[3]) if same_run else ({}, {})
            seconds = (time - (last[1] if same_run else max(last[1], report.content["started"]))) / 1000
            sample |= _rates(totals, before, max(seconds, 0.001))
            sample |= _durations(metrics, totals, before, histograms, buckets)
        self._sample = sample
        return sample


def _of_connectors(connectors: Mapping[str, Any]) -> Sample:
    """The number of connectors that have failed, and the bytes that the largest replication slot holds back."""
    gauges = [task["gauges"] for connector in connectors.values() for task in connector["tasks"]]
    retained = [gauge["slot.retained.bytes"] for gauge in gauges if "slot.retained.bytes" in gauge]
    return {
        "failed_connectors": float(sum(connector["state"] == "FAILED" for connector in connectors.values())),
        "slot_retained_bytes": max(retained, default=None),
    }


def _rates(totals: Mapping[str, float], before: Mapping[str, float], seconds: float) -> Sample:
    """The records per second of each total that counts records."""
    return {
        name: max(0.0, total - before.get(name, 0.0)) / seconds
        for name, total in totals.items()
        if not name.startswith("sum:")
    }


def _durations(
    metrics: Mapping[str, Any],
    totals: Mapping[str, float],
    before: Mapping[str, float],
    histograms: Mapping[str, list[int]],
    buckets: Mapping[str, list[int]],
) -> Sample:
    """The mean durations of phases, and the quantiles of latencies, in milliseconds; None without a publication."""
    sample: Sample = {}
    counts = {
        name: [now - then for now, then in zip(row, buckets.get(name, [0] * len(row)), strict=True)]
        for name, row in histograms.items()
    }
    for name, row in counts.items():
        if name.startswith("phase:"):
            total = totals[f"sum:{name}"] - before.get(f"sum:{name}", 0.0)
            sample[name] = total / sum(row) * 1000 if sum(row) else None
    sample["commit_ms"] = sample.get("phase:commit")
    latency = metrics["histograms"]["latency"]
    for name, kind, quantile in (
        ("latency_ms", "event", 0.95),
        ("latency_p50_ms", "event", 0.5),
        ("processing_ms", "processing", 0.95),
    ):
        seconds = quantile_of(latency[kind]["bounds"], counts[kind], quantile)
        sample[name] = None if seconds is None else seconds * 1000
    return sample


def _totals(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The totals of a report: numbers of records, and sums of durations (``sum:``)."""
    reasons = [
        (reason, count) for operator in metrics["operators"].values() for reason, count in operator["dropped"].items()
    ]
    totals: dict[str, float] = {
        "rate_in": metrics["records"]["in"],
        "rate_out": metrics["records"]["out"],
        "dropped": sum(count for reason, count in reasons if reason not in _INTENDED),
        "failed": sum(count for reason, count in reasons if reason.endswith(" error")),
        "late": sum(count for reason, count in reasons if reason in _LATE),
        "violations": sum(count for reason, count in reasons if counted(reason) is not None),
        "dead_letters": sum(sum(counts.values()) for counts in metrics["dead_letters"].values()),
    }
    for name, counts in metrics["nodes"].items():
        totals |= {f"{column}:{name}": counts[key] for column, key in _COLUMNS if counts[key] is not None}
    for phase, histogram in metrics["histograms"]["phases"].items():
        totals[f"sum:phase:{phase}"] = histogram["sum"]
    return totals


def _histograms(metrics: Mapping[str, Any]) -> dict[str, list[int]]:
    phases = {f"phase:{name}": each["counts"] for name, each in metrics["histograms"]["phases"].items()}
    return {**phases, **{name: each["counts"] for name, each in metrics["histograms"]["latency"].items()}}


def _behind(metrics: Mapping[str, Any], time: int) -> float | None:
    """How far the most advanced task is behind the clock: a partition without records does not count."""
    latest = max((moment for _subtopology, _partition, moment in metrics["stream_times"]), default=None)
    return None if latest is None else max(0.0, float(time - latest))


def quantile_of(bounds: Sequence[float], counts: Sequence[int], quantile: float) -> float | None:
    """Estimates a quantile from the counts of buckets; None without observations.

    Within a bucket, observations are taken to be spread evenly. Those above the last bound count as that bound.

    >>> quantile_of([1.0, 2.0], [0, 10, 0], 0.5)
    1.5
    >>> quantile_of([1.0, 2.0], [0, 0, 3], 0.5)
    2.0
    """
    total = sum(counts)
    if total <= 0:
        return None
    rank, below, lower = quantile * total, 0, 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if count and below + count >= rank:
            return lower + (bound - lower) * (rank - below) / count
        below, lower = below + count, bound
    return bounds[-1]
