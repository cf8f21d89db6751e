"""The one instance of an application that may write, and how its batches come to be published once."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from millstream.errors import BrokerError, FencedError
from millstream.log.api import Append, Offsets, Publication, Published
from millstream.log.kafka import journal, topics
from millstream.log.kafka.clients import Clients
from millstream.log.kafka.journal import MARKERS, MEMORY
from millstream.log.kafka.reading import Readers
from millstream.log.kafka.transactions import IndefiniteError, ShutOutError, Transactions, Written
from millstream.log.replays import check_replay

_ATTEMPTS = 5


class Instance:
    """An instance of an application. Making one shuts those before it out.

    Args:
        clients: Makes producers.
        readers: Reads the journal.
        application: Which application.
        settings: More settings of the producer.
        config: Of the topics of applications.
    """

    def __init__(
        self,
        clients: Clients,
        readers: Readers,
        application: str,
        settings: Mapping[str, Any],
        config: Mapping[str, str],
    ) -> None:
        self._clients = clients
        self._readers = readers
        self._application = application
        self._settings = settings
        journal.make(clients, application, config)
        self._begin()
        self._name = uuid.uuid4().hex
        self.epoch = journal.memory(clients, readers, application).epoch + 1
        self._acquired = False
        self._write([Written(MEMORY, *journal.epoch_record(self.epoch, self._name))])
        self._acquired = True

    def _begin(self) -> None:
        """Makes a producer, which ends what an earlier one of its name had begun; only then is the journal sure."""
        self._transactions = Transactions(self._clients, self._application, self._settings)
        self.last = journal.last_batch(self._clients, self._readers, self._application)
        self._is_sure = True

    def publish(self, publication: Publication) -> bool:
        """Publishes a batch, unless it has been published.

        Raises:
            FencedError: Another instance has taken over.
            NonDeterministicError: It was published with other results.
        """
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
            records = [Written(MARKERS, journal.BATCH, journal.marker(now))]
            records += [Written(MEMORY, *record) for record in journal.state_records(publication.state)]
            if self._commit(records, publication.appends, publication.offsets):
                self.last = now
                return True
        raise BrokerError(f"batch {publication.batch} of application {self._application!r} cannot be committed")

    def remember(self, state: Mapping[str, bytes]) -> None:
        """Writes small things to the journal."""
        self._write([Written(MEMORY, *record) for record in journal.state_records(state)])

    def _write(self, records: list[Written]) -> None:
        for _attempt in range(_ATTEMPTS):
            if not self._is_sure:
                self._begin_again()
            if self._commit(records):
                return
        raise BrokerError(f"the journal of application {self._application!r} cannot be written")

    def _commit(self, records: list[Written], appends: Iterable[Append] = (), offsets: Offsets | None = None) -> bool:
        """Writes a transaction; returns whether it is there for sure. Else the journal is to be asked before all else.

        Whatever else goes wrong in it, the same holds for whoever tries again.
        """
        self._is_sure = False
        try:
            topic = journal.name_of(self._application)
            self._transactions.write(appends, (topic, records), offsets, self._owns)
        except (IndefiniteError, ShutOutError):
            return False
        self._is_sure = True
        return True

    def _owns(self, topic: str) -> bool:
        return topic.startswith(f"{self._application}-") and topics.is_internal(topic)

    def _begin_again(self) -> None:
        """A producer that was shut out may have been so by the clock alone; the journal knows whether by another.

        Whether the last transaction was committed is in the journal, too, once a new producer has ended it. A reset
        makes the journal anew, and epochs begin again: then it is another instance, with a lower epoch, or none. The
        former producer is let go with all that it has queued: a commit that was given up may still be on its way, and
        must not go without what was in it.
        """
        known = journal.memory(self._clients, self._readers, self._application)
        if known.instance != self._name and (self._acquired or known.epoch >= self.epoch):
            raise FencedError(
                f"another instance of application {self._application!r} has taken over",
                hint="one application id, one running instance",
            )
        self._begin()
