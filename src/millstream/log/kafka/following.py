"""Follows partitions of a cluster with one consumer."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from millstream.core.records import Headers, UnreadableHeaders
from millstream.errors import OffsetOutOfRangeError
from millstream.log.api import Fetched, Offsets, check_partition
from millstream.log.api.following import MOST_RECORDS
from millstream.log.kafka import positions, topics
from millstream.log.kafka.clients import Clients, close_consumer

_SETTINGS = {
    # The end of a partition is reported by the first response without records: a transaction ends in a control record,
    # so that the number of records does not tell. A new or resumed partition also waits for the current response.
    "fetch.wait.max.ms": 10,
    "fetch.min.bytes": 1,
    "fetch.message.max.bytes": 1024 * 1024,
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": 16 * 1024,
    "fetch.queue.backoff.ms": 5,
    "fetch.error.backoff.ms": 20,  # the first fetch of a new topic often fails
    "check.crcs": False,
}
_END = KafkaError._PARTITION_EOF
_NO_GROUP = KafkaError.GROUP_AUTHORIZATION_FAILED
"""A client looks up its group, which must be named. It is not used, and the user may have no right to it."""

_GONE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
_UNKNOWN = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_ID,
}
_PAUSE = 0.01
_TIME = itemgetter(1)
"""The time of the pair (type, time) of a message."""


@dataclass(slots=True)
class _Place:
    """A partition that is followed.

    Attributes:
        next: The offset of the next record.
        end: The end of its committed records, as last reported; None before the first report.
        since: When it was last assigned or resumed.
        is_paused: Whether its records are held back.
        refused: When the broker first refused the position, if it did so last.
    """

    next: int
    end: int | None = None
    since: float = 0.0
    is_paused: bool = False
    refused: float | None = None

    def reached_end(self, offset: int) -> None:
        """Takes a report that there are no records before an offset any more."""
        self.next = max(self.next, offset)
        self.end = max(self.end or 0, offset)
        self.refused = None


class KafkaFollower:
    """The `Follower` of a cluster.

    Args:
        clients: Creates the consumer.
        settings: Additional settings of the consumer.
    """

    def __init__(self, clients: Clients, settings: Mapping[str, Any]) -> None:
        self._clients = clients
        self._consumer = clients.consumer(f"millstream-{uuid.uuid4()}", {**_SETTINGS, **settings})
        self._places: dict[tuple[str, int], _Place] = {}
        self._unanswered: set[tuple[str, int]] = set()
        self._is_connected = False

    def follow(self, positions: Offsets) -> None:
        """Adds partitions, or moves their positions."""
        counts = topics.counts_of(self._clients, {topic for topic, _ in positions})
        for topic, partition in positions:
            check_partition(topic, counts[topic], partition)
        if not self._is_connected:
            self._connect(next(iter(counts), None))
        self._unassign(place for place in positions if place in self._places)
        self._places |= {place: _Place(offset) for place, offset in positions.items()}
        self._assign(positions)

    def unfollow(self, places: Iterable[tuple[str, int]]) -> None:
        """Removes partitions."""
        removed = list(places)
        self._unassign(removed)
        for place in removed:
            del self._places[place]
            self._unanswered.discard(place)

    def pause(self, places: Iterable[tuple[str, int]]) -> None:
        """Stops the delivery of records of partitions. The client discards those that it has fetched already."""
        running = [place for place in places if not self._places[place].is_paused]
        for place in running:
            self._places[place].is_paused = True
        self._consumer.pause(_listed(running))

    def resume(self, places: Iterable[tuple[str, int]]) -> None:
        """Continues the delivery of records of paused partitions."""
        paused = [place for place in places if self._places[place].is_paused]
        for place in paused:
            self._places[place].is_paused = False
            self._places[place].since = time.monotonic()
        self._consumer.resume(_listed(paused))

    def poll(self, timeout: float, most: int = MOST_RECORDS) -> list[Fetched]:
        """Returns records of the partitions that are followed and not paused."""
        # A call for many messages waits until there are that many, so only the first one is waited for.
        messages = self._consumer.consume(most, 0.0)
        if not messages:
            messages = self._consumer.consume(1, timeout)
            if not messages:
                self._check_answers()
                return []
            if most > 1:
                messages += self._consumer.consume(most - 1, 0.0)
        if any(map(Message.error, messages)):
            for event in [message for message in messages if message.error() is not None]:
                self._handle(event)
            messages = [message for message in messages if message.error() is None]
        return [self._fetched(*group) for group in _grouped(messages)]

    def position(self, topic: str, partition: int) -> int:
        """Returns the offset of the next record."""
        return self._places[topic, partition].next

    def has_more(self, topic: str, partition: int) -> bool:
        """Returns whether the end of the partition is beyond the position, or not known."""
        place = self._places[topic, partition]
        if place.end is not None:
            return place.next < place.end
        # The end of all records, committed or not, at the last response: it is known before the next one is empty.
        _low, high = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
        return high < 0 or place.next < high

    def refresh(self, places: Iterable[tuple[str, int]]) -> None:
        """Requests the current ends of partitions."""
        ends = positions.list_offsets(self._clients, dict.fromkeys(places, positions.LATEST))
        for at, end in ends.items():
            place = self._places[at]
            place.end = max(end, place.end or 0)

    def close(self) -> None:
        """Closes the consumer."""
        close_consumer(self._consumer)

    def _connect(self, topic: str | None) -> None:
        """Connects the consumer: otherwise it often asks for the leader of its first partition again after a second."""
        if topic is not None:
            try:
                self._consumer.list_topics(topic, self._clients.timeout)
            except KafkaException as error:
                raise self._clients.failure(error, f"topic {topic!r} cannot be read") from error
            self._is_connected = True

    def _assign(self, positions: Offsets) -> None:
        places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()]
        if places:
            self._consumer.incremental_assign(places)
        self._unanswered.update(positions)
        for place in positions:
            self._places[place].since = time.monotonic()

    def _unassign(self, places: Iterable[tuple[str, int]]) -> None:
        if listed := _listed(places):
            self._consumer.incremental_unassign(listed)

    def _fetched(self, at: tuple[str, int], messages: list[Message]) -> Fetched:
        offsets = cast("list[int]", list(map(Message.offset, messages)))
        place = self._places[at]
        if place.end is not None and place.end <= offsets[-1]:
            place.end = None  # the partition has grown: its new end is not known
        place.next = max(place.next, offsets[-1] + 1)
        place.refused = None
        self._unanswered.discard(at)
        return Fetched(
            *at,
            offsets,
            list(map(_TIME, map(Message.timestamp, messages))),
            cast("list[bytes | None]", list(map(Message.key, messages))),
            cast("list[bytes | None]", list(map(Message.value, messages))),
            _headers(messages),
            place.next,
        )

    def _handle(self, event: Message) -> None:
        error, at = event.error(), (event.topic() or "", event.partition() or 0)
        assert error is not None
        place = self._places.get(at)
        if error.code() == _NO_GROUP:
            return
        if place is None:
            if at[0]:
                return  # it is not followed any longer
        elif error.code() == _END:
            place.reached_end(event.offset() or 0)
            self._unanswered.discard(at)
            return
        elif error.code() in _GONE:
            self._begin_again(at, place)
            return
        elif error.code() in _UNKNOWN:
            check_partition(at[0], topics.count_of(self._clients, at[0]), at[1])  # else it was just created
            return
        what = f"topic {at[0]!r} cannot be read" if at[0] else "topics cannot be read"
        raise self._clients.failure(KafkaException(error), what)

    def _begin_again(self, at: tuple[str, int], place: _Place) -> None:
        """Handles an offset that is out of range: records are deleted, or the topic was recreated."""
        topic, partition = at
        first = positions.list_offsets(self._clients, {at: positions.EARLIEST})[at]
        if place.next < first:
            raise OffsetOutOfRangeError(
                f"partition {partition} of topic {topic!r} starts at offset {first}: the records from "
                f"{place.next} to {first - 1} are deleted",
                hint="they were deleted by retention, or the topic was recreated",
            )
        now = time.monotonic()
        place.refused = place.refused or now
        if now - place.refused > self._clients.timeout:
            raise OffsetOutOfRangeError(
                f"partition {partition} of topic {topic!r} has no offset {place.next}: the topic was recreated, or its "
                "records are lost",
                hint="reset the application, so that it reads its input from the start: millstream reset",
            )
        time.sleep(_PAUSE)
        self._unassign([at])
        self._assign({at: place.next})

    def _check_answers(self) -> None:
        """Raises an error if a partition has neither delivered a record nor reported its end for long."""
        if not self._unanswered:
            return
        waiting = [at for at in self._unanswered if not self._places[at].is_paused]
        late = time.monotonic() - self._clients.timeout
        for topic, partition in waiting:
            place = self._places[topic, partition]
            if place.since < late:
                what = f"partition {partition} of topic {topic!r} cannot be read at offset {place.next}"
                raise self._clients.silence(what)


def _listed(places: Iterable[tuple[str, int]]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for topic, partition in places]


def _grouped(messages: list[Message]) -> Iterable[tuple[tuple[str, int], list[Message]]]:
    """Returns the messages of each partition. The client returns long runs of messages of one partition."""
    groups: defaultdict[tuple[str, int], list[Message]] = defaultdict(list)
    for topic, of_topic in groupby(messages, Message.topic):
        for partition, run in groupby(of_topic, Message.partition):
            groups[cast("str", topic), cast("int", partition)].extend(run)
    return groups.items()


def _headers(messages: list[Message]) -> list[Headers] | None:
    """Returns the headers of messages; None if none has any.

    The client raises an error if a name is not UTF-8. A second call for the same message would return a tuple without
    that name.
    """
    found: list[Any] = []
    while len(found) < len(messages):
        try:
            found.extend(map(Message.headers, islice(messages, len(found), None)))
        except Exception as error:  # noqa: BLE001  (a SystemError, with the cause behind it)
            found.append(UnreadableHeaders(f"{type(error).__name__}: {error.__cause__ or error}"))
    if found.count(None) == len(found):
        return None
    return [pairs if isinstance(pairs, UnreadableHeaders) else tuple(pairs or ()) for pairs in found]
