"""Consumer groups of a cluster: how far they have read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from millstream.core.names import check_name
from millstream.errors import UnknownGroupError
from millstream.log.api import Offsets
from millstream.log.kafka.clients import Clients, code_of
from millstream.log.kafka.topics import all_counts

_POLL = 0.05
_NOT_YET = {
    KafkaError._WAIT_COORD,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
"""While a broker starts, or a group is new: ask again."""


def names(clients: Clients) -> list[str]:
    """The names of all groups."""
    found = clients.result(
        clients.admin.list_consumer_groups(request_timeout=clients.timeout), "groups cannot be listed"
    )
    return sorted(group.group_id for group in found.valid)


def committed(clients: Clients, group: str) -> dict[tuple[str, int], int]:
    """How far a group has read; nothing if there is none. Other clients name theirs as they like."""
    places = [TopicPartition(name, number) for name, count in all_counts(clients).items() for number in range(count)]
    what = f"the offsets of group {group!r} cannot be read"
    found = _ask(clients, group, what, lambda consumer: consumer.committed(places, clients.timeout))
    return {(place.topic, place.partition): place.offset for place in found if place.offset >= 0}


def commit(clients: Clients, group: str, offsets: Offsets) -> None:
    """Says how far a group has read. Its members, if it has any, would not learn of it: then it is refused."""
    check_name(group, "consumer group")
    places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
    if places:
        what = f"the offsets of group {group!r} cannot be set"
        _ask(clients, group, what, lambda consumer: consumer.commit(offsets=places, asynchronous=False))


def _ask(clients: Clients, group: str, what: str, ask: Callable[[Consumer], Any]) -> Any:
    """Asks by a consumer: the administrative requests for it crash while the group's coordinator is not known.

    A consumer that has no right to its group is not told so. Who looks at the group is.
    """
    answer = clients.admin.describe_consumer_groups([group], request_timeout=clients.timeout)[group]
    try:
        answer.result(clients.timeout)
    except KafkaException as error:
        if code_of(error).code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise clients.failure(error, what) from error
    consumer = clients.consumer(group, {})
    deadline = time.monotonic() + clients.timeout
    try:
        while True:
            try:
                return ask(consumer)
            except KafkaException as error:
                if code_of(error).code() not in _NOT_YET or time.monotonic() > deadline:
                    raise clients.failure(error, what) from error
            time.sleep(_POLL)
    finally:
        consumer.close()


def delete(clients: Clients, group: str) -> None:
    """Forgets a group, or raises an `UnknownGroupError`."""
    try:
        clients.admin.delete_consumer_groups([group])[group].result(clients.timeout)
    except KafkaException as error:
        if code_of(error).code() == KafkaError.GROUP_ID_NOT_FOUND:
            raise UnknownGroupError(f"there is no group {group!r}") from error
        raise clients.failure(error, f"group {group!r} cannot be deleted") from error
