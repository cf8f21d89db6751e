"""Routes of topics: their records, decoded; and the writing of records."""

from __future__ import annotations

import struct
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from pydantic import BaseModel, Field

from millstream.core.records import Headers
from millstream.errors import SerdeError
from millstream.log import ProducerRecord, Topic
from millstream.log.api import check_partition
from millstream.schemas.json_values import value_of_json
from millstream.serde import Serde
from millstream.serve.access.audit import note
from millstream.serve.access.authorization import require
from millstream.serve.access.roles import Principal, Role
from millstream.serve.data import ServedData
from millstream.serve.operations.applications import data_of
from millstream.serve.operations.decoding import Decoder
from millstream.serve.operations.record_pages import newest, oldest, positions_of

router = APIRouter(prefix="/api/v1/topics", tags=["topics"])

MOST_RECORDS = 1000
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

    records: Annotated[
        list[NewRecord],
        Field(
            min_length=1,
            max_length=MOST_RECORDS,
            description="Keys and values are JSON, by the serdes of the topic. Headers are pairs of a name and a text.",
        ),
    ]


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
    described = data.log.topic(topic)
    starts, ends = data.log.starts([topic])[topic], data.log.ends([topic])[topic]
    offsets = [{"partition": number, "start": starts[number], "end": ends[number]} for number in range(len(ends))]
    schemas = decoder.schemas(topic)
    return {**_summary(described, starts, ends), "offsets": offsets, "schemas": schemas._asdict()}


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
    topic: TopicName, page: Annotated[Page, Query()], data: Data, decoder: Decoding, principal: Viewer
) -> dict[str, Any]:
    """Returns records of a topic: the oldest first, by partition; or the newest first, by timestamp.

    The cursor continues after the records of this answer. There is none if nothing is left. An answer has about 4 MB
    at most, and may have fewer records than the limit. Personal fields are hidden from viewers.
    """
    log = data.log
    partitions = log.topic(topic).partitions
    if page.partition is not None:
        check_partition(topic, partitions, page.partition)
    chosen = list(range(partitions)) if page.partition is None else [page.partition]
    starts, ends = log.starts([topic])[topic], log.ends([topic])[topic]
    bounds = {number: (max(starts[number], page.offset or 0), ends[number]) for number in chosen}
    if page.from_time is not None:
        times = log.offsets_for_times(dict.fromkeys([(topic, number) for number in chosen], page.from_time))
        bounds = {number: (max(low, times[topic, number]), high) for number, (low, high) in bounds.items()}
    for number, position in positions_of(page.cursor).items():
        if number in bounds:
            low, high = bounds[number]
            bounds[number] = (low, min(high, position)) if page.newest else (max(low, position), high)
    rows, cursor = (newest if page.newest else oldest)(log, topic, bounds, page.limit)
    by_partition: dict[int, list[dict[str, Any]]] = {}
    for number, row in rows:
        by_partition.setdefault(number, []).append(row)
    decoded = {
        number: iter(decoder.rows(topic, number, of_partition, principal))
        for number, of_partition in by_partition.items()
    }
    return {"records": [next(decoded[number]) for number, _row in rows], "cursor": cursor}


@router.post("/{topic}/records", summary="Write records", status_code=201)
def write(
    request: Request, topic: TopicName, new: NewRecords, data: Data, decoder: Decoding, _principal: Operator
) -> dict[str, Any]:
    """Writes records in one transaction. Returns by partition the offset of the first one, and their number.

    A topic with a schema is written with the latest one of its subject. Internal topics of applications, such as
    changelogs, are refused: only their application writes to them.
    """
    note(request, records=len(new.records))
    if data.log.topic(topic).internal:
        raise HTTPException(409, f"topic {topic!r} is internal: only its application writes to it")
    keys, values = decoder.writers(topic)
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
    return {"records": [each._asdict() for each in produced]}


def _summary(topic: Topic, starts: list[int], ends: list[int]) -> dict[str, Any]:
    return {
        "name": topic.name,
        "partitions": topic.partitions,
        "internal": topic.internal,
        "records": sum(ends) - sum(starts),
        "config": dict(topic.config),
    }


def _bytes(value: Any, serde: Serde[Any], where: str) -> bytes | None:
    if value is None:
        return None
    try:
        return serde.serialize(value_of_json(value, serde))
    except (SerdeError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, struct.error) as error:
        message = error.message if isinstance(error, SerdeError) else f"it does not fit the serde {serde.name}"
        raise HTTPException(400, f"{where}: {message}") from None


def _encoded(text: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise HTTPException(400, f"{where}: a text contains a lone surrogate, which cannot be encoded") from None
