"""The configuration of a topic: the keys of Kafka that the embedded log supports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from millstream.errors import ConfigError, suggestion

MAX_PARTITIONS = 10_000


class TopicSettings(NamedTuple):
    """A parsed configuration. None means no limit."""

    delete: bool
    compact: bool
    retention_ms: int | None
    retention_bytes: int | None
    append_time: bool
    max_message_bytes: int
    min_compaction_lag_ms: int
    delete_retention_ms: int


def _one_of(*allowed: str) -> Callable[[str, str], None]:
    def check(key: str, value: str) -> None:
        if value not in allowed:
            hint = suggestion(value, allowed) or f"use one of: {', '.join(allowed)}"
            raise ConfigError(f"{key}: {value!r} is not an allowed value", hint=hint)

    return check


def _number(least: int) -> Callable[[str, str], None]:
    def check(key: str, value: str) -> None:
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()) or not least <= int(value) < 2**63:
            raise ConfigError(f"{key}: {value!r} is not a whole number of at least {least}")

    return check


# The default and the check of each key.
_KEYS: dict[str, tuple[str, Callable[[str, str], None]]] = {
    "cleanup.policy": ("delete", _one_of("delete", "compact", "compact,delete", "delete,compact")),
    # The default of Kafka is a week. Retention goes by record timestamps, and sample data is often older.
    "retention.ms": ("-1", _number(-1)),
    "retention.bytes": ("-1", _number(-1)),
    "message.timestamp.type": ("CreateTime", _one_of("CreateTime", "LogAppendTime")),
    "max.message.bytes": ("1048588", _number(0)),
    "min.compaction.lag.ms": ("0", _number(0)),
    "delete.retention.ms": ("86400000", _number(0)),
}


def check_config(config: Mapping[str, str]) -> dict[str, str]:
    """Returns the configuration of a topic if it is valid.

    >>> check_config({"cleanup.policy": "compact"})
    {'cleanup.policy': 'compact'}
    >>> check_config({"cleanup.polici": "compact"})
    Traceback (most recent call last):
    millstream.errors.ConfigError: unknown topic configuration key 'cleanup.polici'
      hint: did you mean 'cleanup.policy'?

    Raises:
        ConfigError: A key is unknown, or its value is not allowed.
    """
    for key, value in config.items():
        if key not in _KEYS:
            hint = suggestion(str(key), _KEYS) or f"the keys are: {', '.join(_KEYS)}"
            raise ConfigError(f"unknown topic configuration key {key!r}", hint=hint)
        if not isinstance(value, str):
            raise ConfigError(f"{key}: {value!r} is not text")
        _KEYS[key][1](key, value)
    return dict(config)


def check_partitions(count: int) -> int:
    """Returns a number of partitions if it is allowed, else raises a `ConfigError`."""
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_PARTITIONS:
        raise ConfigError(f"a topic has 1 to {MAX_PARTITIONS} partitions, not {count!r}")
    return count


def settings(config: Mapping[str, str]) -> TopicSettings:
    """Parses a configuration that `check_config` has accepted."""
    value = {key: config.get(key, default) for key, (default, _) in _KEYS.items()}
    policy = value["cleanup.policy"].split(",")
    return TopicSettings(
        delete="delete" in policy,
        compact="compact" in policy,
        retention_ms=_limit(value["retention.ms"]),
        retention_bytes=_limit(value["retention.bytes"]),
        append_time=value["message.timestamp.type"] == "LogAppendTime",
        max_message_bytes=int(value["max.message.bytes"]),
        min_compaction_lag_ms=int(value["min.compaction.lag.ms"]),
        delete_retention_ms=int(value["delete.retention.ms"]),
    )


def _limit(value: str) -> int | None:
    return None if value == "-1" else int(value)
