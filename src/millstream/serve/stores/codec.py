"""Keys and rows of stores as JSON, by the serdes of the store."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any

import msgspec
from fastapi import HTTPException
from starlette.responses import Response

from millstream.core.durations import later
from millstream.errors import RegistryError, SerdeError, SetupError
from millstream.schemas.json_values import as_field, parse_json, value_of_json
from millstream.serde import BYTES, STRING, Serde
from millstream.serde.windowed import window_bytes
from millstream.serve.stores.definitions import StoreDefinition
from millstream.state.ordered import after_prefix
from millstream.views.pages import ViewRow

_TEXT_COLUMN = re.compile(r"sql-(\w+-)?key<`[^`]*` STRING>")

Bounds = tuple[bytes, bytes | None]
"""The least key of a range, and the key below which its keys are."""


def has_text_keys(store: StoreDefinition) -> bool:
    """Whether a key in a query or a path is text: that of a string, of a UUID, or of a single SQL column with text."""
    return store.key is STRING or store.key.name == "uuid" or _TEXT_COLUMN.fullmatch(store.key.name) is not None


def key_of_text(store: StoreDefinition, text: str, what: str) -> bytes:
    """Returns the bytes of a key in a query or a path: text, or JSON if the key is not a string.

    Raises:
        HTTPException: 400, it is not a key of the store.
    """
    if has_text_keys(store) or store.key is BYTES:
        return key_of_json(store, text, what)
    try:
        value = parse_json(text)
    except ValueError as error:
        message = f"{what}: the key is not JSON, as the serde {store.key.name} needs it: {error}"
        raise HTTPException(400, message) from None
    return key_of_json(store, value, what)


def key_of_json(store: StoreDefinition, value: Any, what: str) -> bytes:
    """Returns the bytes of a key that was sent as JSON; those of bytes are in base64.

    Raises:
        HTTPException: 400, it is not a key of the store.
    """
    serde = store.key
    if serde is BYTES:
        return bytes_of_base64(value, what)
    try:
        data = serde.serialize(_plain_key(value, serde))
    except (RegistryError, SetupError):
        raise
    except SerdeError as error:
        raise HTTPException(400, f"{what}: {error.message}") from None
    except Exception:  # noqa: BLE001  (a key from outside can be of any type, with which serdes fail in many ways)
        raise HTTPException(400, f"{what}: it does not fit the serde {serde.name}") from None
    if data is None:
        raise HTTPException(400, f"{what}: a key is not null")
    return data


def _plain_key(value: Any, serde: Serde[Any]) -> Any:
    if window_bytes(serde) and isinstance(value, dict) and value.get("end") is None and "start" in value:
        size = getattr(serde, "size_ms", None)
        value = {**value, "end": value["start"] if size is None else later(value["start"], size)}
    value = value_of_json(value, serde)
    return tuple(value) if isinstance(value, list) and serde.name.startswith("sql-key<") else value


def bytes_of_base64(value: Any, what: str) -> bytes:
    """Returns bytes that were sent in base64.

    Raises:
        HTTPException: 400, they are not.
    """
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise HTTPException(400, f"{what}: it is not base64") from None


def prefix_of_text(store: StoreDefinition, text: str) -> Bounds:
    """Returns the range of the keys with a prefix.

    The prefix of a string is a string, that of a JSON array is an array of its first items, that of bytes is in base64.

    Raises:
        HTTPException: 400, keys of the store have no prefix, or it is not one.
    """
    if store.key is STRING or store.key is BYTES:
        prefix = key_of_text(store, text, "prefix")
    elif store.key.name == "json":
        prefix = key_of_text(store, text, "prefix")
        if prefix[:1] != b"[" or prefix == b"[]":
            raise HTTPException(400, 'prefix: of JSON keys, only arrays have a prefix: ["first"] for ["first", 2]')
        prefix = prefix[:-1] + b","
    else:
        raise HTTPException(400, f"prefix: keys of the serde {store.key.name} have none; from and to give a range")
    return prefix, after_prefix(prefix)


def row_as_json(store: StoreDefinition, row: ViewRow) -> dict[str, Any]:
    """Returns a row as JSON. Bytes that cannot be decoded are in ``key_base64`` and ``value_base64``."""
    content = as_field("key", row.key, store.key)
    content |= as_field("value", row.value, store.value)
    content["timestamp"] = row.timestamp if store.timestamped and row.timestamp >= 0 else None
    if store.kind == "window":
        size = store.window_size_ms
        content["window"] = {"start": row.time, "end": None if size is None else later(row.time, size)}
    elif store.kind == "session":
        content["window"] = {"start": row.rank, "end": row.time}
    elif store.kind == "versioned":
        content |= {"timestamp": row.timestamp, "valid_from": row.timestamp, "valid_to": row.until}
    return content


def with_window(store: StoreDefinition, row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row whose key contains a window with the window beside the key."""
    key = row.get("key")
    if not window_bytes(store.key) or not isinstance(key, dict):
        return row
    has_end = getattr(store.key, "size_ms", 0) is not None
    window = {"start": key["start"], "end": key["end"] if has_end else None}
    return {**row, "key": key["key"], "window": window}


def missing_row(store: StoreDefinition, key: bytes) -> dict[str, Any]:
    """Returns the JSON of a key that has no row."""
    row = row_as_json(store, ViewRow(0, key, b"", -1))
    kept: dict[str, Any] = {name: row[name] for name in ("key", "key_base64") if name in row}
    return kept | {"value": None, "timestamp": None}


def json_response(content: Any, headers: dict[str, str] | None = None) -> Response:
    """Returns an answer. FastAPI would convert each value once more, which takes most of the time of a page."""
    try:
        body = msgspec.json.encode(content)
    except (TypeError, ValueError, OverflowError):  # an integer of more than 64 bits, a lone surrogate
        body = json.dumps(content).encode()
    return Response(body, media_type="application/json", headers=headers)
