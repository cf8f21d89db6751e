"""Consumer groups of a cluster and their committed offsets."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from millstream.core.names import check_name
from millstream.errors import UnknownGroupError
from millstream.log.api import Offsets
from millstream.log.kafka.calls import Calls
from millstream.log.kafka.clients import Clients, close_consumer, code_of
from millstream.log.kafka.topics import all_counts

_POLL = 0.05
_NOT_YET = {
    KafkaError._WAIT_COORD,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
"""Retried: a broker is starting, or a group is new."""


def names(clients: Clients) -> list[str]:
    """Returns the names of all groups."""
    groups = clients.result(
        clients.admin.list_consumer_groups(request_timeout=clients.timeout), "groups cannot be listed"
    )
    return sorted(group.group_id for group in groups.valid)


def committed(clients: Clients, group: str) -> dict[tuple[str, int], int]:
    """Returns the committed offsets of a group; none if there is no such group. Names of other clients are accepted."""
    places = [TopicPartition(name, number) for name, count in all_counts(clients).items() for number in range(count)]
    what = f"the offsets of group {group!r} cannot be read"
    offsets = _request(clients, group, what, lambda consumer: consumer.committed(places, clients.timeout))
    return {(place.topic, place.partition): place.offset for place in offsets if place.offset >= 0}


def commit(clients: Clients, group: str, offsets: Offsets) -> None:
    """Commits offsets of a group. Refused if the group has members, which would not see the change."""
    check_name(group, "consumer group")
    places = _places(offsets)
    if places:
        what = f"the offsets of group {group!r} cannot be set"
        _request(clients, group, what, lambda consumer: consumer.commit(offsets=places, asynchronous=False))


class GroupCommits:
    """Commits offsets of a group often: one consumer stays connected to the coordinator of the group.

    A new consumer looks for the coordinator first, sometimes again only after a second.

    Args:
        clients: Creates the consumer.
        group: The group, which has no members.
    """

    def __init__(self, clients: Clients, group: str) -> None:
        self._clients = clients
        self._group = group
        self._calls = Calls()
        self._consumer: Consumer | None = None

    def commit(self, offsets: Offsets) -> None:
        """Commits offsets.

        Raises:
            LogError: They cannot be committed.
        """
        if self._consumer is None:
            commit(self._clients, self._group, offsets)  # it also explains why a group cannot be used
            self._consumer = self._clients.consumer(self._group, {})
            return
        call = partial(self._consumer.commit, offsets=_places(offsets), asynchronous=False)
        try:
            self._calls.result(self._calls.start(call), self._clients.timeout)
        except KafkaException:
            self.close()
            commit(self._clients, self._group, offsets)
        except TimeoutError:
            self.close()
            raise self._clients.silence(f"the offsets of group {self._group!r} cannot be set") from None

    def close(self) -> None:
        """Closes the consumer."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            close_consumer(consumer)


def _places(offsets: Offsets) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]


def _request(clients: Clients, group: str, what: str, request: Callable[[Consumer], Any]) -> Any:
    """Sends a request by a consumer: the administrative client crashes while the group's coordinator is unknown.

    A consumer without a right to its group gets no error, so the group is described first.
    """
    answer = clients.admin.describe_consumer_groups([group], request_timeout=clients.timeout)[group]
    try:
        clients.answer(answer, what)
    except KafkaException as error:
        if code_of(error).code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise clients.failure(error, what) from error
    consumer = clients.consumer(group, {})
    deadline = time.monotonic() + clients.timeout
    try:
        while True:
            try:
                return request(consumer)
            except KafkaException as error:
                if code_of(error).code() not in _NOT_YET or time.monotonic() > deadline:
                    raise clients.failure(error, what) from error
            time.sleep(_POLL)
    finally:
        consumer.close()


def delete(clients: Clients, group: str) -> None:
    """Deletes a group, or raises an `UnknownGroupError`."""
    what = f"group {group!r} cannot be deleted"
    try:
        clients.answer(clients.admin.delete_consumer_groups([group])[group], what)
    except KafkaException as error:
        if code_of(error).code() == KafkaError.GROUP_ID_NOT_FOUND:
            raise UnknownGroupError(f"there is no group {group!r}") from error
        raise clients.failure(error, what) from error
