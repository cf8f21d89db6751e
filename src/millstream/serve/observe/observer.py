"""Observes all applications of a server: one thread reads their reports, keeps their history and evaluates alerts."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from millstream.errors import MillstreamError
from millstream.serve.data import ServedData
from millstream.serve.observe.alerts.alerts import Alerts
from millstream.serve.observe.alerts.configuration import AlertConfiguration, load_configuration
from millstream.serve.observe.alerts.delivery import Deliveries, Target, TopicTarget, WebhookTarget
from millstream.serve.observe.alerts.state_files import StateFiles
from millstream.serve.observe.alerts.values import values_of
from millstream.serve.observe.exposition import Exposition
from millstream.serve.observe.history import History
from millstream.serve.observe.reports import Report
from millstream.serve.observe.samples import Sampler
from millstream.text.escaping import error_text, printable

INTERVAL_MS = 5000
"""The distance of two samples."""

KEPT_MS = 3_600_000
"""How long samples are kept."""

_JUST_STARTED_MS = 60_000
"""Runs that began so long before the observer count from their start on: a server beside an application is younger."""

_MOST_APPLICATIONS = 500


class Observer:
    """Observes the applications of a server. It may be used from any thread.

    Args:
        data: The data that the server serves.
        interval_ms: The distance of two samples.

    Attributes:
        alerts: The alerts.
        exposition: The metrics for Prometheus.

    Raises:
        ConfigError: The configuration of alerts is not valid.
    """

    def __init__(self, data: ServedData, interval_ms: int = INTERVAL_MS) -> None:
        self._data = data
        self.interval_ms = interval_ms
        self._began = int(time.time() * 1000) - _JUST_STARTED_MS
        self._lock = threading.Lock()
        self._samplers: dict[str, Sampler] = {}
        self._histories: dict[str, History] = {}
        configuration = load_configuration(data.options.alerts)
        deliveries = Deliveries(_targets(configuration, data), prints=configuration.log)
        self.alerts = Alerts(configuration, StateFiles(data.directory), deliveries)
        self.exposition = Exposition(self._reports, self.alerts.firing)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins to observe, in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="millstream-observer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, and the deliveries of alerts."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(5)
        self.alerts.close()

    def _run(self) -> None:
        trouble, last = "", 0
        while not self._stopping.is_set():
            now = int(time.time() * 1000)
            moment = now - now % self.interval_ms
            try:
                if moment != last:  # a wait may end a moment early
                    last = moment
                    self.observe(moment)
                    trouble = ""
            except Exception as error:  # noqa: BLE001  (a report that cannot be read must not end the thread)
                if error_text(error) != trouble:
                    trouble = error_text(error)
                    print(f"millstream: a report was left out: {printable(trouble)}", file=sys.stderr, flush=True)  # noqa: T201
            self._stopping.wait((self.interval_ms - time.time() * 1000 % self.interval_ms) / 1000)

    def observe(self, now: int) -> None:
        """Takes a sample of each application, and evaluates its alerts.

        Args:
            now: The time, in milliseconds.
        """
        reports = list(self._reports())
        for report in reports:
            name = report.application
            with self._lock:
                sample = self._samplers.setdefault(name, Sampler(self._began)).sample(report)
                history = self._histories.get(name)
                if sample and history is None and len(self._histories) < _MOST_APPLICATIONS:
                    history = self._histories[name] = History(KEPT_MS // self.interval_ms)
                if history is not None:
                    history.add(now, sample)
                    if not sample and history.is_empty:
                        del self._histories[name]
                values = values_of(report, sample, history, now)
            self.alerts.evaluate(name, values, now, is_live=report.is_live)
        self._forget({report.application for report in reports}, now)

    def _forget(self, names: set[str], now: int) -> None:
        with self._lock:
            gone = self._samplers.keys() - names
            for name in gone:
                del self._samplers[name]
                self._histories.pop(name, None)
        for name in gone:
            self.alerts.forget(name, now)

    def history(self, application: str, since: int = 0) -> dict[str, Any]:
        """Returns the samples of an application from a time on, in milliseconds; empty ones if there are none."""
        with self._lock:
            history = self._histories.get(application) or History(1)
            return {"interval_ms": self.interval_ms, **history.read(since)}

    def _reports(self) -> Iterator[Report]:
        for name in self._data.reports.applications():
            try:
                yield self._data.reports.report(name)
            except (MillstreamError, OSError):
                continue  # its directory was removed meanwhile


def _targets(configuration: AlertConfiguration, data: ServedData) -> list[Target]:
    targets: list[Target] = []
    if configuration.webhook is not None:
        targets.append(WebhookTarget(configuration.webhook))
    if configuration.topic is not None:
        targets.append(TopicTarget(configuration.topic, lambda: data.log))
    return targets
