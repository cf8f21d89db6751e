"""Validators of configuration values: each returns the value to use, or raises a `ConfigError` that names the key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias
from urllib.parse import SplitResult, urlsplit

from millstream.config.secrets import Secret
from millstream.core.asynchronous import ASYNC_HINT, is_async
from millstream.core.durations import to_ms
from millstream.core.names import check_name
from millstream.errors import ConfigError, DurationError, suggestion

Validator: TypeAlias = Callable[[str, Any], Any]

OPTIMIZATIONS = ("reuse.ktable.source.topics", "merge.repartition.topics", "single.store.self.join")
"""The rules that ``topology.optimization`` can name."""

_BY_DURATION = "by_duration:"


def anything(_key: str, value: Any) -> Any:
    """Accepts every value."""
    return value


def optional(validator: Validator) -> Validator:
    """Accepts None, and the values that another validator accepts."""
    return lambda key, value: None if value is None else validator(key, value)


def one_of(*allowed: str) -> Validator:
    """Accepts one of several words."""

    def check(key: str, value: Any) -> Any:
        if isinstance(value, str) and value in allowed:
            return value
        hint = (suggestion(value, allowed) if isinstance(value, str) else None) or f"use one of: {', '.join(allowed)}"
        raise ConfigError(f"{key}: {value!r} is not allowed", hint=hint)

    return check


def number(least: int, most: int | None = None) -> Validator:
    """Accepts a whole number that is not below a minimum, nor above a maximum if there is one, also as text."""

    def check(key: str, value: Any) -> Any:
        parsed = int(value) if isinstance(value, str) and value.strip().isdigit() else value
        if type(parsed) is not int or parsed < least or (most is not None and parsed > most):
            to = "" if most is None else f" to {most}"
            raise ConfigError(f"{key}: {value!r} is not allowed", hint=f"use a whole number from {least}{to}")
        return parsed

    return check


def flag(key: str, value: Any) -> bool:
    """Accepts True and False, also as text."""
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise ConfigError(f"{key}: {value!r} is neither true nor false")


def text(key: str, value: Any) -> Any:
    """Accepts text or a path."""
    if isinstance(value, str) or hasattr(value, "__fspath__"):
        return str(value)
    raise ConfigError(f"{key}: {value!r} is not text")


def topic(key: str, value: Any) -> Any:
    """Accepts a legal topic name, or None."""
    return None if value is None else check_name(value, f"{key}: topic")


def handler(key: str, value: Any) -> Any:
    """Accepts ``fail``, ``continue``, or a function that is not asynchronous."""
    if not callable(value):
        return one_of("fail", "continue")(key, value)
    if is_async(value):
        raise ConfigError(f"{key}: {value!r} is asynchronous", hint=ASYNC_HINT)
    return value


def guarantee(key: str, value: Any) -> str:
    """Accepts a processing guarantee. Kafka's ``exactly_once_v2`` is a synonym of ``exactly_once``."""
    name = "exactly_once" if value == "exactly_once_v2" else value
    return str(one_of("exactly_once", "at_least_once", "at_most_once")(key, name))


def servers(key: str, value: Any) -> Any:
    """Accepts addresses of brokers, as text or as a list."""
    addresses = ",".join(value) if isinstance(value, list | tuple) else value
    if isinstance(addresses, str) and all(_is_address(address) for address in addresses.split(",")):
        return addresses
    raise ConfigError(f"{key}: {value!r} is not a list of servers", hint="write host:port, or host:port,host:port,…")


def _is_address(address: str) -> bool:
    host, _colon, port = address.strip().rpartition(":")
    return bool(host) and port.isascii() and port.isdecimal()


def urls(key: str, value: Any) -> str:
    """Accepts addresses of a server with HTTP, as text or as a list. They must not contain a password."""
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else value
    if not isinstance(text, str):
        raise ConfigError(f"{key}: {value!r} is not an address", hint="write http://host:port")
    addresses = [address.strip().rstrip("/") for address in text.split(",")]
    for address in addresses:
        parts = _split(address)
        if parts is not None and "@" in parts.netloc:  # the message must not contain it
            hint = "write it to schema.registry.basic.auth.user.info"
            raise ConfigError(f"{key}: an address contains a user or a password", hint=hint)
        if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname or parts.query:
            raise ConfigError(f"{key}: {address!r} is not an address", hint="write http://host:port, or https://…")
    return ",".join(addresses)


def _split(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        _port = parts.port
    except ValueError:
        return None
    return parts


def secret(key: str, value: Any) -> Any:
    """Accepts a secret text, or None."""
    if value is None or isinstance(value, Secret):
        return value
    raise ConfigError(f"{key}: the value is not text")


def user_info(key: str, value: Any) -> Any:
    """Accepts a secret of the form ``user:password``."""
    if isinstance(value, Secret) and value.reveal().partition(":")[0] and ":" in value.reveal():
        return value
    raise ConfigError(f"{key}: the value is not of the form user:password")


def offset_reset(key: str, value: Any) -> Any:
    """Accepts the start position of a reader: ``earliest``, ``latest``, ``none``, or a duration before now.

    Returns a duration as a number of milliseconds.
    """
    if isinstance(value, str) and value.startswith(_BY_DURATION):
        try:
            duration = value.removeprefix(_BY_DURATION)
            return to_ms(duration[1:].replace("T", "").lower() if duration.startswith("P") else duration)
        except DurationError as error:
            raise ConfigError(f"{key}: {error.message}", hint="write by_duration:1h, or by_duration:PT1H") from None
    if type(value) is int:
        return value
    return one_of("earliest", "latest", "none")(key, value)


def optimization(key: str, value: Any) -> tuple[str, ...]:
    """Accepts ``none``, ``all``, or names of optimizer rules."""
    if value in ("none", ()):
        return ()
    if value == "all":
        return OPTIMIZATIONS
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names:
        names = [value]
    return tuple(one_of(*OPTIMIZATIONS)(key, name) for name in names)
