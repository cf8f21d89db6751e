"""Converts keys and values between bytes, JSON and text on the command line."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime as dt
import json
import math
import uuid
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from millstream.cli.exits import UsageError
from millstream.cli.loading import load, user_lines
from millstream.core.durations import to_ms
from millstream.core.records import Headers, Windowed
from millstream.errors import (
    ConfigError,
    DurationError,
    RegistryError,
    SerdeError,
    SetupError,
    UnknownSchemaError,
    suggestion,
)
from millstream.plan.contracts import quarantine_topics
from millstream.plan.topics import free_writer, reader_of, topics_read, topics_written, writer_of
from millstream.schemas.registries import registry_of
from millstream.schemas.serde import MAGIC, PREFIX, SchemaSerde
from millstream.serde import STRING, Serde, SerdeContext, serde_for, session_windowed, time_windowed
from millstream.serde.api import reader
from millstream.serde.error_messages import shorten
from millstream.serde.lookup import BY_NAME
from millstream.text.escaping import json_text, printable

if TYPE_CHECKING:
    from millstream.registry import SchemaRegistry

_NOT_IN_JSON = ("NaN", "Infinity", "-Infinity")
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


class Found(NamedTuple):
    """A value that was read with the schema whose id its record carries."""

    value: Any
    schema_id: int


class TextOrSchema(Serde[Any]):
    """Reads a record with the schema whose id it carries. All other records are text.

    Bytes that begin with a zero byte can have any meaning, so a record is text, too, if the registry does not have the
    id, or if the bytes do not fit its schema.
    """

    name = "text"
    uses_headers = True

    def __init__(
        self, registry: Callable[[], SchemaRegistry], serde_of: Callable[[str], Serde[Any]], *, is_key: bool
    ) -> None:
        self._registry = registry
        self._serde_of = serde_of
        self._header = "__key_schema_id" if is_key else "__value_schema_id"
        self._serdes: dict[bytes, Serde[Any] | None] = {}

    def serialize(self, value: Any) -> bytes | None:
        """Writes text."""
        return STRING.serialize(value)

    def deserialize(self, data: bytes | None) -> Any:
        """Reads text."""
        return STRING.deserialize(data)

    def read(self, data: bytes, headers: Headers) -> Found | None:
        """Reads a record with its schema; None if it has none.

        Raises:
            RegistryError: The registry does not answer.
            SetupError: The library of the format is not installed.
        """
        prefix = next((value for name, value in headers if name == self._header and value is not None), b"")
        data = prefix + data
        if data[:1] != MAGIC or len(data) < PREFIX:
            return None
        prefix = data[:PREFIX]
        schema_id = int.from_bytes(prefix[1:], "big")
        if schema_id == 0:  # ids begin with 1; the bytes are probably a number
            return None
        try:
            if prefix not in self._serdes:
                self._serdes[prefix] = self._serde_of(self._registry().schema(schema_id).type)
            serde = self._serdes[prefix]
            return None if serde is None else Found(to_json_value(serde.deserialize(data)), schema_id)
        except UnknownSchemaError:
            self._serdes[prefix] = None
        except (RegistryError, SetupError):
            raise
        except Exception:  # noqa: BLE001  (a value may be nested too deeply, or of a type that has no JSON)
            return None
        return None


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


def parse_json(text: str) -> Any:
    """Parses JSON by the standard, without NaN and infinities.

    Raises:
        ValueError: It is not JSON. The message contains the reason.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError:
        raise
    except ValueError as error:
        if "digits" in str(error):  # Python's message recommends changing settings of the interpreter
            raise ValueError("a number has more than 4300 digits") from None
        raise


def _refuse_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{shorten(text)} exceeds the range of a 64-bit number")
    return number


def value_of_json(value: Any, serde: Serde[Any]) -> Any:
    """Converts a JSON value to a value of a serde: the inverse of `to_json_value`."""
    kind = serde.name
    inner = getattr(serde, "inner", None)
    if isinstance(serde, SchemaSerde) and value is not None:
        return serde.value_of_json(value)
    if inner is not None and isinstance(value, dict) and value.keys() == {"key", "start", "end"}:
        return Windowed(value_of_json(value["key"], inner), value["start"], value["end"])
    if kind in {"double", "float"} and value in _NOT_IN_JSON:
        return float(value)
    if kind == "uuid" and isinstance(value, str):
        return uuid.UUID(value)
    return value


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


def as_text(data: bytes | None, serde: Serde[Any], headers: Headers = ()) -> str:
    """Returns bytes as readable text; in hexadecimal if the serde cannot deserialize them."""
    if data is None:
        return "null"
    if isinstance(serde, TextOrSchema):
        found = serde.read(data, headers)
        return printable(data.decode("utf-8", "backslashreplace")) if found is None else to_text(found.value)
    if serde is STRING:
        return printable(data.decode("utf-8", "backslashreplace"))
    try:
        return to_text(reader(serde)(data, headers))
    except (RegistryError, SetupError):
        raise
    except Exception:  # noqa: BLE001  (a user's serde may raise anything, and a value may be nested too deeply)
        return f"(not {serde.name}) 0x{data.hex()}"


def to_text(value: Any) -> str:
    """Returns a value as readable text.

    >>> to_text({"a": 1}), to_text(b"ab"), to_text(None), to_text("x"), to_text(1.5)
    ('{"a": 1}', '0x6162', 'null', 'x', '1.5')
    """
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Windowed):
        return f"{to_text(value.key)} @ {value.start}/{value.end}"
    return json_text(to_json_value(value))


def to_json_value(value: Any) -> Any:  # noqa: PLR0911  (one case for each type)
    """Converts a value to JSON types. Numbers that JSON lacks become the texts NaN, Infinity, -Infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, Windowed):
        return {"key": to_json_value(value.key), "start": value.start, "end": value.end}
    if isinstance(value, dict):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json_value(item) for item in value]
    if hasattr(value, "DESCRIPTOR"):
        from google.protobuf.json_format import MessageToDict

        return MessageToDict(value)
    if dataclasses.is_dataclass(value):
        return {field.name: to_json_value(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return str(value)


def as_field(name: str, data: bytes | None, serde: Serde[Any], headers: Headers = ()) -> dict[str, Any]:
    """Returns bytes as a field of a JSON object; bytes that are not text, in base64 under another name.

    A value with the id of a schema comes with the id and the bytes, so that `produce` writes the same bytes.

    >>> as_field("value", b"a", STRING), as_field("value", bytes([255]), STRING), as_field("value", None, STRING)
    ({'value': 'a'}, {'value_base64': '/w=='}, {'value': None})
    """
    if data is None:
        return {name: None}
    try:
        if isinstance(serde, TextOrSchema):
            found = serde.read(data, headers)
            if found is not None:
                return {
                    name: to_json_value(found.value),
                    f"{name}_schema_id": found.schema_id,
                    f"{name}_base64": to_json_value(data),
                }
        value = reader(serde)(data, headers)
        if not (value is None or isinstance(value, bytes)):
            return {name: to_json_value(value)}
        value = data  # JSON's null is a value, not a missing one
    except (RegistryError, SetupError):
        raise
    except Exception:  # noqa: BLE001  (as in `as_text`)
        value = data
    return {f"{name}_base64": to_json_value(value)}


def as_headers(headers: Headers) -> list[list[Any]]:
    """Returns headers as a list of names and values: null, text, or ``{"base64": …}`` for bytes that are not text.

    >>> as_headers((("a", b"x"), ("a", None), ("b", bytes([255]))))
    [['a', 'x'], ['a', None], ['b', {'base64': '/w=='}]]
    """
    return [[name, _header(value)] for name, value in headers]


def _header(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": to_json_value(value)}


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
