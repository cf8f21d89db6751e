"""Settings of clients: names that only Java's clients have, and secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from millstream.config.secrets import reveal
from millstream.errors import ConfigError, suggestion

_JAVA = {
    "ssl.truststore.": "ssl.ca.location, the path of a PEM file with the certificates of the CAs",
    "ssl.keystore.": "ssl.certificate.location and ssl.key.location, the paths of PEM files",
    "sasl.jaas.config": "sasl.username and sasl.password",
    "sasl.login.": "sasl.mechanism, sasl.username and sasl.password",
    "sasl.client.": "sasl.mechanism, sasl.username and sasl.password",
}
_KNOWN_KEYSTORE = {"ssl.keystore.location", "ssl.keystore.password"}  # in PKCS#12, which Java also has
_PEM = "it is the path of a PEM file that can be read"
_FILES = {
    "ssl.ca.location": _PEM,
    "ssl.certificate.location": _PEM,
    "ssl.key.location": f"{_PEM}, with ssl.key.password if it is encrypted",
    "ssl.keystore.location": "it is a file in PKCS#12; or give ssl.certificate.location and ssl.key.location",
}
_NAMES = (
    *("bootstrap.servers", "client.id", "security.protocol", *_FILES, "ssl.ca.pem", "ssl.certificate.pem"),
    *("ssl.key.pem", "ssl.key.password", "ssl.keystore.password", "ssl.endpoint.identification.algorithm"),
    *("enable.ssl.certificate.verification", "sasl.mechanism", "sasl.username", "sasl.password"),
)
_SECRET = re.compile(r"password|secret|\.pem$|sasl\.jaas\.config|sasl\.oauthbearer\.config")
_MADE = re.compile(r"^Failed to create \w+(?: client)?: ")
_NO_SUCH = re.compile(r'No such configuration property: "([^"]*)"')


def check_names(settings: Mapping[str, Any]) -> None:
    """Checks that no setting has a name that only Java's clients have.

    Raises:
        ConfigError: One has; the hint names the replacement.
    """
    for name in settings:
        instead = next((text for start, text in _JAVA.items() if name.startswith(start)), None)
        if instead is not None and name not in _KNOWN_KEYSTORE:
            raise ConfigError(f"{name} is a setting of Java's clients, which this one does not have", hint=instead)


_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_SAME = ("bootstrap.servers", "client.id", "ssl.key.password", "ssl.keystore.location", "ssl.keystore.password")
_TEXTS = {"ca": "truststore.certificates", "certificate": "keystore.certificate.chain", "key": "keystore.key"}
_INSTEAD = "read with kafka.source=client, which takes all of these settings"


def for_java(settings: Mapping[str, Any], consumer: Mapping[str, Any]) -> dict[str, str]:
    """Returns the settings of all clients with the names of Java's clients.

    Args:
        settings: Settings of all clients.
        consumer: Additional settings of consumers, which have no counterpart in Java.

    Raises:
        ConfigError: A setting has no counterpart in Java.
    """
    if consumer:
        name = next(iter(consumer))
        raise ConfigError(f"consumer.{name} is not a setting of Spark's connector", hint=_INSTEAD)
    left = {name: str(reveal(value)) for name, value in settings.items()}
    java = {name: left.pop(name) for name in _SAME if name in left}
    if "ssl.keystore.location" in java:
        java["ssl.keystore.type"] = "PKCS12"
    if "security.protocol" in left:
        java["security.protocol"] = left.pop("security.protocol").upper()
    java |= _java_login(left) | _java_certificates(left)
    match left.pop("ssl.endpoint.identification.algorithm", None):
        case "none":
            java["ssl.endpoint.identification.algorithm"] = ""
        case str(algorithm):
            java["ssl.endpoint.identification.algorithm"] = algorithm
    if left:
        raise ConfigError(f"{next(iter(left))} has no counterpart in Spark's connector", hint=_INSTEAD)
    return java


def _java_login(left: dict[str, str]) -> dict[str, str]:
    mechanism = left.pop("sasl.mechanism", None) or left.pop("sasl.mechanisms", None)
    if mechanism is None:
        return {}
    module = _MODULES.get(mechanism)
    if module is None:
        raise ConfigError(f"sasl.mechanism {mechanism} is not supported with Spark's connector", hint=_INSTEAD)
    user, password = (_quoted(left.pop(f"sasl.{name}", "")) for name in ("username", "password"))
    login = f"{module} required username={user} password={password};"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _java_certificates(left: dict[str, str]) -> dict[str, str]:
    """Returns certificates and keys, which Java also accepts as text."""
    settings = {}
    for ours, java in _TEXTS.items():
        path, text = left.pop(f"ssl.{ours}.location", None), left.pop(f"ssl.{ours}.pem", None)
        if path is not None:
            try:
                text = Path(path).read_text(encoding="utf-8")
            except OSError as error:
                raise ConfigError(f"ssl.{ours}.location: {path} cannot be read: {error.strerror}", hint=_PEM) from None
        if text is not None:
            settings[f"ssl.{java}"] = text
            settings[f"ssl.{java.partition('.')[0]}.type"] = "PEM"
    if "BEGIN RSA PRIVATE KEY" in settings.get("ssl.keystore.key", ""):
        raise ConfigError("Java accepts no private key in PKCS#1", hint="openssl pkcs8 -topk8 -in key.pem -out new.pem")
    return settings


def refused(error: Exception, settings: Mapping[str, Any]) -> ConfigError:
    """Returns the error for settings with which no client can be created."""
    text = error.args[0].str() if isinstance(error, KafkaException) else str(error)
    unknown = _NO_SUCH.search(text)
    if unknown is not None:
        name = unknown.group(1)
        return ConfigError(f"Kafka's client has no setting {name!r}", hint=suggestion(name, _NAMES))
    text = _MADE.sub("", without_secrets(one_line(text), settings))
    if "mechanism GSSAPI" in text and "sasl.mechanism" not in settings:
        return ConfigError("sasl.mechanism is missing", hint="PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
    hint = next((f"{name}: {hint}" for name, hint in _FILES.items() if name in text), None)
    return ConfigError(f"Kafka's client cannot be created: {text}", hint=hint)


def without_secrets(text: str, settings: Mapping[str, Any]) -> str:
    """Returns a text with the values of secret settings hidden.

    >>> without_secrets("'tea' is no password of 'me'", {"sasl.password": "tea", "sasl.username": "me"})
    "'…' is no password of 'me'"
    """
    for name, value in settings.items():
        if _SECRET.search(name) and value:
            text = text.replace(str(value), "…")
    return text


def one_line(text: str) -> str:
    """Returns a text without line breaks."""
    return " ".join(text.split())
