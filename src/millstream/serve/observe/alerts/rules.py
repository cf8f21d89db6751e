"""The rules of alerts: a metric, a comparison, and for how long it must hold."""

from __future__ import annotations

import fnmatch
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from millstream.core.durations import to_ms
from millstream.errors import ConfigError, DurationError, suggestion
from millstream.serve.observe.history import SERIES

METRICS: dict[str, str] = {
    "failing": "1 if the application has failed, was killed or cannot continue; else 0",
    "not_reporting": "1 if the process exists and has not reported for ten seconds; else 0",
    "rate_in": "records read per second",
    "rate_out": "records written per second",
    "idle_seconds": "seconds since the last record was read, while the application runs",
    "lag": "records to be read",
    "lag_growth": "records per second by which the lag has grown over the last five minutes",
    "latency_ms": "age of output records at their commit, 95th percentile",
    "latency_p50_ms": "age of output records at their commit, median",
    "processing_ms": "time from read to commit, 95th percentile",
    "commit_ms": "mean duration of commits",
    "stream_lag_ms": "how far the stream time is behind the clock",
    "state_bytes": "bytes of state",
    "state_rows": "rows in all stores",
    "memory_bytes": "memory of all processes of the application",
    "dropped": "records dropped per second, for whatever reason",
    "failed": "records per second that were dropped because of an error",
    "late": "records per second that were dropped because they were late",
    "late_share": "part of the records read in the last five minutes that were dropped because they were late",
    "dead_letters": "records per second written to dead-letter and quarantine topics",
    "violations": "contract violations per second",
    "restarts": "restarts of the run",
    "recent_restarts": "restarts in the last ten minutes",
    "failed_connectors": "connectors that have failed",
    "slot_retained_bytes": "bytes of its log that a database keeps for change data capture",
}
"""The metrics of rules, and their meanings."""

assert set(SERIES) <= set(METRICS)

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
SEVERITIES = ("info", "warning", "critical")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule.

    Attributes:
        name: Its name, unique among the rules.
        metric: One of `METRICS`.
        comparison: One of `COMPARISONS`.
        threshold: The number with which the metric is compared.
        for_ms: How long the comparison must hold until the alert fires.
        ends_after_ms: How long it must not hold until the alert is over.
        severity: One of `SEVERITIES`.
        applications: A pattern of application ids.
        enabled: Whether it applies.
    """

    name: str
    metric: str
    comparison: str = ">"
    threshold: float = 0.0
    for_ms: int = 0
    ends_after_ms: int = 60_000
    severity: str = "warning"
    applications: str = "*"
    enabled: bool = True

    def holds(self, value: float) -> bool:
        """Whether the comparison holds for a value of the metric."""
        return COMPARISONS[self.comparison](value, self.threshold)

    def applies_to(self, application: str) -> bool:
        """Whether it is a rule for an application."""
        return self.enabled and fnmatch.fnmatchcase(application, self.applications)

    def plain(self) -> dict[str, Any]:
        """Returns the rule as JSON has it."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "enabled"}


DEFAULTS = (
    Rule(name="failing", metric="failing", comparison=">=", threshold=1, severity="critical"),
    Rule(
        name="not reporting",
        metric="not_reporting",
        comparison=">=",
        threshold=1,
        for_ms=30_000,
        severity="critical",
    ),
    Rule(name="restarts", metric="recent_restarts", threshold=3),
    Rule(name="lag grows", metric="lag_growth", threshold=1, for_ms=600_000),
    Rule(name="late records", metric="late_share", threshold=0.01, for_ms=300_000),
    Rule(name="contract violations", metric="violations", ends_after_ms=300_000),
    Rule(name="failed records", metric="failed", ends_after_ms=300_000),
    Rule(name="failed connector", metric="failed_connectors", comparison=">=", threshold=1, severity="critical"),
    Rule(name="replication slot", metric="slot_retained_bytes", threshold=10e9, for_ms=300_000),
    Rule(name="no input", metric="idle_seconds", threshold=900, enabled=False),
    Rule(name="state too large", metric="state_bytes", threshold=10e9, for_ms=60_000, enabled=False),
)
"""The rules without a configuration. The last two are off: whether a quiet topic or 10 GB are a problem, the operator
knows.
"""

_TEXTS = {"metric": tuple(METRICS), "comparison": tuple(COMPARISONS), "severity": SEVERITIES}
_DURATIONS = {"for": "for_ms", "ends_after": "ends_after_ms"}
_KEYS = ("name", *_TEXTS, "threshold", *_DURATIONS, "applications", "enabled")


def rules_of(tables: Any, where: str) -> tuple[Rule, ...]:
    """Returns the default rules, with those of a configuration: a rule with the name of another changes it.

    Args:
        tables: The rules as TOML has them.
        where: The place of the rules, for messages.

    Raises:
        ConfigError: One of them is not valid.
    """
    rules = {rule.name: rule for rule in DEFAULTS}
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{where} are not rules", hint="write each rule as a table [[alerts.rules]]")
    for number, table in enumerate(tables, 1):
        name = table.get("name")
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 100:
            raise ConfigError(f"{where}, rule {number} has no name", hint='write name = "…", at most 100 characters')
        rules[name] = _changed(rules.get(name), table, f"{where}, rule {name!r}")
    return tuple(rules.values())


def _changed(rule: Rule | None, table: Mapping[str, Any], where: str) -> Rule:
    if rule is None:
        for key in ("metric", "threshold"):
            if key not in table:
                raise ConfigError(f"{where} has no {key}", hint="a rule has at least a name, a metric and a threshold")
        rule = Rule(name=table["name"], metric=table["metric"])
    changes: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS:
            hint = suggestion(key, _KEYS) or f"a rule has: {', '.join(_KEYS)}"
            raise ConfigError(f"{where} has an unknown key {key!r}", hint=hint)
        changes[_DURATIONS.get(key, key)] = _checked(key, value, where)
    return replace(rule, **changes)


def duration(value: Any, where: str) -> int:
    """Returns a duration of the configuration in milliseconds.

    Raises:
        ConfigError: It is not one.
    """
    try:
        milliseconds = to_ms(value, where)
    except DurationError as error:
        raise ConfigError(error.message, hint=error.hint) from None
    if milliseconds < 0:
        raise ConfigError(f"{where} is negative", hint="write a duration such as 5m")
    return milliseconds


def _checked(key: str, value: Any, where: str) -> Any:
    """Returns the value of a key of a rule.

    Raises:
        ConfigError: It is not valid.
    """
    if key in _DURATIONS:
        return duration(value, f"{where}, {key}")
    if key in _TEXTS and value not in _TEXTS[key]:
        known = _TEXTS[key]
        hint = (suggestion(value, known) if isinstance(value, str) else None) or f"write one of: {', '.join(known)}"
        raise ConfigError(f"{where}: there is no {key} {value!r}", hint=hint)
    if key == "threshold" and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ConfigError(f"{where}: the threshold {value!r} is not a number")
    if key == "enabled" and not isinstance(value, bool):
        raise ConfigError(f"{where}: enabled is {value!r}", hint="write true or false")
    if key == "applications" and not isinstance(value, str):
        raise ConfigError(f"{where}: applications is not a text", hint='write a pattern of names, such as "shop*"')
    return value
