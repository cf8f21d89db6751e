"""Converts keys and values between bytes, JSON and text: for people, on the command line and over HTTP."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import json
import math
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from millstream.core.records import Headers, Windowed
from millstream.errors import RegistryError, SetupError, UnknownSchemaError
from millstream.schemas.serde import MAGIC, PREFIX, SchemaSerde
from millstream.serde import STRING, Serde
from millstream.serde.api import reader
from millstream.serde.error_messages import shorten
from millstream.text.escaping import json_text, printable

if TYPE_CHECKING:
    from millstream.registry import SchemaRegistry

_NOT_IN_JSON = ("NaN", "Infinity", "-Infinity")


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
