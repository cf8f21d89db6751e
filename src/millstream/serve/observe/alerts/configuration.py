"""The configuration of alerts, in `millstream.toml` or a file of its own.

    [alerts]
    log = true

    [alerts.webhook]
    url = "${env:ALERT_URL}"
    timeout = "5s"
    headers = { Authorization = "Bearer ${env:ALERT_TOKEN}" }

    [alerts.topic]
    name = "alerts"

    [[alerts.rules]]
    name = "lag grows"
    threshold = 100
    for = "5m"

A profile has its own in ``[profiles.NAME.alerts]``.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from millstream.config.profiles import FILE
from millstream.config.secrets import protected, reveal
from millstream.core.durations import to_ms
from millstream.core.names import check_name
from millstream.errors import ConfigError, suggestion
from millstream.serve.observe.alerts.rules import DEFAULTS, Rule, rules_of


class Webhook:
    """An address to which alerts are sent. Neither it nor its headers are ever shown: they may contain secrets.

    Args:
        url: The address.
        headers: Further headers of the requests.
        seconds: How long a request may take.
    """

    def __init__(self, url: str, headers: Mapping[str, str], seconds: float) -> None:
        self.url = url
        self.headers = dict(headers)
        self.seconds = seconds

    @property
    def name(self) -> str:
        """The host, for messages."""
        return urlsplit(self.url).hostname or "?"

    def __repr__(self) -> str:
        return f"Webhook({self.name})"


@dataclass(frozen=True, kw_only=True)
class AlertConfiguration:
    """The configuration of alerts.

    Attributes:
        rules: The rules, those that are off included.
        log: Alerts are printed to stderr.
        webhook: The address to which they are sent.
        topic: The topic to which they are written.
    """

    rules: tuple[Rule, ...] = DEFAULTS
    log: bool = True
    webhook: Webhook | None = None
    topic: str | None = None


def load_configuration(file: Path | str | None) -> AlertConfiguration:
    """Returns the configuration of alerts.

    Args:
        file: A file with a table ``[alerts]``; None: that of the profile, or of `millstream.toml`, if it has one.

    Raises:
        ConfigError: The file cannot be read, or is not valid.
    """
    if file is not None:
        return _configuration(_content(Path(file)).get("alerts"), f"{file}, alerts", is_needed=True)
    path = Path(os.environ.get("MILLSTREAM_CONFIG") or FILE)
    if not path.exists():
        return AlertConfiguration()
    content, name = _content(path), os.environ.get("MILLSTREAM_PROFILE")
    profiles = content.get("profiles")
    profile = profiles.get(name) if isinstance(profiles, dict) else None
    if isinstance(profile, dict) and "alerts" in profile:
        return _configuration(profile["alerts"], f"{path}, profile {name!r}, alerts")
    return _configuration(content.get("alerts"), f"{path}, alerts")


def _content(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the alerts in {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None


def _configuration(table: Any, where: str, *, is_needed: bool = False) -> AlertConfiguration:
    if table is None and not is_needed:
        return AlertConfiguration()
    table = _table(table, where, ("log", "webhook", "topic", "rules"))
    log = table.get("log", True)
    if not isinstance(log, bool):
        raise ConfigError(f"{where}: log is {log!r}", hint="write true or false")
    topic = None
    if "topic" in table:
        topic = _text(_table(table["topic"], f"{where}.topic", ("name",)), "name", f"{where}.topic")
        check_name(topic, "topic")
    return AlertConfiguration(
        rules=rules_of(table.get("rules", []), f"{where}.rules"),
        log=log,
        webhook=_webhook(table["webhook"], f"{where}.webhook") if "webhook" in table else None,
        topic=topic,
    )


def _webhook(table: Any, where: str) -> Webhook:
    table = _table(table, where, ("url", "headers", "timeout"))
    url = _resolved(_text(table, "url", where), where, "url")
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"{where}: the url is not an address of http or https")
    headers = table.get("headers", {})
    if not isinstance(headers, dict):
        raise ConfigError(f"{where}.headers is not a table", hint='write headers = { Name = "value" }')
    values = {name: _resolved(_text(headers, name, f"{where}.headers"), where, name) for name in headers}
    if not all(name.isascii() and name.replace("-", "").isalnum() for name in values) or not all(
        value.isascii() and value.isprintable() for value in values.values()
    ):
        raise ConfigError(f"{where}.headers: a header is not valid", hint="names and values are printable ASCII")
    milliseconds = to_ms(table.get("timeout", "5s"), f"{where}, timeout")
    if not 0 < milliseconds <= 60_000:
        raise ConfigError(f"{where}: the timeout is not between 1ms and 60s")
    return Webhook(url, values, milliseconds / 1000)


def _resolved(text: str, where: str, key: str) -> str:
    """Resolves references to variables and files."""
    return str(reveal(protected(f"{where}.{key} (secret)", text)))


def _table(value: Any, where: str, keys: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} is missing, or is not a table", hint=f"it has: {', '.join(keys)}")
    for key in value:
        if key not in keys:
            raise ConfigError(
                f"{where} has an unknown key {key!r}", hint=suggestion(key, keys) or f"it has: {', '.join(keys)}"
            )
    return value


def _text(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{where}: {key} is missing, or is not a text")
    return value
