"""Offsets of a cluster: the bounds of partitions, and offsets for timestamps."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from millstream.log.api import check_partition
from millstream.log.kafka import topics
from millstream.log.kafka.clients import Clients, code_of

EARLIEST = OffsetSpec.earliest()
LATEST = OffsetSpec.latest()
_NO_SUCH_RECORD = -1
_MAX_AGE = 1.0
"""Seconds until partitions that others add are noticed: listing the topics of a large cluster is expensive."""

_POLL = 0.05
_PASSING = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._NOENT,  # no partition has a leader
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
}
"""Retried: a topic has just been created, or a broker is down."""


def starts(clients: Clients, names: Iterable[str]) -> dict[str, list[int]]:
    """The offset of the first record of each partition, by topic."""
    return _of_topics(clients, names, EARLIEST)


def ends(clients: Clients, names: Iterable[str], *, committed: bool = True) -> dict[str, list[int]]:
    """Returns the offset after the last committed record, or after the last one written, by topic."""
    return _of_topics(clients, names, LATEST, committed=committed)


def for_times(clients: Clients, times: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """Returns the offset of the first record at or after a timestamp; the end of the partition if there is none."""
    offsets = list_offsets(
        clients, {place: OffsetSpec.for_timestamp(time) for place, time in times.items()}, least=_NO_SUCH_RECORD
    )
    late = [place for place, offset in offsets.items() if offset == _NO_SUCH_RECORD]
    return {**offsets, **list_offsets(clients, dict.fromkeys(late, LATEST))}


def list_offsets(
    clients: Clients, places: Mapping[tuple[str, int], OffsetSpec], *, committed: bool = True, least: int = 0
) -> dict[tuple[str, int], int]:
    """Returns offsets of the cluster, by topic and partition.

    A broker that has just started may return none: a result below `least` is requested again.
    """
    if not places:
        return {}
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    wanted = {TopicPartition(topic, partition): spec for (topic, partition), spec in places.items()}
    deadline = time.monotonic() + clients.timeout
    while True:
        answers = clients.admin.list_offsets(wanted, isolation_level=level, request_timeout=clients.timeout)
        try:
            offsets = {
                (at.topic, at.partition): answer.result(clients.timeout).offset for at, answer in answers.items()
            }
            if min(offsets.values()) >= least:
                return offsets
            if time.monotonic() > deadline:
                raise clients.silence(f"the offsets of {_listed(places)} cannot be read")
        except KafkaException as error:
            if code_of(error).code() not in _PASSING or time.monotonic() > deadline:
                raise clients.failure(error, f"the offsets of {_listed(places)} cannot be read") from error
        except TimeoutError:
            raise clients.silence(f"the offsets of {_listed(places)} cannot be read") from None
        counts = topics.counts_of(clients, {topic for topic, _ in places})  # one may have been deleted
        for topic, partition in places:
            check_partition(topic, counts[topic], partition)
        time.sleep(_POLL)


def _listed(places: Iterable[tuple[str, int]]) -> str:
    return ", ".join(sorted({f"topic {topic!r}" for topic, _ in places}))


def _of_topics(
    clients: Clients, names: Iterable[str], spec: OffsetSpec, *, committed: bool = True
) -> dict[str, list[int]]:
    counts = topics.counts_of(clients, names, age=_MAX_AGE)
    places = {(name, number): spec for name, count in counts.items() for number in range(count)}
    offsets = list_offsets(clients, places, committed=committed)
    return {name: [offsets[name, number] for number in range(count)] for name, count in counts.items()}
