"""Keys and values between bytes and what people type and read."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import math
import uuid
from typing import Annotated, Any

import typer

from millstream.cli.exits import UsageError
from millstream.cli.loading import lines_of_user, load
from millstream.core.durations import to_ms
from millstream.core.records import Headers, Windowed
from millstream.errors import ConfigError, DurationError, SerdeError, suggestion
from millstream.plan.topics import free_writer, reader_of, topics_read, topics_written, writer_of
from millstream.serde import STRING, Serde, serde_for, session_windowed, time_windowed
from millstream.serde.error_messages import shorten
from millstream.text.escaping import json_text, printable

_NOT_IN_JSON = ("NaN", "Infinity", "-Infinity")
_KEYS = "What keys are: text, json, long, double, uuid, bytes, windowed:string:1m, session:string, …"
KeySerde = Annotated[
    str | None,
    typer.Option(
        "--key-serde",
        metavar="SERDE",
        help=_KEYS,
    ),
]
ValueSerde = Annotated[
    str | None, typer.Option("--value-serde", metavar="SERDE", help="What values are. The same names.")
]


def serde_named(name: str | None, option: str) -> Serde[Any]:
    """Returns a serde by the name that a person gave: Kafka's names, and text for string, the usual one.

    >>> serde_named("text", "--key-serde"), serde_named("windowed:long:1m", "--key-serde")
    (<string serde>, <time-windowed<long> serde>)
    """
    if name is None or name == "text":
        return STRING
    kind, _, rest = name.partition(":")
    try:
        if kind == "session":
            return session_windowed(serde_named(rest or None, option))
        if kind == "windowed":
            inner, _, size = rest.rpartition(":")
            return time_windowed(serde_named(inner or None, option), to_ms(size, option))
        return serde_for(name, option)
    except DurationError:
        hint = "write key and size of the windows: windowed:string:1m"
        raise UsageError(f"{option}: cannot read {name!r}", hint=hint) from None
    except ConfigError as error:
        raise UsageError(error.message, hint=error.hint) from None


def serdes_of(target: str, topic: str) -> tuple[Serde[Any], Serde[Any]]:
    """Returns what the keys and values of a topic are to an application that writes or reads it.

    Raises:
        UsageError: It does neither.
    """
    app = load(target)
    with lines_of_user():
        plan = app.plan()
    known = writer_of(plan, topic) or reader_of(plan, topic)
    if known is None and topic == app.config["errors.dead.letter.queue.topic.name"]:
        return STRING, STRING
    known = known or free_writer(plan)
    if known is None:
        names = sorted({*topics_read(plan), *topics_written(plan)})
        hint = suggestion(topic, names) or f"its topics are: {', '.join(names)}"
        raise UsageError(f"--app: application {app.id!r} has no topic {topic!r}", hint=hint)
    return known.key, known.value


def to_value(text: str, serde: Serde[Any], what: str) -> Any:
    """Returns what a person typed as a value that the serde can write.

    Raises:
        UsageError: It is none.
    """
    kind = serde.name
    try:
        if kind in {"long", "int", "short"}:
            return int(text)
        if kind in {"double", "float"}:
            return float(text)
        if kind == "boolean":
            return {"true": True, "false": False}[text.lower()]
        if kind == "json":
            return parse_json(text)
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
    """Returns what a JSON text stands for, by the standard: it has no NaN and no infinities.

    Raises:
        ValueError: It is not JSON. The message says why.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError:
        raise
    except ValueError as error:
        if "digits" in str(error):  # Python's own message advises to change the interpreter's settings
            raise ValueError("a number has more than 4300 digits") from None
        raise


def _refuse_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{shorten(text)} is beyond the numbers of 64 bits")
    return number


def value_of_json(value: Any, serde: Serde[Any]) -> Any:
    """Returns what a JSON value stands for, so that the serde can write it: the reverse of `plain`."""
    kind = serde.name
    inner = getattr(serde, "inner", None)
    if inner is not None and isinstance(value, dict) and value.keys() == {"key", "start", "end"}:
        return Windowed(value_of_json(value["key"], inner), value["start"], value["end"])
    if kind in {"double", "float"} and value in _NOT_IN_JSON:
        return float(value)
    if kind == "uuid" and isinstance(value, str):
        return uuid.UUID(value)
    return value


def to_bytes(text: str, serde: Serde[Any], what: str) -> bytes | None:
    """Returns the bytes of what a person typed."""
    try:
        return serde.serialize(to_value(text, serde, what))
    except SerdeError as error:
        raise UsageError(f"{what}: {error.message}", hint=error.hint) from None


def as_text(data: bytes | None, serde: Serde[Any]) -> str:
    """Returns bytes as a person can read them; those that the serde cannot read, byte by byte."""
    if data is None:
        return "null"
    if serde is STRING:
        return printable(data.decode("utf-8", "backslashreplace"))
    try:
        return shown(serde.deserialize(data))
    except Exception:  # noqa: BLE001  (a serde of the user's may raise anything, and values may be nested deeply)
        return f"(not {serde.name}) 0x{data.hex()}"


def shown(value: Any) -> str:
    """Returns a value as a person can read it.

    >>> shown({"a": 1}), shown(b"ab"), shown(None), shown("x"), shown(1.5)
    ('{"a": 1}', '0x6162', 'null', 'x', '1.5')
    """
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Windowed):
        return f"{shown(value.key)} @ {value.start}/{value.end}"
    return json_text(plain(value))


def plain(value: Any) -> Any:
    """Returns a value as JSON can hold it. The numbers that JSON lacks become the texts NaN, Infinity, -Infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Windowed):
        return {"key": plain(value.key), "start": value.start, "end": value.end}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return str(value)


def as_field(name: str, data: bytes | None, serde: Serde[Any]) -> dict[str, Any]:
    """Returns bytes as a field of a JSON object; those that are no text, in base64 under another name.

    >>> as_field("value", b"a", STRING), as_field("value", bytes([255]), STRING), as_field("value", None, STRING)
    ({'value': 'a'}, {'value_base64': '/w=='}, {'value': None})
    """
    if data is None:
        return {name: None}
    try:
        value = serde.deserialize(data)
        if not (value is None or isinstance(value, bytes)):
            return {name: plain(value)}
        value = data  # the word null of JSON is not the same as no bytes
    except Exception:  # noqa: BLE001  (a serde of the user's may raise anything, and `plain` goes as deep as the value)
        value = data
    return {f"{name}_base64": plain(value)}


def as_headers(headers: Headers) -> list[list[Any]]:
    """Returns headers as a list of names and values: null, text, or ``{"base64": …}`` for bytes that are no text.

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
        return {"base64": plain(value)}


def bytes_of_json(value: Any, what: str) -> bytes | None:
    """Returns the bytes of a JSON value: those of a text as it is, those of anything else as compact JSON.

    Raises:
        UsageError: It is no text that can be written.
    """
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} has half of a surrogate pair, which is no text") from None


def from_base64(text: Any, what: str) -> bytes:
    """Returns the bytes that a base64 text stands for.

    Raises:
        UsageError: It is none.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise UsageError(f"{what} is not base64") from None
