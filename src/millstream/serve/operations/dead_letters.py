"""Routes of dead letters: grouped by cause, one by one, and their replay."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, Field

from millstream.log import DeadLetter, DeadLetterFilter, DeadLetters, dead_letter_topics
from millstream.schemas.json_values import as_field, as_headers
from millstream.serve.access.authorization import require
from millstream.serve.access.roles import Principal, Role
from millstream.serve.data import ServedData
from millstream.serve.operations.applications import data_of
from millstream.serve.operations.decoding import Decoder
from millstream.serve.operations.topics import decoder_of

router = APIRouter(prefix="/api/v1/dead-letters", tags=["dead letters"])

_MOST = 1000
_MOST_READ = 100_000

Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]
Operator = Annotated[Principal, Depends(require(Role.OPERATOR))]
Data = Annotated[ServedData, Depends(data_of)]
Decoding = Annotated[Decoder, Depends(decoder_of)]
TopicName = Annotated[str, Path(description="The dead-letter topic.", max_length=300)]
Place = tuple[Annotated[int, Field(ge=0, lt=1_000_000)], Annotated[int, Field(ge=0, lt=1 << 63)]]


class Selection(BaseModel):
    """The dead letters to replay: those for which all of it holds.

    Attributes:
        exception: The class of the exception.
        source: The topic of the failed record.
        contract: The contract that the record violates.
        rule: The rule that the record violates.
        places: Partition and offset of each.
        limit: The largest number.
        dry_run: Only count them.
    """

    exception: Annotated[str | None, Field(max_length=1000)] = None
    source: Annotated[str | None, Field(max_length=300)] = None
    contract: Annotated[str | None, Field(max_length=300)] = None
    rule: Annotated[str | None, Field(max_length=300)] = None
    places: Annotated[list[Place] | None, Field(max_length=_MOST)] = None
    limit: Annotated[int | None, Field(ge=1, le=_MOST_READ)] = None
    dry_run: bool = False

    def filter(self) -> DeadLetterFilter:
        """The filter of the log."""
        places = None if self.places is None else frozenset(self.places)
        return DeadLetterFilter(self.exception, self.source, places, self.contract, self.rule)


@router.get("", summary="Dead letters by cause")
def list_causes(data: Data, _principal: Viewer) -> dict[str, Any]:
    """Returns the dead-letter topics, and in each the number of dead letters by exception, source and contract."""
    return {
        "topics": [
            {"topic": topic, "groups": _groups(DeadLetters(data.log, topic))} for topic in dead_letter_topics(data.log)
        ]
    }


class Page(BaseModel):
    """The dead letters that a request asks for: those for which all of it holds."""

    exception: Annotated[str | None, Field(max_length=1000)] = None
    source: Annotated[str | None, Field(max_length=300)] = None
    contract: Annotated[str | None, Field(max_length=300)] = None
    rule: Annotated[str | None, Field(max_length=300)] = None
    pending: Annotated[bool, Field(description="Only those that were not replayed yet.")] = False
    limit: Annotated[int, Field(ge=1, le=_MOST)] = 50


@router.get("/{topic}/records", summary="Dead letters of a topic")
def records(
    topic: TopicName, page: Annotated[Page, Query()], data: Data, decoder: Decoding, _principal: Viewer
) -> dict[str, Any]:
    """Returns the last dead letters of a topic, the newest first: the error, its trace, and the failed record."""
    selection = DeadLetterFilter(page.exception, page.source, None, page.contract, page.rule)
    letters = [letter for letter in DeadLetters(data.log, topic).read(selection) if letter.pending or not page.pending]
    letters.sort(key=lambda letter: (letter.timestamp, letter.partition, letter.offset), reverse=True)
    return {"records": [_letter(letter, decoder) for letter in letters[: page.limit]], "total": len(letters)}


@router.post("/{topic}/replay", summary="Replay dead letters")
def replay(topic: TopicName, selection: Selection, data: Data, _principal: Operator) -> dict[str, Any]:
    """Writes failed records back to their topics and partitions, each dead letter once."""
    letters = DeadLetters(data.log, topic)
    for partition, offset in sorted(selection.places or ()):
        letters.get(partition, offset)  # raises an error for a missing dead letter
    result = letters.replay(selection.filter(), limit=selection.limit, dry_run=selection.dry_run)
    return {"replayed": dict(result.replayed), "refused": dict(result.refused), "dry_run": selection.dry_run}


def _groups(letters: DeadLetters) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for letter in letters.read():
        source = None if letter.source is None else letter.source.topic
        contract = None if letter.contract is None else letter.contract.name
        rule = None if letter.contract is None else letter.contract.rule
        names = {"exception": letter.exception, "source": source, "contract": contract, "rule": rule}
        group = groups.setdefault(
            tuple(names.values()), {**names, "count": 0, "pending": 0, "last": 0, "message": None}
        )
        group["count"] += 1
        group["pending"] += letter.pending
        if letter.timestamp >= group["last"]:
            group["last"], group["message"] = letter.timestamp, letter.message
    return sorted(groups.values(), key=lambda group: (-group["count"], -group["last"]))


def _letter(letter: DeadLetter, decoder: Decoder) -> dict[str, Any]:
    source = letter.source
    keys, values = decoder.serdes(letter.topic if source is None else source.topic)
    return {
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp,
        "source": None if source is None else source._asdict(),
        "replayed": letter.replayed,
        "returned": letter.returned,
        "exception": letter.exception,
        "message": letter.message,
        "stacktrace": letter.stacktrace,
        "contract": None if letter.contract is None else letter.contract._asdict(),
        **as_field("key", letter.key, keys, letter.original_headers),
        **as_field("value", letter.value, values, letter.original_headers),
        "headers": as_headers(letter.original_headers),
    }
