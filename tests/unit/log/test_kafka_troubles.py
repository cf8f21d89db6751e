"""What is made of the troubles that clients tell, without a broker."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from millstream.errors import AuthenticationError, BrokerError
from millstream.log.kafka.connection_errors import Troubles

REFUSED = KafkaError(
    KafkaError._TRANSPORT,
    "127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT)",
)
WRONG = KafkaError(
    KafkaError._AUTHENTICATION,
    "sasl_ssl://127.0.0.1:1/bootstrap: SASL authentication error: 'tea' is\nwrong (after 3ms in state AUTH_REQ) "
    "(+3 previous errors)",
)
DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test moves."""
    time = [1000.0]
    monkeypatch.setattr("millstream.log.kafka.connection_errors.time.monotonic", lambda: time[0])
    return time


@pytest.fixture
def troubles(now: list[float]) -> Troubles:
    return Troubles({"bootstrap.servers": "127.0.0.1:1", "sasl.username": "me", "sasl.password": "tea"})


def test_a_refusal_is_final_when_no_broker_is_left(troubles: Troubles) -> None:
    troubles.note(WRONG)
    assert troubles.final() is None
    troubles.note(DOWN)
    found = troubles.final()
    assert isinstance(found, AuthenticationError)
    assert found.message == "the broker at 127.0.0.1:1 does not let user 'me' in: '…' is wrong"
    troubles.forget()
    assert troubles.final() is None


def test_who_is_not_there_may_come(troubles: Troubles, now: list[float]) -> None:
    troubles.note(DOWN)
    troubles.note(REFUSED)
    now[0] += 10
    assert troubles.final() is None
    found = troubles.explain("topics cannot be listed")
    assert type(found) is BrokerError
    assert found.message == (
        "topics cannot be listed: the broker at 127.0.0.1:1 does not answer "
        "(Connect to ipv4#127.0.0.1:1 failed: Connection refused)"
    )


def test_who_closes_connections_for_a_while_wants_another_protocol(troubles: Troubles, now: list[float]) -> None:
    troubles.note(DOWN)
    assert troubles.final() is None
    now[0] += 3
    found = troubles.final()
    assert found is not None
    assert found.message.endswith("it may want TLS or SASL there")
    assert found.hint == "see security.protocol, which is PLAINTEXT"


def test_what_was_long_ago_does_not_explain_a_request(troubles: Troubles, now: list[float]) -> None:
    troubles.note(WRONG)
    assert isinstance(troubles.explain("x"), AuthenticationError)
    now[0] += 1000
    assert troubles.explain("x").message == "x: the broker at 127.0.0.1:1 does not answer"
