"""Makes clients of a schema registry from the configuration. Their library is imported when first needed."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millstream.config.secrets import reveal
from millstream.errors import ConfigError, SetupError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

PREFIX = "schema.registry."
_MS = 1000
_PASSED_ON = (
    "url",
    "basic.auth.user.info",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
_BEARER = (
    "bearer.auth.token",
    "bearer.auth.issuer.endpoint.url",
    "bearer.auth.client.id",
    "bearer.auth.client.secret",
    "bearer.auth.scope",
    "bearer.auth.identity.pool.id",
)


def make_client(config: Mapping[str, Any]) -> SchemaRegistryClient:
    """Makes a client. It sends no request.

    Raises:
        SetupError: The library is not installed.
        ConfigError: A setting is invalid.
    """
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415  (0.3 s, and it may be missing)
    except ImportError as error:
        hint = 'pip install "millstream[registry]"'
        message = f"a schema registry needs the client of confluent-kafka, which is not installed: {error}"
        raise SetupError(message, hint=hint) from None
    settings = client_settings(config)
    try:
        return SchemaRegistryClient(settings)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(settings[key]) for key in _PASSED_ON if key.endswith(".location") and key in settings)
        reason = error.strerror or error
        raise ConfigError(f"schema.registry.ssl.*: a file of {files} cannot be used: {reason}") from None
    except (ValueError, TypeError) as error:
        raise ConfigError(f"schema.registry.*: {error}") from None


def client_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of the client.

    It must not retry by itself: it would repeat requests to the first address before it tries the next one, and would
    not say that it waits.
    """
    settings = {key: reveal(config[PREFIX + key]) for key in _PASSED_ON}
    settings["timeout"] = config["schema.registry.request.timeout.ms"] / _MS
    settings["max.retries"] = 0
    if not config["schema.registry.enable.ssl.certificate.verification"]:
        settings["ssl.ca.location"] = False
    settings |= _bearer_settings(config)
    if settings["basic.auth.user.info"] is not None and "bearer.auth.credentials.source" in settings:
        hint = (
            "a request has one of the two: remove schema.registry.basic.auth.user.info or schema.registry.bearer.auth.*"
        )
        raise ConfigError("schema.registry.*: there is both basic and bearer authentication", hint=hint)
    return {key: _expanded(key, value) for key, value in settings.items() if value is not None}


def _expanded(key: str, value: Any) -> Any:
    return str(Path(value).expanduser()) if key.endswith(".location") and isinstance(value, str) else value


def _bearer_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: reveal(config[PREFIX + key]) for key in _BEARER if config[PREFIX + key] is not None}
    source = config["schema.registry.bearer.auth.credentials.source"]
    if source is None and "bearer.auth.token" in given:
        source = "STATIC_TOKEN"
    if source is None:
        if given:
            hint = "set schema.registry.bearer.auth.credentials.source to OAUTHBEARER"
            raise ConfigError(
                f"schema.registry.{next(iter(given))} has no effect without a source of tokens", hint=hint
            )
        return {}
    cluster = config["schema.registry.bearer.auth.logical.cluster"]
    return {**given, "bearer.auth.credentials.source": source, "bearer.auth.logical.cluster": cluster or ""}
