"""Explanations of connection errors, without a broker."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from millstream.errors import AuthenticationError, BrokerError
from millstream.log.kafka.connection_errors import ConnectionErrors

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
    """The clock, which a test sets."""
    time = [1000.0]
    monkeypatch.setattr("millstream.log.kafka.connection_errors.time.monotonic", lambda: time[0])
    return time


@pytest.fixture
def errors(now: list[float]) -> ConnectionErrors:
    return ConnectionErrors({"bootstrap.servers": "127.0.0.1:1", "sasl.username": "me", "sasl.password": "tea"})


def test_a_refusal_is_final_when_all_brokers_are_down(errors: ConnectionErrors) -> None:
    errors.note(WRONG)
    assert errors.final() is None
    errors.note(DOWN)
    error = errors.final()
    assert isinstance(error, AuthenticationError)
    assert error.message == "the broker at 127.0.0.1:1 rejects user 'me': '…' is wrong"
    errors.forget()
    assert errors.final() is None


def test_a_refused_connection_is_retried(errors: ConnectionErrors, now: list[float]) -> None:
    errors.note(DOWN)
    errors.note(REFUSED)
    now[0] += 10
    assert errors.final() is None
    error = errors.explain("topics cannot be listed")
    assert type(error) is BrokerError
    assert error.message == (
        "topics cannot be listed: the broker at 127.0.0.1:1 does not answer "
        "(Connect to ipv4#127.0.0.1:1 failed: Connection refused)"
    )


def test_closed_connections_indicate_another_protocol(errors: ConnectionErrors, now: list[float]) -> None:
    errors.note(DOWN)
    assert errors.final() is None
    now[0] += 3
    error = errors.final()
    assert error is not None
    assert error.message.endswith("it may require TLS or SASL")
    assert error.hint == "see security.protocol, which is PLAINTEXT"


def test_old_errors_do_not_explain_a_request(errors: ConnectionErrors, now: list[float]) -> None:
    errors.note(WRONG)
    assert isinstance(errors.explain("x"), AuthenticationError)
    now[0] += 1000
    assert errors.explain("x").message == "x: the broker at 127.0.0.1:1 does not answer"
