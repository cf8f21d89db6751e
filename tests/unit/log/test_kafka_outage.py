"""Calls of transactions that never return after an outage of the cluster are given up."""

from __future__ import annotations

from typing import cast

import pytest

from millstream.log.kafka import transactions
from millstream.log.kafka.clients import Clients
from millstream.log.kafka.transactions import Outage


class Cluster:
    """The clients of a cluster that answers or does not."""

    def __init__(self) -> None:
        self.is_up = True
        self.losses = 3

    def answers(self, _seconds: float) -> bool:
        return self.is_up


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(transactions, "_SETTLED_SECONDS", 0.0)
    return Cluster()


def outage(cluster: Cluster) -> Outage:
    return Outage(cast("Clients", cluster), cluster.losses)


def test_a_call_without_an_outage_is_not_given_up(cluster: Cluster) -> None:
    call = outage(cluster)
    assert [call.is_over() for _ in range(3)] == [False] * 3


def test_a_call_is_given_up_when_the_cluster_answers_again(cluster: Cluster) -> None:
    call = outage(cluster)
    cluster.is_up = False
    assert not call.is_over()
    cluster.is_up = True
    assert call.is_over()


def test_a_call_that_begins_after_an_outage_is_given_up(cluster: Cluster) -> None:
    call = outage(cluster)
    cluster.losses += 1
    assert call.is_over()


def test_a_call_is_not_given_up_before_the_cluster_has_answered_for_a_while(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_SETTLED_SECONDS", 60.0)
    call = outage(cluster)
    cluster.losses += 1
    assert [call.is_over() for _ in range(3)] == [False] * 3
