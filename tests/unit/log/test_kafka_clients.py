"""Requests to a cluster that does not answer, without a broker."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any
from unittest.mock import MagicMock

import pytest

from millstream.errors import BrokerError
from millstream.log.kafka import groups, topics
from millstream.log.kafka.clients import Clients


class Unanswered(dict[Any, Future[Any]]):
    """The answers to a request, none of which ever comes."""

    def __missing__(self, _key: Any) -> Future[Any]:
        return Future()


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Clients:
    """Clients of a cluster that has answered once, and is silent now."""
    admin = MagicMock()
    for name in ("create_topics", "describe_consumer_groups", "delete_consumer_groups"):
        getattr(admin, name).return_value = Unanswered()
    monkeypatch.setattr(Clients, "connect", lambda _clients, _seconds: admin)
    return Clients({"bootstrap.servers": "127.0.0.1:1"}, timeout=0.01)


@pytest.mark.parametrize(
    ("request_something", "message"),
    [
        (lambda clients: groups.commit(clients, "g", {("t", 0): 1}), "the offsets of group 'g' cannot be set"),
        (lambda clients: groups.delete(clients, "g"), "group 'g' cannot be deleted"),
        (lambda clients: topics.create(clients, "t", 1, {}), "topic 't' cannot be created"),
    ],
)
def test_a_request_without_an_answer_raises_an_error_that_may_pass(
    clients: Clients, request_something: Callable[[Clients], object], message: str
) -> None:
    with pytest.raises(BrokerError, match=message) as raised:
        request_something(clients)
    assert raised.value.may_pass
