"""Profiles: settings of clusters under a name, in a file, so that neither programs nor commands must repeat them.

The file is ``millstream.toml`` where the program runs, or the one that ``$MILLSTREAM_CONFIG`` names::

    [profiles.production]
    "bootstrap.servers" = "kafka-1:9093,kafka-2:9093"
    "security.protocol" = "SASL_SSL"
    "sasl.mechanism" = "SCRAM-SHA-256"
    "sasl.username" = "millstream"
    "sasl.password" = "${env:KAFKA_PASSWORD}"

``$MILLSTREAM_PROFILE`` chooses one, and ``$MILLSTREAM_BOOTSTRAP_SERVERS`` does for a cluster that needs nothing else.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from millstream.config import Config
from millstream.errors import ConfigError, suggestion

_FILE = "millstream.toml"


def profile(name: str) -> dict[str, Any]:
    """Returns the settings of a profile.

    Raises:
        ConfigError: There is no such profile, its file cannot be read, or a setting is not one that it can have.
    """
    path = Path(os.environ.get("MILLSTREAM_CONFIG") or _FILE)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        hint = f"profiles are in {_FILE} here, or in the file that MILLSTREAM_CONFIG names"
        raise ConfigError(f"profile {name!r}: {path} cannot be read: {error.strerror}", hint=hint) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    profiles = content.get("profiles")
    tables = (
        {key: each for key, each in profiles.items() if isinstance(each, dict)} if isinstance(profiles, dict) else {}
    )
    if name not in tables:
        hint = suggestion(name, tables) or f"it has: {', '.join(tables) or 'none'}"
        raise ConfigError(f"{path} has no profile {name!r}", hint=hint)
    try:
        settings = Config(dict(_flat(tables[name]))).explicit
    except ConfigError as error:
        raise ConfigError(f"{path}, profile {name!r}: {error.message}", hint=error.hint) from None
    if settings.get("bootstrap.servers") is None:  # the embedded log is not what was asked for
        hint = 'a profile is one of a cluster; write "bootstrap.servers" = "host:port"'
        raise ConfigError(f"{path}, profile {name!r}: bootstrap.servers is missing", hint=hint)
    return settings


def from_environment() -> dict[str, Any]:
    """Returns the settings that the environment asks for."""
    name, servers = os.environ.get("MILLSTREAM_PROFILE"), os.environ.get("MILLSTREAM_BOOTSTRAP_SERVERS")
    found = profile(name) if name else {}
    return {**found, "bootstrap.servers": servers} if servers else found


def _flat(table: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """In TOML, a key with dots that is not quoted is a table in a table."""
    found = []
    for key, value in table.items():
        found += _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(f"{prefix}{key}", value)]
    return found
