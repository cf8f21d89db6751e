"""The alerts of a server: evaluates rules, keeps states, and has changes delivered."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from millstream.serve.observe.alerts.configuration import AlertConfiguration
from millstream.serve.observe.alerts.delivery import Deliveries, Event
from millstream.serve.observe.alerts.state_files import StateFiles
from millstream.serve.observe.alerts.states import Alert, ApplicationAlerts

_MOST_ENDED = 200
"""The number of alerts that are over and still shown."""

Listener = Callable[[Event], None]


class Alerts:
    """The alerts of all applications. It may be used from any thread.

    Args:
        configuration: The rules.
        files: Keeps the alerts that fire.
        deliveries: Delivers the changes.
    """

    def __init__(self, configuration: AlertConfiguration, files: StateFiles, deliveries: Deliveries) -> None:
        self._rules = {rule.name: rule for rule in configuration.rules if rule.enabled}
        self._files = files
        self._deliveries = deliveries
        self._lock = threading.RLock()
        self._applications: dict[str, ApplicationAlerts] = {}
        self._untold: dict[str, list[Alert]] = {}
        self._owned: set[str] = set()
        self._kept = set(files.applications())
        self._ended: deque[Alert] = deque(maxlen=_MOST_ENDED)
        self.listeners: list[Listener] = []
        """Called with each change: an alert that begins to fire, or is over. From the thread of the samples."""

    def evaluate(self, application: str, values: Mapping[str, float | None], now: int, *, is_live: bool) -> None:
        """Evaluates the rules for an application.

        Args:
            application: The application id.
            values: The values of its metrics.
            now: The time, in milliseconds.
            is_live: Whether it runs.
        """
        rules = [rule for rule in self._rules.values() if rule.applies_to(application)]
        with self._lock:
            current = self._applications.setdefault(application, ApplicationAlerts(application, {}))
            may_change = bool(current.alerts) or any(
                rule.holds(value) for rule in rules if (value := values.get(rule.metric)) is not None
            )
            own = self._take_over(application, create=may_change)
            changed = current.evaluate(rules, values, now, is_live=is_live)
            ended = [alert for alert in changed if alert.state == "resolved"]
            self._ended.extend(ended)
            if changed and own:
                self._untold.setdefault(application, []).extend(ended)
                self._save(application)
        for alert in changed:
            event = self._event(alert)
            for listener in self.listeners:
                listener(event)
            if own:
                self._deliveries.deliver(event, self._told(alert))

    def forget(self, application: str) -> None:
        """Forgets the alerts of an application whose directory was removed."""
        with self._lock:
            self._applications.pop(application, None)

    def _take_over(self, application: str, *, create: bool) -> bool:
        """Returns whether this server delivers the alerts of an application; at first it loads those that were kept.

        Args:
            application: The application id.
            create: Take the lock, even if no alerts were kept.
        """
        if application in self._owned:
            return True
        if not (create or application in self._kept) or not self._files.acquire(application):
            return False
        self._owned.add(application)
        kept = self._files.load(application)
        current = self._applications.setdefault(application, ApplicationAlerts(application, {}))
        for alert in kept:
            if alert.state == "resolved":
                self._untold.setdefault(application, []).append(alert)
            else:
                current.alerts[alert.rule] = alert
            if not alert.told:
                self._deliveries.deliver(self._event(alert), self._told(alert))
        return True

    def _told(self, alert: Alert) -> Callable[[], None]:
        """Returns the function that notes that a change was delivered."""
        state = alert.state

        def told() -> None:
            with self._lock:
                if alert.state == state:
                    alert.told = True
                    waiting = self._untold.get(alert.application, [])
                    self._untold[alert.application] = [each for each in waiting if not each.told]
                    self._save(alert.application)

        return told

    def _save(self, application: str) -> None:
        if application in self._owned:
            firing = [a for a in self._applications[application].alerts.values() if a.state == "firing"]
            self._files.save(application, [*self._untold.get(application, []), *firing])

    def _event(self, alert: Alert) -> Event:
        """The change of an alert, as targets and listeners get it."""
        rule = self._rules.get(alert.rule)
        names = ("metric", "comparison", "threshold", "for_ms")
        about = {} if rule is None else {name: rule.plain()[name] for name in names}
        time = alert.ended if alert.state == "resolved" else alert.fired
        return {"version": 1, "status": alert.state, "time": time, **alert.plain(), **about}

    def firing(self) -> list[tuple[str, str, str]]:
        """The application, the rule and the severity of each alert that fires."""
        with self._lock:
            return [
                (alert.application, alert.rule, alert.severity)
                for current in self._applications.values()
                for alert in current.alerts.values()
                if alert.state == "firing"
            ]

    def read(self) -> dict[str, Any]:
        """Returns the rules, and the alerts: those that fire or are pending, and the last ones that are over."""
        with self._lock:
            now = [alert for current in self._applications.values() for alert in current.alerts.values()]
            now.sort(key=lambda alert: (alert.state != "firing", -alert.since))
            shown = [alert.plain() for alert in [*now, *reversed(self._ended)]]
        return {"rules": [rule.plain() for rule in self._rules.values()], "alerts": shown}

    def close(self) -> None:
        """Ends the deliveries, and releases the files."""
        self._deliveries.close()
        self._files.close()
