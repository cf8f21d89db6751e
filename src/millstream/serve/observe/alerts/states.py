"""The states of alerts: pending, firing, resolved. Each alert fires once, and ends once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from millstream.serve.observe.alerts.rules import Rule

State: TypeAlias = Literal["pending", "firing", "resolved"]


class Alert(msgspec.Struct, kw_only=True):
    """An alert of a rule for an application.

    Attributes:
        rule: The name of the rule.
        application: The application id.
        severity: The severity of the rule.
        state: Its state.
        since: When the comparison began to hold, in milliseconds.
        fired: When it fired; None: not yet.
        ended: When it was over; None: it is not.
        value: The last value of the metric.
        message: What is the case.
        quiet: Since when the comparison does not hold any more; None: it holds.
        told: Whether its last change was delivered.
    """

    rule: str
    application: str
    severity: str
    state: State
    since: int
    fired: int | None = None
    ended: int | None = None
    value: float | None = None
    message: str = ""
    quiet: int | None = None
    told: bool = True

    def plain(self) -> dict[str, Any]:
        """Returns the alert as the API has it."""
        names = ("rule", "application", "severity", "state", "since", "fired", "ended", "value", "message")
        return {name: getattr(self, name) for name in names}


@dataclass
class ApplicationAlerts:
    """The alerts of one application that are pending or firing, by rule.

    Attributes:
        application: The application id.
        alerts: The alerts.
    """

    application: str
    alerts: dict[str, Alert]

    def evaluate(
        self, rules: Iterable[Rule], values: Mapping[str, float | None], now: int, *, is_live: bool
    ) -> list[Alert]:
        """Evaluates rules; returns the alerts that have begun to fire, and those that are over.

        A metric without a value changes nothing as long as the application runs: after a restart of the server, it
        takes minutes until all metrics have values.

        Args:
            rules: The rules for the application.
            values: The values of its metrics.
            now: The time, in milliseconds.
            is_live: Whether the application runs.
        """
        changed = []
        names = set()
        for rule in rules:
            names.add(rule.name)
            value = values.get(rule.metric)
            if value is None and is_live:
                continue
            alert = self._evaluate(rule, value, now)
            if alert is not None:
                changed.append(alert)
        for name in self.alerts.keys() - names:  # the configuration does not have the rule any more
            alert = self.alerts.pop(name)
            if alert.state == "firing":
                changed.append(_over(alert, now, "there is no such rule any more"))
        return changed

    def end(self, message: str, now: int) -> list[Alert]:
        """Ends all alerts; returns those that have fired."""
        alerts, self.alerts = self.alerts, {}
        return [_over(alert, now, message) for alert in alerts.values() if alert.state == "firing"]

    def _evaluate(self, rule: Rule, value: float | None, now: int) -> Alert | None:
        alert = self.alerts.get(rule.name)
        if value is not None and rule.holds(value):
            if alert is None:
                alert = Alert(
                    rule=rule.name, application=self.application, severity=rule.severity, state="pending", since=now
                )
                self.alerts[rule.name] = alert
            alert.value, alert.quiet, alert.severity = value, None, rule.severity
            alert.message = f"{rule.metric} is {_short(value)} ({rule.comparison} {_short(rule.threshold)})"
            if alert.state == "pending" and now - alert.since >= rule.for_ms:
                alert.state, alert.fired, alert.told = "firing", now, False
                return alert
            return None
        if alert is None:
            return None
        if alert.state == "pending":
            del self.alerts[rule.name]
            return None
        if alert.quiet is None:
            alert.quiet = now
        if now - alert.quiet < rule.ends_after_ms:
            return None
        del self.alerts[rule.name]
        alert.value = value
        if value is None:
            return _over(alert, now, "the application does not run")
        return _over(alert, now, f"{rule.metric} is {_short(value)}")


def _over(alert: Alert, now: int, message: str) -> Alert:
    alert.state, alert.ended, alert.message, alert.told = "resolved", now, message, False
    return alert


def _short(number: float) -> str:
    """A number in a message.

    >>> _short(12345.678), _short(0.0123), _short(1e9)
    ('12,346', '0.0123', '1,000,000,000')
    """
    return f"{number:,.0f}" if abs(number) >= 1000 or number == int(number) else f"{number:.3g}"
