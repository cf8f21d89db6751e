"""Errors when a topic is created, without a broker."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from millstream.errors import BrokerError, ConfigError, MillstreamError
from millstream.log.kafka import topics
from millstream.log.kafka.clients import Clients

FENCED = "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
TOO_LARGE = "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "


@pytest.mark.parametrize(
    ("text", "expected"),
    [(FENCED + "directories cordoned.", BrokerError), (TOO_LARGE + "only 1 broker(s) are registered.", ConfigError)],
)
def test_a_start_retries_while_brokers_are_fenced_and_not_if_the_replication_factor_is_too_large(
    text: str, expected: type[MillstreamError], monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal: Future[Any] = Future()
    refusal.set_exception(KafkaException(KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, text)))

    class Admin:
        def create_topics(self, new: list[Any]) -> dict[str, Future[Any]]:
            return {topic.topic: refusal for topic in new}

    monkeypatch.setattr(Clients, "connect", lambda _clients, _seconds: Admin())
    with pytest.raises(expected) as caught:
        topics.create(Clients({"bootstrap.servers": "127.0.0.1:1"}, timeout=0.1), "orders", 1, {})
    assert getattr(caught.value, "may_pass", False) is (expected is BrokerError)
    assert text in caught.value.message
