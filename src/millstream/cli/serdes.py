"""Converts keys and values between bytes, JSON and text on the command line."""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import typer

from millstream.cli.exits import UsageError
from millstream.cli.loading import load, user_lines
from millstream.core.durations import to_ms
from millstream.errors import (
    ConfigError,
    DurationError,
    SerdeError,
    suggestion,
)
from millstream.plan.contracts import quarantine_topics
from millstream.plan.topics import free_writer, reader_of, topics_read, topics_written, writer_of
from millstream.schemas.json_values import parse_json, value_of_json
from millstream.schemas.registries import registry_of
from millstream.schemas.serde import SchemaSerde
from millstream.serde import STRING, Serde, SerdeContext, serde_for, session_windowed, time_windowed
from millstream.serde.error_messages import shorten
from millstream.serde.lookup import BY_NAME

_KEYS = "The serde of keys: text, json, long, double, uuid, bytes, windowed:string:1m, session:string, …"
_VALUES = "The serde of values; the same names."
_WITH_SCHEMAS = " With a schema: avro, protobuf, json_schema."
KeySerde = Annotated[str | None, typer.Option("--key-serde", metavar="SERDE", help=_KEYS)]
ValueSerde = Annotated[str | None, typer.Option("--value-serde", metavar="SERDE", help=_VALUES)]
KeyOfRecord = Annotated[str | None, typer.Option("--key-serde", "--key", metavar="SERDE", help=_KEYS + _WITH_SCHEMAS)]
ValueOfRecord = Annotated[str | None, typer.Option("--value-serde", "--value", metavar="SERDE", help=_VALUES)]


def serde_named(
    name: str | None, option: str, more: Mapping[str, Callable[[], Serde[Any]]] = MappingProxyType({})
) -> Serde[Any]:
    """Returns a serde by name: Kafka's names, and text, the default, for string.

    >>> serde_named("text", "--key-serde"), serde_named("windowed:long:1m", "--key-serde")
    (<string serde>, <time-windowed<long> serde>)

    Args:
        name: The name.
        option: The option, for errors.
        more: Serdes of further names.
    """
    if name is None or name == "text":
        return STRING
    if name in more:
        return more[name]()
    kind, _, rest = name.partition(":")
    try:
        if kind == "session":
            return session_windowed(serde_named(rest or None, option, more))
        if kind == "windowed":
            inner, _, size = rest.rpartition(":")
            return time_windowed(serde_named(inner or None, option, more), to_ms(size, option))
        return serde_for(name, option)
    except DurationError:
        hint = "write the serde of the key and the window size: windowed:string:1m"
        raise UsageError(f"{option}: cannot read {name!r}", hint=hint) from None
    except ConfigError as error:
        names = [*BY_NAME, *more]
        hint = suggestion(name.lower(), names) or f"known are {', '.join(names)}"
        raise UsageError(error.message, hint=hint) from None


def serdes_of(target: str, topic: str) -> tuple[Serde[Any], Serde[Any]]:
    """Returns the serdes of keys and values with which an application writes or reads a topic.

    Raises:
        UsageError: It does neither.
    """
    app = load(target)
    with user_lines():
        plan = app.plan()
    node = writer_of(plan, topic) or reader_of(plan, topic)
    dead_letters = app.config["errors.dead.letter.queue.topic.name"]
    if node is None and topic in {dead_letters, *quarantine_topics(plan, app.config)}:
        return STRING, STRING
    node = node or free_writer(plan)
    if node is None:
        names = sorted({*topics_read(plan), *topics_written(plan)})
        hint = suggestion(topic, names) or f"its topics are: {', '.join(names)}"
        raise UsageError(f"--app: application {app.id!r} has no topic {topic!r}", hint=hint)
    registry = registry_of(app.id, app.config)
    keys, values = SerdeContext(topic, True, registry), SerdeContext(topic, False, registry)
    return node.key.bind(keys), node.value.bind(values)


def to_value(text: str, serde: Serde[Any], what: str) -> Any:
    """Converts typed text to a value of a serde.

    Raises:
        UsageError: It is not one.
    """
    kind = "json" if isinstance(serde, SchemaSerde) else serde.name
    try:
        if kind in {"long", "int", "short"}:
            return int(text)
        if kind in {"double", "float"}:
            return float(text)
        if kind == "boolean":
            return {"true": True, "false": False}[text.lower()]
        if kind == "json":
            return value_of_json(parse_json(text), serde)
        if kind == "uuid":
            return uuid.UUID(text)
        if kind == "bytes":
            return bytes.fromhex(text.removeprefix("0x"))
    except (ValueError, KeyError) as error:
        if kind == "json":
            raise UsageError(f"{what}: {shorten(text)} is not JSON: {error}") from None
        expected = "hexadecimal digits" if kind == "bytes" else f"a {kind}"
        raise UsageError(f"{what}: {shorten(text)} is not {expected}") from None
    return text


def to_bytes(text: str, serde: Serde[Any], what: str) -> bytes | None:
    """Serializes typed text."""
    try:
        return serde.serialize(to_value(text, serde, what))
    except SerdeError as error:
        raise refused(error, serde, what) from None


def refused(error: SerdeError, serde: Serde[Any], what: str) -> UsageError:
    """Returns the error of a value that a serde does not write."""
    hint = error.hint
    if isinstance(serde, SchemaSerde):
        hint = f"this shows the schema: millstream schemas show {serde.subject}"
    return UsageError(f"{what}: {error.message}", hint=hint)


def bytes_of_json(value: Any, what: str) -> bytes | None:
    """Returns the bytes of a JSON value: a text unchanged, any other value as compact JSON.

    Raises:
        UsageError: It contains a text that cannot be encoded.
    """
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} contains a lone surrogate, which cannot be encoded") from None


def from_base64(text: Any, what: str) -> bytes:
    """Decodes base64.

    Raises:
        UsageError: The text is not base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise UsageError(f"{what} is not base64") from None
