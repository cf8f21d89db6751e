"""Records that are written without a transaction."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from millstream.errors import LogError, RecordRefusedError
from millstream.log.api import Append
from millstream.log.kafka.clients import Clients
from millstream.log.kafka.queueing import REFUSALS, SETTINGS, enqueue_all, refusal

_LINGER = {"linger.ms": 1, "enable.idempotence": True}
_POLL = 0.002


class _Part:
    """The records that were sent between two flushes. Several threads add to it: list.append needs no lock.

    Args:
        errors: Takes the errors of records that were not written.
    """

    def __init__(self, errors: list[KafkaError]) -> None:
        self._errors = errors
        self.sent: list[int] = []
        self._reported: list[None] = []

    def delivered(self, error: KafkaError | None, _message: Message) -> None:
        """Takes the report of one record."""
        if error is not None:
            self._errors.append(error)
        self._reported.append(None)

    @property
    def is_acknowledged(self) -> bool:
        """Whether there are reports of all records."""
        return len(self._reported) >= sum(self.sent)


class Sender:
    """An idempotent producer: records of a partition arrive in order, each once, as long as it lives.

    One thread may send while another one flushes, which waits for earlier records only: so the results of later ones
    are not late. Once a record could not be written, every call fails: the thread that learns of it first is not always
    the one that must not go on.

    Args:
        clients: Creates the producer.
        settings: Additional settings of the producer.
    """

    def __init__(self, clients: Clients, settings: Mapping[str, Any]) -> None:
        self._clients = clients
        self._errors: list[KafkaError] = []
        self._failure: LogError | None = None
        self._part = _Part(self._errors)
        self._producer = clients.plain_producer({**SETTINGS, **_LINGER, **settings})

    def send(self, appends: Iterable[Append]) -> None:
        """Adds records to the queue, which is sent in the background. Reports are taken by `flush`.

        Raises:
            RecordRefusedError: A record is not accepted. It may also be one of an earlier call.
            BrokerError: Records of an earlier call cannot be written.
        """
        self._check()
        for append in appends:
            part = self._part
            part.sent.append(append.block.count)
            try:
                enqueue_all(self._producer, append, self._clients.timeout, part.delivered)
            except KafkaException as error:
                self._failure = self._clients.failure(error, "records cannot be written")
                raise self._failure from error
            except RecordRefusedError as error:
                self._failure = error
                raise

    def flush(self) -> None:
        """Waits until brokers have acknowledged all records that were sent before.

        Raises:
            RecordRefusedError: A record was not accepted.
            BrokerError: Some records are not acknowledged.
        """
        part, self._part = self._part, _Part(self._errors)
        deadline = time.monotonic() + self._clients.timeout
        while True:
            self._producer.poll(0)
            self._check()
            if part.is_acknowledged:
                break
            if time.monotonic() > deadline:
                raise self._clients.silence("records are not acknowledged")
            time.sleep(_POLL)
        self._check()  # another thread may have taken the last report

    def _check(self) -> None:
        if self._errors and self._failure is None:
            error = self._errors[0]
            is_refused = error.code() in REFUSALS
            cause = KafkaException(error)
            self._failure = refusal(error) if is_refused else self._clients.failure(cause, "records cannot be written")
        if self._failure is not None:
            raise self._failure
