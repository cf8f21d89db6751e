"""Routes of dead letters: grouped by cause, one by one, and their replay."""

from __future__ import annotations

import heapq
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, Field

from millstream.log import DeadLetter, DeadLetterFilter, DeadLetters, dead_letter_topics
from millstream.schemas.json_values import as_field, as_headers
from millstream.serve.access.audit import note
from millstream.serve.access.authorization import require
from millstream.serve.access.roles import Principal, Role
from millstream.serve.data import ServedData
from millstream.serve.operations.applications import data_of
from millstream.serve.operations.decoding import Decoder
from millstream.serve.operations.masking import NOTHING_HIDDEN, Mask
from millstream.serve.operations.tagged_fields import HIDDEN
from millstream.serve.operations.topics import decoder_of

router = APIRouter(prefix="/api/v1/dead-letters", tags=["dead letters"])

_MOST = 1000
_MOST_READ = 20_000
"""The largest number of offsets of a topic that are read for an answer: about a second."""

_MOST_REPLAYED = 10_000

Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]
Operator = Annotated[Principal, Depends(require(Role.OPERATOR))]
Data = Annotated[ServedData, Depends(data_of)]
Decoding = Annotated[Decoder, Depends(decoder_of)]
TopicName = Annotated[str, Path(description="The dead-letter topic.", max_length=300)]
Place = tuple[Annotated[int, Field(ge=0, lt=1_000_000)], Annotated[int, Field(ge=0, lt=1 << 63)]]


class Cause(BaseModel):
    """The cause of dead letters."""

    exception: Annotated[
        str | None, Field(max_length=1000, description="The class of the exception, with or without its module.")
    ] = None
    source: Annotated[str | None, Field(max_length=300, description="The topic of the failed record.")] = None
    contract: Annotated[str | None, Field(max_length=300, description="The contract that the record violates.")] = None
    rule: Annotated[str | None, Field(max_length=300, description="The rule that the record violates.")] = None


class Selection(Cause):
    """The dead letters to replay: those for which all of it holds."""

    places: Annotated[list[Place] | None, Field(max_length=_MOST, description="Partition and offset of each.")] = None
    limit: Annotated[
        int, Field(ge=1, le=_MOST_REPLAYED, description="The largest number. Another request replays more.")
    ] = _MOST_REPLAYED
    dry_run: Annotated[bool, Field(description="Only count them.")] = False

    def filter(self) -> DeadLetterFilter:
        """The filter of the log."""
        places = None if self.places is None else frozenset(self.places)
        return DeadLetterFilter(self.exception, self.source, places, self.contract, self.rule)


@router.get("", summary="Dead letters by cause")
def list_causes(data: Data, decoder: Decoding, principal: Viewer) -> dict[str, Any]:
    """Returns the dead-letter topics, and in each the number of dead letters by exception, source and contract.

    The last 20,000 offsets of a topic are read. `complete` is false if the topic has more.
    """
    topics = []
    for topic in dead_letter_topics(data.log):
        letters = [_shown(letter, decoder, principal) for letter in DeadLetters(data.log, topic).last(_MOST_READ)]
        topics.append({"topic": topic, "groups": _groups(letters), "complete": _is_complete(data, topic)})
    return {"topics": topics}


class Page(Cause):
    """The dead letters that a request asks for: those for which all of it holds."""

    pending: Annotated[bool, Field(description="Only those that were not replayed yet.")] = False
    limit: Annotated[int, Field(ge=1, le=_MOST, description="The largest number of dead letters.")] = 50


@router.get("/{topic}/records", summary="Dead letters of a topic")
def records(
    topic: TopicName, page: Annotated[Page, Query()], data: Data, decoder: Decoding, principal: Viewer
) -> dict[str, Any]:
    """Returns the last dead letters of a topic, the newest first: the error, its trace, and the failed record.

    The last 20,000 offsets of the topic are read. `complete` is false if the topic has more. Personal fields are hidden
    from viewers, and so are messages and traces if the failed records have personal fields.
    """
    selection = DeadLetterFilter(page.exception, page.source, None, page.contract, page.rule)
    letters = [
        letter
        for letter in DeadLetters(data.log, topic).last(_MOST_READ)
        if letter in selection and (letter.pending or not page.pending)
    ]
    newest = heapq.nlargest(page.limit, letters, key=lambda each: (each.timestamp, each.partition, each.offset))
    return {
        "records": [_described(letter, decoder, principal) for letter in newest],
        "total": len(letters),
        "complete": _is_complete(data, topic),
    }


@router.get("/{topic}/records/{partition}/{offset}", summary="One dead letter")
def show(
    topic: TopicName,
    partition: Annotated[int, Path(ge=0, lt=1_000_000)],
    offset: Annotated[int, Path(ge=0, lt=1 << 63)],
    data: Data,
    decoder: Decoding,
    principal: Viewer,
) -> dict[str, Any]:
    """Returns a dead letter: the error, its trace, and the failed record."""
    return _described(DeadLetters(data.log, topic).get(partition, offset), decoder, principal)


@router.post("/{topic}/replay", summary="Replay dead letters")
def replay(
    request: Request, topic: TopicName, selection: Selection, data: Data, _principal: Operator
) -> dict[str, Any]:
    """Writes failed records back to their topics and partitions, each dead letter once."""
    letters = DeadLetters(data.log, topic)
    for partition, offset in sorted(selection.places or ()):
        letters.get(partition, offset)  # raises an error for a missing dead letter
    result = letters.replay(selection.filter(), limit=selection.limit, dry_run=selection.dry_run)
    note(request, replayed=result.total, dry_run=selection.dry_run)
    return {"replayed": dict(result.replayed), "refused": dict(result.refused), "dry_run": selection.dry_run}


def _is_complete(data: ServedData, topic: str) -> bool:
    starts, ends = data.log.starts([topic])[topic], data.log.ends([topic])[topic]
    return max((end - start for start, end in zip(starts, ends, strict=True)), default=0) <= _MOST_READ // len(ends)


def _groups(letters: list[_Shown]) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for letter, message, _trace, _mask in letters:
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
            group["last"], group["message"] = letter.timestamp, message
    return sorted(groups.values(), key=lambda group: (-group["count"], -group["last"]))


class _Shown(NamedTuple):
    """A dead letter, with the texts that the sender of a request may see, and the mask of its record."""

    letter: DeadLetter
    message: str | None
    trace: str | None
    mask: Mask


def _shown(letter: DeadLetter, decoder: Decoder, principal: Principal) -> _Shown:
    if principal.sees_personal_fields:
        return _Shown(letter, letter.message, letter.stacktrace, NOTHING_HIDDEN)
    mask = decoder.masks.topic(letter.topic if letter.source is None else letter.source.topic)
    if mask.is_empty:
        return _Shown(letter, letter.message, letter.stacktrace, mask)
    # The message of an exception may quote the record.
    message, trace = (None if text is None else HIDDEN for text in (letter.message, letter.stacktrace))
    return _Shown(letter, message, trace, mask)


def _described(letter: DeadLetter, decoder: Decoder, principal: Principal) -> dict[str, Any]:
    _letter, message, trace, mask = _shown(letter, decoder, principal)
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
        "message": message,
        "stacktrace": trace,
        "contract": None if letter.contract is None else letter.contract._asdict(),
        **mask.record(
            as_field("key", letter.key, keys, letter.original_headers)
            | as_field("value", letter.value, values, letter.original_headers)
        ),
        "headers": as_headers(letter.original_headers),
    }
