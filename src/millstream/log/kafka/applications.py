"""Applications on a cluster: each writes by a transactional producer of its name, and has a journal.

Views are written to a database of this machine after the transaction. They may trail the topics by a batch, and never
lead.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from millstream.core.names import check_name
from millstream.errors import FencedError, UnknownGroupError, UnknownTopicError
from millstream.log.api import ChangesOf, Publication, Published
from millstream.log.kafka import groups, journal, topics
from millstream.log.kafka.clients import Clients
from millstream.log.kafka.instances import Instance
from millstream.log.kafka.reading import Readers
from millstream.log.kafka.views import LocalViews


class KafkaApplications:
    """The `Applications` of a cluster.

    Args:
        clients: Creates clients.
        readers: Reads journals.
        views: The views on this machine.
        producer: Settings of producers.
        config: The configuration of internal topics.
    """

    def __init__(
        self,
        clients: Clients,
        readers: Readers,
        views: LocalViews,
        producer: Mapping[str, Any],
        config: Mapping[str, str],
    ) -> None:
        self._clients = clients
        self._readers = readers
        self._views = views
        self._producer = producer
        self._config = config
        self._lock = threading.RLock()
        self._instances: dict[str, Instance] = {}

    def acquire(self, application: str) -> int:
        """Makes the caller the only instance of an application that can write, and returns its epoch."""
        check_name(application, "application")
        with self._lock:
            instance = Instance(self._clients, self._readers, application, self._producer, self._config)
            self._instances[application] = instance
            self._views.begin(application, None if instance.last is None else instance.last.batch)
            return instance.epoch

    def publish(self, publication: Publication) -> bool:
        """Writes all changes of a batch, once. Returns whether this call has written them."""
        with self._lock:
            instance = self._instance(publication.application, publication.epoch)
            written = instance.publish(publication)
            self._views.apply(publication)
            return written

    def published(self, application: str) -> Published | None:
        """Returns the last batch that an application published, if any."""
        instance = self._instances.get(application)
        if instance is not None and instance.last is not None:  # no other instance writes until this one is fenced
            return instance.last
        return journal.last_batch(self._clients, self._readers, application)

    def state(self, application: str) -> dict[str, bytes]:
        """Returns the recorded state of an application, by name."""
        return journal.memory(self._clients, self._readers, application).state

    def set_state(self, application: str, state: Mapping[str, bytes], epoch: int) -> None:
        """Records entries of the state outside of any batch."""
        with self._lock:
            self._instance(application, epoch).remember(state)

    def _instance(self, application: str, epoch: int) -> Instance:
        instance = self._instances.get(application)
        if instance is None or instance.epoch != epoch:
            current = journal.memory(self._clients, self._readers, application).epoch
            reason = "another instance of it has taken over" if current else "no instance has ever acquired it"
            raise FencedError(f"application {application!r} cannot write: {reason}")
        return instance

    def delete(self, application: str) -> None:
        """Deletes the journal, the group and the views of an application. Its topics stay."""
        with self._lock:
            self._instances.pop(application, None)
        try:
            topics.delete(self._clients, journal.name_of(application))
        except UnknownTopicError:
            pass
        try:
            groups.delete(self._clients, application)
        except UnknownGroupError:
            pass
        self._views.drop(application)

    def close(self) -> None:
        """Discards all producers."""
        with self._lock:
            self._instances.clear()


class KafkaViews:
    """The `ViewStorage` of a cluster: a database of this machine.

    Args:
        local: The database.
        applications: Returns the last batch of an application.
    """

    def __init__(self, local: LocalViews, applications: KafkaApplications) -> None:
        self._local = local
        self._applications = applications

    def drop(self, application: str, stores: Iterable[str]) -> None:
        """Deletes the views of stores of an application, if there are any."""
        self._local.drop_stores(application, stores)

    def repair(self, application: str, changes: ChangesOf, *, again: bool) -> None:
        """Rebuilds the views if the application ran on another machine, or they were lost or damaged."""
        self._local.give_up_damaged(application)
        last, batch = self._applications.published(application), self._local.batch(application)
        if last is not None and (batch is None or batch < last.batch - again):
            self._local.make(application, changes(None), last.batch - again)
