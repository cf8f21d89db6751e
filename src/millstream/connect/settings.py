"""Settings of connectors: each connector has one table of its settings, from which they are checked and documented."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from millstream.config.secrets import protected
from millstream.config.validators import Validator
from millstream.errors import ConfigError, suggestion


class _Required:
    """The type of `REQUIRED`."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
"""In place of a default value: the setting must be given."""


class Setting(NamedTuple):
    """One setting of a connector.

    Attributes:
        type: Its type in the reference: text, number, boolean, list, …
        default: Its default value, or `REQUIRED`.
        check: Returns the value to use, or raises an error that names the mistake.
        doc: Its description in the reference.
    """

    type: str
    default: Any
    check: Validator
    doc: str


def read_settings(table: Mapping[str, Setting], given: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Returns a value for each setting of a table: the given one, checked, or the default.

    References such as ``${env:NAME}`` are resolved, and passwords become `Secret`.

    Raises:
        ConfigError: A name is unknown, a value is invalid, or a required setting is missing.
    """
    for name in given:
        if name not in table:
            hint = suggestion(str(name), table) or f"the settings are: {', '.join(table)}"
            raise ConfigError(f"{what}: unknown setting {name!r}", hint=hint)
    missing = [name for name, setting in table.items() if setting.default is REQUIRED and name not in given]
    if missing:
        raise ConfigError(f"{what}: {missing[0]} is missing", hint=f"{missing[0]}: {table[missing[0]].doc}")
    values = {}
    for name, setting in table.items():
        value = given.get(name, setting.default)
        values[name] = None if value is None else setting.check(f"{what}: {name}", protected(name, value))
    return values


def names(key: str, value: Any) -> tuple[str, ...]:
    """Accepts names, as a list or as text with commas."""
    listed = value.split(",") if isinstance(value, str) else value
    if isinstance(listed, list | tuple) and all(isinstance(name, str) and name.strip() for name in listed):
        return tuple(name.strip() for name in listed)
    raise ConfigError(f"{key}: {value!r} is not a list of names", hint="write name, or name,name,…")
