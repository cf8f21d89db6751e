"""Publishing batches to a real broker: once, as a whole, and only by the newest instance."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from tests.kafka.opening import open_kafka_log, settle
from tests.unit.log.helpers import rows
from tests.unit.log.test_publish import FIRST, SECOND, publication
from tests.unit.views.test_local_views import ROWS

from millstream.dev.broker import Broker
from millstream.errors import BrokerError, FencedError, LogError, NonDeterministicError, RecordRefusedError
from millstream.log import Append, Log, ProducerRecord, Publication, Scope
from millstream.log.blocks import encode
from millstream.log.kafka import KafkaLog, positions

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
def topics(log: KafkaLog) -> None:
    log.create_topic("in", 2)
    log.create_topic("out")


def values(log: Log) -> list[str]:
    return [value for *_, value in rows(log, "out")]


def test_a_batch_is_written_with_offsets_state_and_fingerprints(log: KafkaLog, other: KafkaLog) -> None:
    epoch = log.applications.acquire(Scope("app"))
    assert log.applications.published(Scope("app")) is None
    assert log.applications.publish(publication(epoch, 3))
    assert rows(other, "out") == [(0, "k", "v")]
    assert other.committed("app") == {("in", 0): 30}
    assert other.applications.published(Scope("app")) == (3, {"out": (1, b"v")}, {("in", 0): 30})
    assert other.applications.state(Scope("app")) == {"plan": b"3"}


def test_offsets_and_state_that_a_batch_does_not_contain_are_kept(log: KafkaLog) -> None:
    epoch = log.applications.acquire(Scope("app"))
    log.applications.publish(publication(epoch, 1, state={"plan": b"1", "schema": b"s"}))
    log.applications.publish(publication(epoch, 2, offsets={("in", 1): 7}))
    last = log.applications.published(Scope("app"))
    assert last is not None
    assert last.offsets == log.committed("app") == {("in", 0): 10, ("in", 1): 7}
    assert log.applications.state(Scope("app")) == {"plan": b"2", "schema": b"s"}


def test_a_replay_by_any_instance_writes_nothing(log: KafkaLog, other: KafkaLog) -> None:
    epoch = log.applications.acquire(Scope("app"))
    log.applications.publish(publication(epoch, 1))
    log.applications.publish(publication(epoch, 2))
    assert not log.applications.publish(publication(epoch, 2, state={"plan": b"other"}))
    epoch = other.applications.acquire(Scope("app"))
    assert not other.applications.publish(publication(epoch, 2))
    assert not other.applications.publish(publication(epoch, 1, fingerprints={"out": (1, b"other")}))
    with pytest.raises(NonDeterministicError, match="batch 2 of application 'app'"):
        other.applications.publish(publication(epoch, 2, fingerprints={"out": (1, b"other")}))
    assert values(log) == ["v", "v"]
    assert other.applications.publish(publication(epoch, 3, b"w"))
    assert values(log) == ["v", "v", "w"]


def test_an_older_instance_is_fenced(log: KafkaLog, other: KafkaLog) -> None:
    old = log.applications.acquire(Scope("app"))
    log.applications.publish(publication(old, 1))
    new = other.applications.acquire(Scope("app"))
    assert new > old
    with pytest.raises(FencedError, match="another instance of application 'app' has taken over"):
        log.applications.publish(publication(old, 2))
    with pytest.raises(FencedError):
        log.applications.set_state(Scope("app"), {"plan": b"old"}, old)
    assert values(log) == ["v"]
    assert other.applications.publish(publication(new, 2, b"new"))
    assert values(log) == ["v", "new"]


def test_an_application_that_was_not_acquired_cannot_publish(log: KafkaLog) -> None:
    with pytest.raises(FencedError, match="no instance has ever acquired it"):
        log.applications.publish(publication(1, 1))


def test_a_refused_batch_writes_nothing(log: KafkaLog) -> None:
    epoch = log.applications.acquire(Scope("app"))
    good = publication(epoch, 1)
    bad = Append("out", 0, encode([1], [b"k"], [bytes(3_000_000)]))
    with pytest.raises(RecordRefusedError):
        log.applications.publish(dataclasses.replace(good, appends=[*good.appends, bad]))
    assert values(log) == []
    assert log.applications.published(Scope("app")) is None
    assert log.committed("app") == {}
    assert log.applications.publish(good)
    assert values(log) == ["v"]


def test_a_transaction_that_timed_out_is_written_again_once(log: KafkaLog, broker: Broker) -> None:
    # A producer with the same transactional id fences the first one, as the broker does after a transaction timeout,
    # but no other instance has acquired the application.
    epoch = log.applications.acquire(Scope("app"))
    log.applications.publish(publication(epoch, 1))
    intruder = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "app", "log_level": 0})
    intruder.init_transactions(30)
    assert log.applications.publish(publication(epoch, 2, b"w"))
    assert values(log) == ["v", "w"]
    last = log.applications.published(Scope("app"))
    assert last is not None
    assert last.batch == 2


def test_batches_are_published_once_while_the_broker_restarts(log: KafkaLog, broker: Broker, tmp_path: Path) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with open_kafka_log(settings, tmp_path / "hasty", timeout=8) as hasty:  # some calls never return after a restart
        epoch = hasty.applications.acquire(Scope("app"))
        hasty.applications.publish(publication(epoch, 1))
        broker.kill()
        broker.start(wait=False)
        publish_with_retries(hasty, publication(epoch, 2, b"w"))
    assert values(log) == ["v", "w"]


def publish_with_retries(log: KafkaLog, publication: Publication) -> None:
    """Publishes, as an application does, until the broker is available again."""
    for _attempt in range(5):
        with contextlib.suppress(BrokerError):
            log.applications.publish(publication)
            return
    raise AssertionError("the broker is still unavailable")


@pytest.mark.parametrize("silent", [1, 2])
def test_a_broker_that_becomes_silent_after_a_commit(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch, silent: int
) -> None:
    """A retry writes no duplicates, whether the new producer can read the journal or not."""
    epoch = log.applications.acquire(Scope("app"))
    list_offsets, calls = positions.list_offsets, itertools.count()

    def failing(*arguments: Any, **options: Any) -> Any:
        if next(calls) < silent:
            raise BrokerError("the broker does not answer")
        return list_offsets(*arguments, **options)

    monkeypatch.setattr(positions, "list_offsets", failing)
    for _attempt in range(silent):
        with contextlib.suppress(BrokerError):
            log.applications.publish(publication(epoch, 1))
    assert not log.applications.publish(publication(epoch, 1))
    assert log.applications.publish(publication(epoch, 2, b"w"))
    assert values(log) == ["v", "w"]


def test_an_open_transaction_of_another_producer_does_not_block_a_publication(log: KafkaLog, broker: Broker) -> None:
    epoch = log.applications.acquire(Scope("app"))
    other = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "other", "log_level": 0})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce("out", b"open", b"k")
    other.flush()
    for batch in (1, 2):
        assert log.applications.publish(publication(epoch, batch, b"%d" % batch))
    log.produce("out", [ProducerRecord(b"k", b"3", 1)])
    assert values(log) == []
    other.commit_transaction(30)
    assert log.wait({("out", 0): 5}, 10)
    assert values(log) == ["open", "1", "2", "3"]


def test_state_can_be_set_outside_of_a_batch(log: KafkaLog, other: KafkaLog) -> None:
    epoch = log.applications.acquire(Scope("app"))
    log.applications.set_state(Scope("app"), {"plan": b"1", "other": b""}, epoch)
    log.applications.set_state(Scope("app"), {"plan": b"2"}, epoch)
    assert other.applications.state(Scope("app")) == {"plan": b"2", "other": b""}
    assert other.applications.state(Scope("unknown")) == {}
    log.applications.publish(publication(epoch, 1, state={}))
    log.applications.delete("app")
    assert other.applications.state(Scope("app")) == {}
    assert other.applications.published(Scope("app")) is None
    assert log.groups() == []
    assert values(log) == ["v"]


def test_two_workers_publish_in_turn_to_the_group_of_their_application(log: KafkaLog, other: KafkaLog) -> None:
    driver = log.applications.acquire(Scope("app"))
    workers = {FIRST: log.applications, SECOND: other.applications}
    epochs = {scope: applications.acquire(scope, application_epoch=driver) for scope, applications in workers.items()}
    for batch in (1, 2):
        for partition, (scope, applications) in enumerate(workers.items()):
            offsets = {("in", partition): batch + 10 * partition}
            assert applications.publish(publication(epochs[scope], batch, scope=scope, offsets=offsets))
    assert log.applications.publish(publication(driver, 1, offsets={}, state={"plan": b"own"}))
    settle(log)
    assert values(log) == ["v"] * 5
    assert log.committed("app") == {("in", 0): 2, ("in", 1): 12}
    assert log.groups() == ["app"]
    assert other.applications.published(FIRST) == (2, {"out": (1, b"v")}, {("in", 0): 2})
    assert log.applications.published(SECOND) == (2, {"out": (1, b"v")}, {("in", 1): 12})
    assert other.applications.published(Scope("app")) == (1, {"out": (1, b"v")}, {})
    assert other.applications.state(FIRST) == {"plan": b"2"}
    assert other.applications.state(Scope("app")) == {"plan": b"own"}
    assert all(topic.internal for topic in log.topics() if topic.name not in {"in", "out"})


def test_a_worker_is_fenced_by_its_next_instance_alone(log: KafkaLog, other: KafkaLog) -> None:
    old, beside = log.applications.acquire(FIRST), log.applications.acquire(SECOND)
    assert log.applications.publish(publication(old, 1, scope=FIRST))
    new = other.applications.acquire(FIRST)
    assert new > old
    with pytest.raises(FencedError, match="another instance of worker 'w1' of application 'app' has taken over"):
        log.applications.publish(publication(old, 2, scope=FIRST))
    with pytest.raises(FencedError):
        log.applications.set_state(FIRST, {"plan": b"old"}, old)
    assert not other.applications.publish(publication(new, 1, scope=FIRST))
    assert other.applications.publish(publication(new, 2, b"w", scope=FIRST))
    assert log.applications.publish(publication(beside, 1, b"x", scope=SECOND))
    settle(log)
    assert values(log) == ["v", "w", "x"]


def test_acquiring_an_application_fences_all_its_workers(log: KafkaLog, other: KafkaLog) -> None:
    first = log.applications.acquire(Scope("app"))
    epochs = {scope: log.applications.acquire(scope, application_epoch=first) for scope in (FIRST, SECOND)}
    assert log.applications.publish(publication(epochs[FIRST], 1, scope=FIRST))
    second = other.applications.acquire(Scope("app"))
    assert second > first
    for scope, epoch in epochs.items():  # one has published before, the other has not
        with pytest.raises(FencedError, match="application 'app' was acquired by another instance"):
            log.applications.publish(publication(epoch, 2, scope=scope))
    with pytest.raises(FencedError, match="application 'app' was acquired by another instance"):
        log.applications.acquire(FIRST, application_epoch=first)
    epoch = other.applications.acquire(FIRST, application_epoch=second)
    assert not other.applications.publish(publication(epoch, 1, scope=FIRST))
    assert other.applications.publish(publication(epoch, 2, b"w", scope=FIRST))
    settle(log)
    assert values(log) == ["v", "w"]


def test_a_worker_whose_transaction_is_open_is_fenced_with_its_application(log: KafkaLog, broker: Broker) -> None:
    log.applications.acquire(FIRST)
    stopped = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "app:w1", "log_level": 0})
    stopped.init_transactions(30)
    stopped.begin_transaction()
    stopped.produce("out", b"open", b"k", partition=0)
    stopped.flush()
    epoch = log.applications.acquire(Scope("app"))
    assert log.applications.publish(publication(epoch, 1))
    assert values(log) == ["v"], "the open transaction was aborted"
    with pytest.raises(KafkaException):
        stopped.commit_transaction(30)


def test_an_unknown_scope_has_nothing(log: KafkaLog) -> None:
    log.applications.acquire(Scope("app"))
    assert log.applications.published(FIRST) is None
    assert log.applications.state(FIRST) == {}
    with pytest.raises(FencedError, match="no instance has ever acquired it"):
        log.applications.publish(publication(1, 1, scope=FIRST))


def test_the_last_batch_is_that_of_the_current_journal_after_a_reset_elsewhere(log: KafkaLog, other: KafkaLog) -> None:
    old = log.applications.acquire(Scope("app"))
    for batch in (1, 2, 3):
        log.applications.publish(publication(old, batch))
    last = log.applications.published(Scope("app"))
    assert last is not None
    assert last.batch == 3
    other.applications.acquire(Scope("app"))
    other.applications.delete("app")
    assert log.applications.published(Scope("app")) is None
    new = other.applications.acquire(Scope("app"))
    other.applications.publish(publication(new, 1, offsets={("in", 1): 7}))
    assert log.applications.published(Scope("app")) == (1, {"out": (1, b"v")}, {("in", 1): 7})


def test_a_worker_publishes_no_views(log: KafkaLog) -> None:
    epoch = log.applications.acquire(FIRST)
    with pytest.raises(LogError, match="worker 'w1' of application 'app' cannot publish views"):
        log.applications.publish(publication(epoch, 1, scope=FIRST, views=ROWS))


def test_deleting_an_application_deletes_the_journals_of_its_workers(log: KafkaLog, other: KafkaLog) -> None:
    old = log.applications.acquire(FIRST)
    log.applications.publish(publication(old, 1, scope=FIRST))
    other.applications.acquire(Scope("app"))
    other.applications.delete("app")
    assert [topic.name for topic in log.topics()] == ["in", "out"]
    assert other.applications.published(FIRST) is None
    assert other.applications.state(FIRST) == {}
    assert other.applications.acquire(FIRST) > old
    with pytest.raises(FencedError):
        log.applications.publish(publication(old, 2, scope=FIRST))
