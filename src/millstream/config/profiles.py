"""Profiles: named settings of clusters in a file, shared by programs and commands.

The file is ``millstream.toml`` in the current directory, or the file that ``$MILLSTREAM_CONFIG`` names::

    [profiles.production]
    "bootstrap.servers" = "kafka-1:9093,kafka-2:9093"
    "security.protocol" = "SASL_SSL"
    "sasl.mechanism" = "SCRAM-SHA-256"
    "sasl.username" = "millstream"
    "sasl.password" = "${env:KAFKA_PASSWORD}"

    "schema.registry.url" = "https://registry:8081"
    "schema.registry.basic.auth.user.info" = "millstream:${env:REGISTRY_PASSWORD}"

The table ``alerts`` of a profile configures the alerts of `millstream serve`.

``$MILLSTREAM_PROFILE`` selects a profile. ``$MILLSTREAM_BOOTSTRAP_SERVERS`` and ``$MILLSTREAM_SCHEMA_REGISTRY_URL``
suffice for a cluster and a schema registry without security.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from millstream.config import Config
from millstream.errors import ConfigError, suggestion

FILE = "millstream.toml"
"""The file of profiles, in the current directory."""
_VARIABLES = {
    "MILLSTREAM_BOOTSTRAP_SERVERS": "bootstrap.servers",
    "MILLSTREAM_SCHEMA_REGISTRY_URL": "schema.registry.url",
}


def profile(name: str) -> dict[str, Any]:
    """Returns the settings of a profile.

    Raises:
        ConfigError: There is no such profile, its file cannot be read, or a setting is invalid.
    """
    path = Path(os.environ.get("MILLSTREAM_CONFIG") or FILE)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        hint = f"profiles are read from ./{FILE}, or from the file that MILLSTREAM_CONFIG names"
        raise ConfigError(f"profile {name!r}: {path} cannot be read: {error.strerror}", hint=hint) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    profiles = content.get("profiles")
    tables = (
        {key: table for key, table in profiles.items() if isinstance(table, dict)} if isinstance(profiles, dict) else {}
    )
    if name not in tables:
        hint = suggestion(name, tables) or f"it has: {', '.join(tables) or 'none'}"
        raise ConfigError(f"{path} has no profile {name!r}", hint=hint)
    try:
        settings = Config(dict(_flat({key: value for key, value in tables[name].items() if key != "alerts"}))).explicit
    except ConfigError as error:
        raise ConfigError(f"{path}, profile {name!r}: {error.message}", hint=error.hint) from None
    if settings.get("bootstrap.servers") is None:  # without it, the embedded log would be used
        hint = 'a profile describes a cluster; write "bootstrap.servers" = "host:port"'
        raise ConfigError(f"{path}, profile {name!r}: bootstrap.servers is missing", hint=hint)
    return settings


def from_environment() -> dict[str, Any]:
    """Returns the settings of the cluster that the environment variables name."""
    name = os.environ.get("MILLSTREAM_PROFILE")
    settings = profile(name) if name else {}
    for variable, key in _VARIABLES.items():
        if value := os.environ.get(variable):
            settings[key] = value
    return settings


def _flat(table: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Flattens nested tables: in TOML, an unquoted key with dots is a table in a table."""
    settings = []
    for key, value in table.items():
        settings += _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(f"{prefix}{key}", value)]
    return settings
