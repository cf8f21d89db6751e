"""Encodes records of topics, and changes of stores, as events."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from millstream.core.records import Headers, UnreadableHeaders
from millstream.errors import MillstreamError
from millstream.schemas.json_values import as_field, as_headers
from millstream.serde import Serde
from millstream.serde.key_layouts import split_session_key, split_store_window_key
from millstream.serde.windowed import SessionWindowedSerde, TimeWindowedSerde, window_bytes
from millstream.serve.live.feeds import Event
from millstream.state.paged.history import versions_put
from millstream.state.spec import NO_TIMESTAMP, StoreKind

Row: TypeAlias = tuple[int, int, bytes | None, bytes | None, Headers]
"""Offset, timestamp, key, value and headers of a record."""

Mask: TypeAlias = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
"""Hides the personal fields of records or rows."""

Encode: TypeAlias = Callable[[Iterable[Row]], list[Event]]


class Serdes(NamedTuple):
    """The serdes of keys and values."""

    key: Serde[Any]
    value: Serde[Any]


class TopicEncoder:
    """Encodes the records of a partition.

    Args:
        partition: The partition.
        serdes: The serdes of the topic.
        mask: Hides personal fields.
    """

    def __init__(self, partition: int, serdes: Serdes, mask: Mask) -> None:
        self._partition = partition
        self._serdes = serdes
        self._mask = mask

    def __call__(self, rows: Iterable[Row]) -> list[Event]:
        """Returns an event for each record."""
        records = self._mask([self._record(*row) for row in rows])
        return [Event(record["offset"], None, rest_of(record)) for record in records]

    def _record(
        self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> dict[str, Any]:
        record: dict[str, Any] = {"partition": self._partition, "offset": offset, "timestamp": timestamp}
        record |= _field("key", key, self._serdes.key, headers) | _field("value", value, self._serdes.value, headers)
        if isinstance(headers, UnreadableHeaders):
            record["headers_error"] = headers.reason
        else:
            record["headers"] = as_headers(headers)
        return record


class StoreEncoder:
    """Encodes the changes of a store, as its changelog has them.

    Args:
        partition: The partition of the changelog.
        kind: The kind of the store.
        serdes: The serdes of the store.
        mask: Hides personal fields.
        window_size_ms: The size of the windows of a window store; None: unknown.
        has_versions: The changelog has a record for each version of a versioned store, as workers write it (see
            `millstream.state.paged.history`).
    """

    def __init__(
        self,
        partition: int,
        kind: StoreKind,
        serdes: Serdes,
        mask: Mask,
        window_size_ms: int | None = None,
        *,
        has_versions: bool = False,
    ) -> None:
        self._partition = partition
        self._kind = kind
        self._whole_key = serdes.key if isinstance(serdes.key, TimeWindowedSerde | SessionWindowedSerde) else None
        self._serdes = serdes if self._whole_key is None else serdes._replace(key=self._whole_key.inner)
        self._mask = mask
        self._size = window_size_ms
        self._has_versions = has_versions

    def __call__(self, rows: Iterable[Row]) -> list[Event]:
        """Returns an event for each change of a row. The value of a deleted row is null."""
        keys: list[bytes] = []
        changes: list[dict[str, Any]] = []
        for offset, timestamp, data, stored, headers in rows:
            if data is None:  # a record without a key in the topic that a table reads is no row
                continue
            key, value = data, stored
            place: dict[str, Any]
            try:
                if self._has_versions:
                    key, value, place = _version(data, stored)
                else:
                    key, place = self._split(data, timestamp)
            except MillstreamError as error:  # the application has not written it
                place = {"key_error": error.message}
            row: dict[str, Any] = {"partition": self._partition, "offset": offset, "timestamp": timestamp, **place}
            row |= _field("key", key, self._serdes.key, headers) | _field("value", value, self._serdes.value, headers)
            keys.append(key)
            changes.append(row)
        hidden = self._mask(changes)
        return [Event(row["offset"], key, rest_of(row)) for key, row in zip(keys, hidden, strict=True)]

    def _split(self, data: bytes, timestamp: int) -> tuple[bytes, dict[str, Any]]:
        if self._kind == "window":
            key, start, _sequence = split_store_window_key(data)
            return key, {"window": {"start": start, "end": None if self._size is None else start + self._size}}
        if self._kind == "session":
            key, start, end = split_session_key(data)
            return key, {"window": {"start": start, "end": end}}
        if self._whole_key is not None:
            windowed = self._whole_key.deserialize(data)
            assert windowed is not None
            return data[: -window_bytes(self._whole_key)], {"window": {"start": windowed.start, "end": windowed.end}}
        return data, {"valid_from": timestamp} if self._kind == "versioned" else {}


def _version(data: bytes, stored: bytes | None) -> tuple[bytes, bytes | None, dict[str, Any]]:
    """Returns key and value of a version, and its fields. A version that no longer exists is marked as removed."""
    ((key, value, timestamp),) = versions_put([(data, stored, NO_TIMESTAMP)])
    fields: dict[str, Any] = {"valid_from": timestamp}
    return key, value, fields if stored is not None else {**fields, "removed": True}


def rest_of(data: Mapping[str, Any]) -> bytes:
    """Returns an object in JSON, without its opening brace. It has no line breaks."""
    return json.dumps(data, separators=(",", ":"))[1:].encode()


def _field(name: str, data: bytes | None, serde: Serde[Any], headers: Headers) -> dict[str, Any]:
    """Returns a key or value as a field: in base64, with the reason, if it cannot be shown."""
    try:
        field = as_field(name, data, serde, headers)
        json.dumps(field)
    except (MillstreamError, RecursionError, ValueError, TypeError) as error:
        reason = error.message if isinstance(error, MillstreamError) else "it cannot be written as JSON"
        return {f"{name}_base64": base64.b64encode(data or b"").decode(), f"{name}_error": reason}
    return field
