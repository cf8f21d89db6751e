"""Secrets in the configuration: references to variables and files, and values that are never printed."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from millstream.errors import ConfigError

_SECRET = re.compile(
    r"password|secret|token|\.pem$|credential(?!s\.source$)|oauthbearer\.config|user\.info$|^mask\.key\."
)
_SECRET_OF_SPARK = re.compile(r"(?i)password|secret|token|credential|jaas|private|access\.key|account\.key|\.key\b")
_REFERENCE = re.compile(r"\$\{(?P<kind>env|file):(?P<name>[^}]+)\}")


class Secret:
    """A text that `repr`, messages and logs do not show.

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
    """Returns the value of a configuration key with references resolved, as a `Secret` if the key names one.

    ``${env:NAME}`` refers to an environment variable, ``${file:PATH}`` to the contents of a file.

    >>> protected("sasl.username", "anna"), protected("sasl.password", "hunter2")
    ('anna', Secret(…))

    Raises:
        ConfigError: There is no such variable or file.
    """
    if isinstance(value, str):
        value = _REFERENCE.sub(lambda match: _resolve(key, match["kind"], match["name"]), value)
        if _SECRET.search(key):
            return Secret(value)
    return value


def is_secret(key: str, value: Any) -> bool:
    """Whether the value of a configuration key must not be shown. Settings of Spark are judged by their names.

    >>> is_secret("spark.hadoop.fs.s3a.secret.key", "hunter2"), is_secret("spark.sql.shuffle.partitions", "4")
    (True, False)
    """
    return isinstance(value, Secret) or (key.startswith("spark.") and _SECRET_OF_SPARK.search(key) is not None)


def reveal(value: Any) -> Any:
    """Returns the text of a `Secret`, and any other value unchanged."""
    return value.reveal() if isinstance(value, Secret) else value


def _resolve(key: str, kind: str, name: str) -> str:
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
