"""Secrets: where they come from, and how they are kept from being printed."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from millstream.errors import ConfigError

_SECRET = re.compile(r"password|secret|token|\.pem$|credential|oauthbearer\.config")
_REFERENCE = re.compile(r"\$\{(?P<kind>env|file):(?P<name>[^}]+)\}")


class Secret:
    """A text that is not shown: not by `repr`, not in a message, not in a log.

    >>> Secret("hunter2")
    Secret(…)
    >>> f"the password is {Secret('hunter2')}"
    'the password is Secret(…)'
    >>> Secret("hunter2").reveal()
    'hunter2'
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Returns the text."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(…)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


def protected(key: str, value: Any) -> Any:
    """Returns the value of a configuration key: what it refers to, and hidden if its name says that it is a secret.

    A value may be ``${env:NAME}``, an environment variable, or ``${file:PATH}``, what is in a file.

    >>> protected("sasl.username", "anna"), protected("sasl.password", "hunter2")
    ('anna', Secret(…))

    Raises:
        ConfigError: There is no such variable or file.
    """
    if isinstance(value, str):
        value = _REFERENCE.sub(lambda found: _looked_up(key, found["kind"], found["name"]), value)
        if _SECRET.search(key):
            return Secret(value)
    return value


def reveal(value: Any) -> Any:
    """Returns what a value is, if it is hidden."""
    return value.reveal() if isinstance(value, Secret) else value


def _looked_up(key: str, kind: str, name: str) -> str:
    if kind == "env":
        try:
            return os.environ[name]
        except KeyError:
            raise ConfigError(f"{key}: there is no environment variable {name}") from None
    try:
        return Path(name).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"{key}: {name} cannot be read: {reason}") from None
