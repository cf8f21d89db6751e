"""Routes of topics: their records, decoded; and the writing of records."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from pydantic import BaseModel, Field

from millstream.core.records import Headers
from millstream.errors import SerdeError
from millstream.log import Log, ProducerRecord, Topic
from millstream.schemas.json_values import value_of_json
from millstream.serde import Serde
from millstream.serve.access.authorization import require
from millstream.serve.access.roles import Principal, Role
from millstream.serve.data import ServedData
from millstream.serve.operations.applications import data_of
from millstream.serve.operations.decoding import Decoder

router = APIRouter(prefix="/api/v1/topics", tags=["topics"])

MOST_RECORDS = 1000
_READ_BYTES = 1 << 20
_INT64 = 1 << 63

Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]
Operator = Annotated[Principal, Depends(require(Role.OPERATOR))]
Data = Annotated[ServedData, Depends(data_of)]
TopicName = Annotated[str, Path(description="The topic.", max_length=300)]


def decoder_of(request: Request) -> Decoder:
    """The decoder of the server."""
    decoder: Decoder = request.app.state.decoder
    return decoder


Decoding = Annotated[Decoder, Depends(decoder_of)]


class NewRecord(BaseModel):
    """A record to write. Keys and values are JSON by the serdes of the topic."""

    key: Any = None
    value: Any = None
    headers: Annotated[list[tuple[str, str | None]], Field(max_length=100)] = []
    timestamp: Annotated[int | None, Field(ge=0, lt=_INT64)] = None
    partition: Annotated[int | None, Field(ge=0, lt=1_000_000)] = None


class NewRecords(BaseModel):
    """Records to write, in one transaction."""

    records: Annotated[list[NewRecord], Field(min_length=1, max_length=MOST_RECORDS)]


@router.get("", summary="All topics")
def list_topics(data: Data, _principal: Viewer) -> dict[str, Any]:
    """Returns the topics, with the number of offsets that they hold."""
    topics = data.log.topics()
    names = [topic.name for topic in topics]
    starts, ends = data.log.starts(names), data.log.ends(names)
    return {"topics": [_summary(topic, starts[topic.name], ends[topic.name]) for topic in topics if topic.name in ends]}


@router.get("/{topic}", summary="One topic")
def show(topic: TopicName, data: Data, decoder: Decoding, _principal: Viewer) -> dict[str, Any]:
    """Returns a topic, its offsets, and what is known of its keys and values."""
    found = data.log.topic(topic)
    starts, ends = data.log.starts([topic])[topic], data.log.ends([topic])[topic]
    offsets = [{"partition": number, "start": starts[number], "end": ends[number]} for number in range(len(ends))]
    schemas = decoder.schemas(topic)
    return {**_summary(found, starts, ends), "offsets": offsets, "schemas": schemas._asdict()}


class Page(BaseModel):
    """The records that a request asks for."""

    partition: Annotated[int | None, Field(ge=0, lt=1_000_000, description="Only this partition.")] = None
    offset: Annotated[int | None, Field(ge=0, lt=_INT64, description="From this offset of each partition on.")] = None
    from_time: Annotated[int | None, Field(ge=0, lt=_INT64, description="From this time on, in milliseconds.")] = None
    newest: Annotated[bool, Field(description="The newest records first.")] = False
    limit: Annotated[int, Field(ge=1, le=MOST_RECORDS, description="The largest number of records.")] = 50
    cursor: Annotated[str | None, Field(max_length=20_000, description="The cursor of the answer before.")] = None


@router.get("/{topic}/records", summary="Records of a topic")
def records(
    topic: TopicName, page: Annotated[Page, Query()], data: Data, decoder: Decoding, _principal: Viewer
) -> dict[str, Any]:
    """Returns records of a topic: the oldest first, by partition; or the newest first, by timestamp.

    The cursor continues after the records of this answer. There is none if nothing is left.
    """
    log = data.log
    found = log.topic(topic)
    if page.partition is not None:
        found.check_partition(page.partition)
    chosen = list(range(found.partitions)) if page.partition is None else [page.partition]
    starts, ends = log.starts([topic])[topic], log.ends([topic])[topic]
    bounds = {number: (max(starts[number], page.offset or 0), ends[number]) for number in chosen}
    if page.from_time is not None:
        times = log.offsets_for_times(dict.fromkeys([(topic, number) for number in chosen], page.from_time))
        bounds = {number: (max(low, times[topic, number]), high) for number, (low, high) in bounds.items()}
    for number, position in _positions(page.cursor).items():
        if number in bounds:
            low, high = bounds[number]
            bounds[number] = (low, min(high, position)) if page.newest else (max(low, position), high)
    read = _newest if page.newest else _oldest
    rows, positions = read(log, topic, bounds, page.limit)
    decoded = [decoder.rows(topic, number, [row])[0] for number, row in rows]
    is_done = all(
        positions[number] <= low if page.newest else positions[number] >= high for number, (low, high) in bounds.items()
    )
    return {"records": decoded, "cursor": None if is_done else json.dumps(positions)}


@router.post("/{topic}/records", summary="Write records", status_code=201)
def write(topic: TopicName, new: NewRecords, data: Data, decoder: Decoding, _principal: Operator) -> dict[str, Any]:
    """Writes records in one transaction, and returns their partitions and offsets."""
    data.log.topic(topic)
    keys, values = decoder.serdes(topic)
    written = []
    for number, record in enumerate(new.records):
        key = _bytes(record.key, keys, f"records.{number}.key")
        value = _bytes(record.value, values, f"records.{number}.value")
        headers: Headers = tuple(
            (name, None if text is None else _encoded(text, f"records.{number}.headers"))
            for name, text in record.headers
        )
        written.append(ProducerRecord(key, value, record.timestamp, headers, record.partition))
    produced = data.log.produce(topic, written)
    return {"records": [{"partition": each.partition, "offset": each.offset} for each in produced]}


def _summary(topic: Topic, starts: list[int], ends: list[int]) -> dict[str, Any]:
    return {
        "name": topic.name,
        "partitions": topic.partitions,
        "internal": topic.internal,
        "records": sum(ends) - sum(starts),
        "config": dict(topic.config),
    }


_Cursor = dict[int, Annotated[int, msgspec.Meta(ge=0, le=_INT64 - 1)]]
_Rows = list[tuple[int, dict[str, Any]]]


def _oldest(log: Log, topic: str, bounds: dict[int, tuple[int, int]], limit: int) -> tuple[_Rows, dict[int, int]]:
    """Reads the first records of ranges; returns them, and the offset after them by partition."""
    found: _Rows = []
    positions = {number: low for number, (low, _high) in bounds.items()}
    for number, (_low, high) in bounds.items():
        while positions[number] < high and len(found) < limit:
            table = log.read(topic, number, positions[number], high, max_bytes=_READ_BYTES)
            rows = table.slice(0, limit - len(found)).to_pylist()
            found += [(number, row) for row in rows]
            positions[number] = rows[-1]["offset"] + 1 if rows else high
    return found, positions


def _newest(log: Log, topic: str, bounds: dict[int, tuple[int, int]], limit: int) -> tuple[_Rows, dict[int, int]]:
    """Reads the last records of ranges; returns them by descending time, and the offset of the first by partition."""
    candidates: _Rows = []
    begun: dict[int, int] = {}
    for number, (low, high) in bounds.items():
        width = limit
        while True:  # transactions and compaction leave offsets without a record
            begin = max(low, high - width)
            rows = log.read(topic, number, begin, high).to_pylist() if begin < high else []
            if len(rows) >= limit or begin == low:
                break
            width *= 4
        candidates += [(number, row) for row in rows[-limit:]]
        begun[number] = low if begin == low and len(rows) <= limit else rows[-limit]["offset"]
    # In a partition, records keep the order of their offsets: a page ends at one offset of each.
    latest: dict[int, int] = {}
    times = {}
    for number, row in candidates:
        latest[number] = max(latest.get(number, row["timestamp"]), row["timestamp"])
        times[number, row["offset"]] = latest[number]
    candidates.sort(key=lambda each: (times[each[0], each[1]["offset"]], each[1]["offset"]), reverse=True)
    positions = {number: high for number, (_low, high) in bounds.items()}
    shown = candidates[:limit]
    for number, row in shown:
        positions[number] = min(positions[number], row["offset"])
    taken = {number: sum(each == number for each, _row in shown) for number in bounds}
    had = {number: sum(each == number for each, _row in candidates) for number in bounds}
    for number in bounds:
        if taken[number] == had[number]:
            positions[number] = begun[number]
    return shown, positions


def _positions(cursor: str | None) -> dict[int, int]:
    """Reads a cursor.

    Raises:
        HTTPException: It is not one.
    """
    if cursor is None:
        return {}
    try:
        return msgspec.json.decode(cursor, type=_Cursor)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        raise HTTPException(400, "the cursor is not one that this route has returned") from None


def _bytes(value: Any, serde: Serde[Any], where: str) -> bytes | None:
    if value is None:
        return None
    try:
        return serde.serialize(value_of_json(value, serde))
    except (SerdeError, TypeError, ValueError, AttributeError) as error:
        message = error.message if isinstance(error, SerdeError) else f"it does not fit the serde {serde.name}"
        raise HTTPException(400, f"{where}: {message}") from None


def _encoded(text: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise HTTPException(400, f"{where}: a text contains a lone surrogate, which cannot be encoded") from None
