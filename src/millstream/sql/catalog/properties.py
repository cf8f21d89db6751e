"""The properties of WITH clauses: which there are, and what values they take."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from millstream.core.frozen import Frozen
from millstream.errors import suggestion
from millstream.sql.catalog.sources import WindowInfo
from millstream.sql.syntax import tree
from millstream.sql.syntax.preparation import PreparationError

_UNITS = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}


def parse_duration(text: str) -> int | None:
    """Returns the milliseconds of ``30 SECONDS``, None if the text is no duration."""
    match = re.fullmatch(r"\s*(\d+)\s+([A-Z]+?)S?\s*", text.upper())
    unit = _UNITS.get(match[2]) if match else None
    return int(match[1]) * unit if match and unit else None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("a text")


def _filled(value: Any) -> str:
    text = _text(value)
    if not text.strip():
        raise ValueError("a text that is not empty")
    return text


def _number(value: Any) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise ValueError("a whole number") from None


def _positive(value: Any) -> int:
    number = _number(value)
    if number < 1:
        raise ValueError("a number of at least 1")
    return number


def _boolean(value: Any) -> bool:
    text = str(value).lower()
    if text in ("true", "false"):
        return text == "true"
    raise ValueError("TRUE or FALSE")


def _upper(value: Any) -> str:
    return _text(value).upper()


def _window_type(value: Any) -> str:
    kind = _upper(value)
    if kind not in ("TUMBLING", "HOPPING", "SESSION"):
        raise ValueError("TUMBLING, HOPPING or SESSION")
    return kind


def _window_size(value: Any) -> int:
    millis = parse_duration(_text(value))
    if not millis:
        raise ValueError("a duration such as '10 SECONDS'")
    return millis


def _delimiter(value: Any) -> str:
    text = _text(value)
    named = {"SPACE": " ", "TAB": "\t"}.get(text.upper())
    if named is None and (len(text) != 1 or text.isspace()):
        raise ValueError("one character, SPACE or TAB")
    return named or text


def _nullable(value: Any) -> str:
    kind = _upper(value)
    if kind not in ("OPTIONAL", "WRAPPER"):
        raise ValueError("OPTIONAL or WRAPPER")
    return kind


_COMMON: dict[str, Callable[[Any], Any]] = {
    "KAFKA_TOPIC": _filled,
    "VALUE_FORMAT": _upper,
    "KEY_FORMAT": _upper,
    "FORMAT": _upper,
    "PARTITIONS": _positive,
    "REPLICAS": _positive,
    "RETENTION_MS": _number,
    "CLEANUP_POLICY": _text,
    "TIMESTAMP": _filled,
    "TIMESTAMP_FORMAT": _text,
    "WRAP_SINGLE_VALUE": _boolean,
    "KEY_DELIMITER": _delimiter,
    "VALUE_DELIMITER": _delimiter,
    "KEY_SCHEMA_ID": _number,
    "VALUE_SCHEMA_ID": _number,
    "KEY_SCHEMA_FULL_NAME": _filled,
    "VALUE_SCHEMA_FULL_NAME": _filled,
    "VALUE_AVRO_SCHEMA_FULL_NAME": _filled,
    "KEY_PROTOBUF_NULLABLE_REPRESENTATION": _nullable,
    "VALUE_PROTOBUF_NULLABLE_REPRESENTATION": _nullable,
}
CREATE_PROPERTIES = {
    **_COMMON,
    "WINDOW_TYPE": _window_type,
    "WINDOW_SIZE": _window_size,
    "SOURCED_BY_CONNECTOR": _text,
}
"""The properties of CREATE STREAM and CREATE TABLE."""
CREATE_AS_PROPERTIES = _COMMON
"""The properties of CREATE … AS."""
INSERT_PROPERTIES: dict[str, Callable[[Any], Any]] = {"QUERY_ID": _filled}
"""The properties of INSERT INTO."""


class SourceProperties(Frozen):
    """The checked properties of a statement."""

    values: Mapping[str, Any]
    places: Mapping[str, tree.Position]

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the value of a property."""
        return self.values.get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def error(self, name: str, message: str, hint: str | None = None) -> PreparationError:
        """Returns an error at a property."""
        return PreparationError(message, hint=hint, at=self.places.get(name))

    @property
    def window(self) -> WindowInfo | None:
        """The window of the keys.

        Raises:
            SqlStatementError: The size is missing, or there is one where none can be.
        """
        kind, size = self.get("WINDOW_TYPE"), self.get("WINDOW_SIZE")
        if kind is None:
            if size is not None:
                raise self.error("WINDOW_SIZE", "WINDOW_SIZE needs WINDOW_TYPE")
            return None
        if kind == "SESSION" and size is not None:
            raise self.error("WINDOW_SIZE", "'WINDOW_SIZE' should not be set for SESSION windows.")
        if kind != "SESSION" and size is None:
            raise self.error(
                "WINDOW_TYPE",
                f"{kind} windows require 'WINDOW_SIZE' to be provided in the WITH clause. "
                "For example: 'WINDOW_SIZE'='10 SECONDS'",
            )
        return WindowInfo(kind, size)


def check_properties(properties: tree.Properties, known: Mapping[str, Callable[[Any], Any]]) -> SourceProperties:
    """Checks names and values of properties.

    Raises:
        SqlStatementError: A property is unknown, given twice, or has a wrong value.
    """
    values: dict[str, Any] = {}
    places: dict[str, tree.Position] = {}
    for name, literal in properties.items:
        if name not in known:
            raise PreparationError(
                f"Invalid config variable(s) in the WITH clause: {name}", hint=suggestion(name, known), at=literal.at
            )
        if name in values:
            raise PreparationError(f"Duplicate property in the WITH clause: {name}", at=literal.at)
        try:
            values[name] = known[name](literal.value)
        except ValueError as error:
            raise PreparationError(
                f"Invalid value {literal.value!r} for property {name}: it must be {error}.", at=literal.at
            ) from None
        places[name] = literal.at
    for one in ("KEY_FORMAT", "VALUE_FORMAT"):
        if "FORMAT" in values and one in values:
            raise PreparationError(
                f"Cannot supply both '{one}' and 'FORMAT' properties, as 'FORMAT' sets both key and value formats.",
                hint="Either use just 'FORMAT', or use 'KEY_FORMAT' and 'VALUE_FORMAT'.",
                at=places["FORMAT"],
            )
    return SourceProperties(values, places)
