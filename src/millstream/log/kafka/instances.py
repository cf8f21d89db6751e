"""The only instance of a scope that can write, and how it publishes each batch once."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

from millstream.errors import BrokerError, FencedError, LogError, UnknownTopicError
from millstream.log.api import Append, Offsets, Publication, Published, Scope
from millstream.log.blocks import as_block, decode
from millstream.log.kafka import journal, positions, topics
from millstream.log.kafka.clients import Clients
from millstream.log.kafka.groups import GroupCommits
from millstream.log.kafka.journal import MARKERS, MEMORY
from millstream.log.kafka.reading import Readers
from millstream.log.kafka.sending import Sender
from millstream.log.kafka.transactions import FencedProducerError, JournalRecord, Transactions, UnknownResultError
from millstream.log.replays import check_replay

_ATTEMPTS = 5
_FENCED_AT_ONCE = 8


def transactional_id(scope: Scope) -> str:
    """Returns the transactional id of a scope. No application has a name with a colon."""
    return scope.application if scope.worker is None else f"{scope.application}:{scope.worker}"


class Instance:
    """An instance of a scope. To create one fences the earlier ones, and those of all workers of an application.

    A worker and the next instance of its application may be acquired at the same time. The worker is registered in the
    journal first; then it fences its id and reads the epoch of the application. The application writes its epoch first;
    then it reads which workers are registered and fences their ids. So either the application fences the worker, or the
    worker reads the new epoch.

    Args:
        clients: Creates producers.
        readers: Reads journals.
        scope: The application or worker.
        settings: More settings of the producer.
        config: The configuration of internal topics.
        application_epoch: The epoch that the application must have.

    Raises:
        FencedError: The application has another epoch.
    """

    def __init__(
        self,
        clients: Clients,
        readers: Readers,
        scope: Scope,
        settings: Mapping[str, Any],
        config: Mapping[str, str],
        application_epoch: int | None = None,
    ) -> None:
        self.lock = threading.Lock()
        self._clients = clients
        self._readers = readers
        self._scope = scope
        self._settings = settings
        journal.create(clients, Scope(scope.application), config)
        current = self._application()
        self._started_by = current.instance
        if application_epoch is not None and current.epoch != application_epoch:
            raise self._superseded()
        if scope.worker is not None:
            journal.create(clients, scope, config)
            if scope.worker not in current.workers:
                journal.register(clients, scope)
        self._begin()
        self._name = uuid.uuid4().hex
        # A reset deletes the journal: epochs that start at the current time exceed those of before.
        self.epoch = (journal.memory(clients, readers, scope).epoch or int(time.time() * 1000)) + 1
        self._acquired = False
        self._ends: dict[tuple[str, int], int] = {}
        self._write([JournalRecord(MEMORY, *journal.epoch_record(self.epoch, self._name))])
        self._acquired = True
        if scope.worker is None:
            self._fence_workers()

    def _begin(self) -> None:
        """Creates a producer, which ends the open transaction of an earlier one. Only then is the journal complete."""
        own = self._scope.worker is None
        self._transactions = Transactions(
            self._clients,
            transactional_id(self._scope),
            self._settings,
            group=self._scope.application,
            known=journal.name_of(Scope(self._scope.application)),
        )
        if not own and self._application().instance != self._started_by:
            raise self._superseded()
        self.last = journal.last_batch(self._clients, self._readers, self._scope)
        self._is_sure = True

    def _application(self) -> journal.Memory:
        return journal.memory(self._clients, self._readers, Scope(self._scope.application))

    def _superseded(self) -> FencedError:
        return FencedError(
            f"application {self._scope.application!r} was acquired by another instance, which fences its workers",
            hint=f"{self._scope} must be started by that instance",
        )

    def _fence_workers(self) -> None:
        scopes = [Scope(self._scope.application, worker) for worker in self._application().workers]
        known = journal.name_of(self._scope)

        def fence(scope: Scope) -> None:
            Transactions(self._clients, transactional_id(scope), self._settings, known=known)

        with ThreadPoolExecutor(_FENCED_AT_ONCE) as pool:
            list(pool.map(fence, scopes))

    def publish(self, publication: Publication) -> bool:
        """Publishes a batch, unless it has been published.

        Raises:
            FencedError: Another instance has taken over.
            NonDeterministicError: The batch was published with other results.
        """
        if publication.marker is not None:
            self._publish_marked(publication, publication.marker)
            return True
        for _attempt in range(_ATTEMPTS):
            if not self._is_sure:
                self._begin_again()
            last = self.last
            if last is not None and publication.batch <= last.batch:
                if publication.batch == last.batch:
                    check_replay(publication, last.fingerprints)
                return False
            offsets = {**(last.offsets if last is not None else {}), **publication.offsets}
            now = Published(publication.batch, dict(publication.fingerprints), offsets)
            records = [JournalRecord(MARKERS, journal.BATCH, journal.marker(now))]
            records += [JournalRecord(MEMORY, *record) for record in journal.state_records(publication.state)]
            if self._commit(records, publication.appends, publication.offsets, quick=self._scope.worker is not None):
                self.last = now
                return True
        raise BrokerError(f"batch {publication.batch} of {self._scope} cannot be committed")

    def _publish_marked(self, publication: Publication, marker: tuple[str, int]) -> None:
        """Publishes a batch, unless the last record of its marker's partition is its own."""
        own = [as_block(append.block) for append in publication.appends if append[:2] == marker]
        if not own:
            raise LogError(f"{publication.scope} has no record for its marker in {marker}")
        for _attempt in range(_ATTEMPTS):
            if not self._is_sure:
                self._begin_again()
                committed = journal.last_value(self._clients, self._readers, *marker)
                if committed == decode(own[-1].data)["value"][-1].as_py():
                    return
            records = [JournalRecord(MEMORY, *record) for record in journal.state_records(publication.state)]
            if self._commit(records, publication.appends, publication.offsets, quick=True):
                return
        raise BrokerError(f"batch {publication.batch} of {self._scope} cannot be committed")

    def wait_until_visible(self) -> None:
        """Waits until readers see the last transaction."""
        self._transactions.wait_until_visible(self._owns)

    @cached_property
    def sender(self) -> Sender:
        """Writes records without a transaction."""
        return Sender(self._clients, self._settings)

    @cached_property
    def group(self) -> GroupCommits:
        """Commits input offsets without a transaction."""
        return GroupCommits(self._clients, self._scope.application)

    def close(self) -> None:
        """Closes the consumer that commits offsets; a producer is closed when it is no longer used."""
        self.group.close()

    def check_current(self) -> None:
        """Checks that no other instance has taken over. It is one request, unless a journal has grown.

        Raises:
            FencedError: One has.
        """
        scopes = {self._scope, Scope(self._scope.application)}
        specs = {(journal.name_of(scope), MEMORY): positions.LATEST for scope in scopes}
        try:
            ends = positions.list_offsets(self._clients, specs)
        except UnknownTopicError:  # after a reset
            ends = {}
        if not ends or ends != self._ends:
            self._check_instance()
            if self._scope.worker is not None and self._application().instance != self._started_by:
                raise self._superseded()
            self._ends = ends

    def set_state(self, state: Mapping[str, bytes]) -> None:
        """Writes entries of the recorded state to the journal."""
        self._write([JournalRecord(MEMORY, *record) for record in journal.state_records(state)])

    def _write(self, records: list[JournalRecord]) -> None:
        for _attempt in range(_ATTEMPTS):
            if not self._is_sure:
                self._begin_again()
            if self._commit(records):
                return
        raise BrokerError(f"the journal of {self._scope} cannot be written")

    def _commit(
        self,
        records: list[JournalRecord],
        appends: Iterable[Append] = (),
        offsets: Offsets | None = None,
        *,
        quick: bool = False,
    ) -> bool:
        """Writes a transaction. Returns False if its result is unknown; then the journal must be read first.

        The same holds after any exception.
        """
        self._is_sure = False
        try:
            topic = journal.name_of(self._scope)
            self._transactions.write(appends, (topic, records), offsets, self._owns, quick=quick)
        except (UnknownResultError, FencedProducerError):
            return False
        self._is_sure = True
        return True

    def _owns(self, topic: str) -> bool:
        """Returns whether only this instance writes to a topic."""
        if self._scope.worker is not None:
            return topic == journal.name_of(self._scope)
        return topic.startswith(f"{self._scope.application}-") and topics.is_internal(topic)

    def _begin_again(self) -> None:
        """Creates another producer, unless another instance has taken over.

        A producer is also fenced when its transaction times out, so only the journal tells whether another instance has
        taken over. After a reset, the journal has another instance or none. The new producer ends the last transaction,
        so the journal then shows whether it was committed. The former producer is discarded with its queue: a commit
        that was given up may still be sent, and must not be sent without its records.
        """
        self._check_instance()
        self._begin()

    def _check_instance(self) -> None:
        for scope in (self._scope, Scope(self._scope.application)):
            self._readers.forget(journal.name_of(scope))  # prefetched records may be those of a deleted journal
        current = journal.memory(self._clients, self._readers, self._scope)
        if current.instance != self._name and (self._acquired or current.epoch >= self.epoch):
            raise FencedError(
                f"another instance of {self._scope} has taken over",
                hint="one application id, one running instance",
            )
