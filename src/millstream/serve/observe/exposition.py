"""Writes the metrics of all applications in the formats of Prometheus and OpenMetrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from millstream.serve.observe.families import (
    EVERY,
    FAMILIES,
    FIRING,
    REPORTED,
    STARTED,
    STATE,
    STATES,
    Family,
    metrics_of,
)
from millstream.serve.observe.reports import Report

Firing = tuple[str, str, str]
"""The application, the rule and the severity of an alert that fires."""


class ApplicationCollector(Collector):
    """Reads the reports of all applications for each scrape.

    Args:
        reports: Returns the reports.
        firing: Returns the alerts that fire.
    """

    def __init__(self, reports: Callable[[], Iterable[Report]], firing: Callable[[], Iterable[Firing]]) -> None:
        self._reports = reports
        self._firing = firing

    def describe(self) -> list[Metric]:
        """Returns the metrics without samples: the registry needs the names, and no report is read for them."""
        return [_empty(family) for family in EVERY]

    def collect(self) -> Iterable[Metric]:
        """Returns all metrics with their samples. A metric without any is left out.

        An application that has ended has its state only: other metrics of it would look as if it ran and did nothing.
        """
        metrics = {family: _empty(family) for family in EVERY}
        for report in self._reports():
            application = report.application
            for state in STATES:
                _add(metrics[STATE], STATE, (application, state), float(report.state == state))
            if report.content:
                _add(metrics[STARTED], STARTED, (application,), report.content["started"] / 1000)
                _add(metrics[REPORTED], REPORTED, (application,), report.content["time"] / 1000)
            if report.is_live:
                content = metrics_of(report)
                for family in FAMILIES:
                    for labels, value in family.samples(content):
                        _add(metrics[family], family, (application, *labels), value)
        for application, rule, severity in self._firing():
            _add(metrics[FIRING], FIRING, (application, rule, severity), 1.0)
        return [metric for metric in metrics.values() if metric.samples]


class Exposition:
    """The registry of the server's metrics: those of applications, and those of its own process.

    Args:
        reports: Returns the reports.
        firing: Returns the alerts that fire.
    """

    def __init__(self, reports: Callable[[], Iterable[Report]], firing: Callable[[], Iterable[Firing]]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(ApplicationCollector(reports, firing))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def text(self, accept: str) -> tuple[bytes, str]:
        """Returns the metrics in the format that a header Accept asks for, and the type of the content."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


def _empty(family: Family) -> Any:
    labels = ("application_id", *family.labels)
    kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}
    return kinds[family.kind](f"millstream_{family.name}", family.help, labels=labels)


def _add(metric: Any, family: Family, labels: Sequence[str], value: Any) -> None:
    if family.kind != "histogram":
        metric.add_metric(labels, value)
        return
    bounds = [*(repr(float(bound)) for bound in value["bounds"]), "+Inf"]
    metric.add_metric(labels, list(zip(bounds, accumulate(value["counts"]), strict=True)), value["sum"])
