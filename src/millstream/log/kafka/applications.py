"""Applications on a cluster: each scope has a transactional producer and a journal of its own.

Views are written to a database of this machine after the transaction. They may trail the topics by a batch, and never
lead.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from millstream.core.names import check_name
from millstream.errors import FencedError, LogError, UnknownGroupError, UnknownTopicError
from millstream.log.api import Append, ChangesOf, FollowingViews, Offsets, Publication, Published, Scope
from millstream.log.kafka import groups, journal, topics
from millstream.log.kafka.clients import Clients
from millstream.log.kafka.instances import Instance
from millstream.log.kafka.reading import Readers
from millstream.log.kafka.sending import Sender
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
        self._acquiring: defaultdict[Scope, threading.Lock] = defaultdict(threading.Lock)
        self._instances: dict[Scope, Instance] = {}

    def acquire(self, scope: Scope, *, application_epoch: int | None = None) -> int:
        """Makes the caller the only instance of a scope that can write, and returns its epoch."""
        check_name(scope.application, "application")
        if scope.worker is not None:
            check_name(scope.worker, "worker")
        with self._lock:
            acquiring = self._acquiring[scope]
        with acquiring:  # workers are acquired at the same time: each mostly waits for brokers
            instance = Instance(self._clients, self._readers, scope, self._producer, self._config, application_epoch)
            with self._lock:
                self._instances[scope] = instance
            if scope.worker is None:
                self._views.begin(scope.application, None if instance.last is None else instance.last.batch)
            return instance.epoch

    def publish(self, publication: Publication) -> bool:
        """Writes all changes of a batch, once. Returns whether this call has written them."""
        scope = publication.scope
        if scope.worker is not None and publication.views:
            hint = "the driver derives views from changelogs"
            raise LogError(f"{scope} cannot publish views: they are in a database of the driver's machine", hint=hint)
        instance = self._instance(scope, publication.epoch)
        with instance.lock:
            written = instance.publish(publication)
            if scope.worker is None:
                self._views.apply(publication)
            return written

    def send(self, scope: Scope, epoch: int, appends: Sequence[Append]) -> None:
        """Writes records without a transaction."""
        instance = self._instance(scope, epoch)
        self._sender(instance).send(appends)

    def flush(self, scope: Scope, epoch: int, offsets: Offsets | None = None) -> None:
        """Waits until all records that were sent are acknowledged, then commits offsets."""
        instance = self._instance(scope, epoch)
        self._sender(instance).flush()
        instance.check_current()
        if offsets:
            instance.group.commit(offsets)

    @staticmethod
    def _sender(instance: Instance) -> Sender:
        with instance.lock:  # the first one to call creates it
            return instance.sender

    def wait_until_visible(self, scope: Scope, epoch: int) -> None:
        """Waits until readers see the last publication."""
        instance = self._instance(scope, epoch)
        with instance.lock:
            instance.wait_until_visible()

    def published(self, scope: Scope) -> Published | None:
        """Returns the last batch that was published in a scope, if any."""
        # A reset elsewhere deletes the journal, and fences the instance of this process only when it next writes.
        self._readers.forget(journal.name_of(scope))  # prefetched records may be those of the deleted journal
        return journal.last_batch(self._clients, self._readers, scope)

    def state(self, scope: Scope) -> dict[str, bytes]:
        """Returns the recorded state of a scope, by name."""
        return journal.memory(self._clients, self._readers, scope).state

    def set_state(self, scope: Scope, state: Mapping[str, bytes], epoch: int) -> None:
        """Records entries of the state outside of any batch."""
        instance = self._instance(scope, epoch)
        with instance.lock:
            instance.set_state(state)

    def _instance(self, scope: Scope, epoch: int) -> Instance:
        instance = self._instances.get(scope)
        if instance is None or instance.epoch != epoch:
            current = journal.memory(self._clients, self._readers, scope).epoch
            reason = "another instance of it has taken over" if current else "no instance has ever acquired it"
            raise FencedError(f"{scope} cannot write: {reason}")
        return instance

    def delete(self, application: str) -> None:
        """Deletes the journals, the group and the views of an application. Its topics stay."""
        own = Scope(application)
        workers = journal.memory(self._clients, self._readers, own).workers
        # The application's journal lists the others, so it is deleted last.
        for scope in [*(Scope(application, worker) for worker in workers), own]:
            with self._lock:
                self._instances.pop(scope, None)
            with suppress(UnknownTopicError):
                topics.delete(self._clients, journal.name_of(scope))
        with suppress(UnknownGroupError):
            groups.delete(self._clients, application)
        self._views.drop(application)

    def close(self) -> None:
        """Discards all clients."""
        with self._lock:
            for instance in self._instances.values():
                instance.close()
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
        self.following: FollowingViews | None = local

    def drop(self, application: str, stores: Iterable[str]) -> None:
        """Deletes the views of stores of an application, if there are any."""
        self._local.drop_stores(application, stores)

    def repair(self, application: str, changes: ChangesOf, *, again: bool) -> None:
        """Rebuilds the views if the application ran on another machine, or they were lost or damaged."""
        self._local.discard_damaged(application)
        last, batch = self._applications.published(Scope(application)), self._local.batch(application)
        if last is not None and (batch is None or batch < last.batch - again):
            self._local.rebuild(application, changes(None), last.batch - again)
