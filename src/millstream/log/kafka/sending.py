"""Records that are written without a transaction."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from millstream.log.api import Append
from millstream.log.kafka.clients import Clients
from millstream.log.kafka.queueing import REFUSALS, SETTINGS, enqueue_all, refusal

_LINGER = {"linger.ms": 1, "enable.idempotence": True, "delivery.report.only.error": True}
_MOMENT = 1.0


class Sender:
    """An idempotent producer: records of a partition arrive in order, each once, as long as it lives.

    Args:
        clients: Creates the producer.
        settings: Additional settings of the producer.
    """

    def __init__(self, clients: Clients, settings: Mapping[str, Any]) -> None:
        self._clients = clients
        self._errors: list[KafkaError] = []
        self._producer = clients.plain_producer({**SETTINGS, **_LINGER, **settings, "on_delivery": self._note})

    def _note(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._errors.append(error)

    def send(self, appends: Iterable[Append]) -> None:
        """Adds records to the queue, which is sent in the background.

        Raises:
            RecordRefusedError: A record is not accepted. It may also be one of an earlier call.
            BrokerError: Records of an earlier call cannot be written.
        """
        try:
            for append in appends:
                enqueue_all(self._producer, append, self._clients.timeout)
        except KafkaException as error:
            raise self._clients.failure(error, "records cannot be written") from error
        self._producer.poll(0)
        self._check()

    def flush(self) -> None:
        """Waits until brokers have acknowledged all records.

        Raises:
            RecordRefusedError: A record was not accepted.
            BrokerError: Some records are not acknowledged.
        """
        deadline = time.monotonic() + self._clients.timeout
        while self._producer.flush(_MOMENT):
            self._check()
            if time.monotonic() > deadline:
                raise self._clients.silence("records are not acknowledged")
        self._check()

    def _check(self) -> None:
        if self._errors:
            error = self._errors.pop(0)
            self._errors.clear()
            if error.code() in REFUSALS:
                raise refusal(error)
            raise self._clients.failure(KafkaException(error), "records cannot be written")
