"""Publications of workers on a real broker: with a marker of their own, and without transactions."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.kafka.opening import settle
from tests.unit.log.helpers import rows
from tests.unit.log.test_publish import FIRST, SECOND

from millstream.dev.broker import Broker
from millstream.errors import FencedError, LogError, RecordRefusedError
from millstream.log import Append, ColumnBlock, Publication, Scope
from millstream.log.blocks import encode
from millstream.log.kafka import KafkaLog
from millstream.log.kafka.transactions import Transactions, UnknownResultError
from millstream.log.opening import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

MARKER = ("tasks", 1)


@pytest.fixture(autouse=True)
def topics(log: KafkaLog) -> None:
    log.create_topic("in", 2)
    log.create_topic("out")
    log.create_topic("tasks", 2)


def marked(epoch: int, batch: int, value: bytes = b"v", **more: Any) -> Publication:
    """Returns a publication whose marker is the record of a task."""
    appends = [
        Append("out", 0, ColumnBlock([batch], [b"k"], [value])),
        Append("tasks", 1, ColumnBlock([batch], [b"task"], [b"%d" % batch])),
    ]
    return Publication(FIRST, epoch, batch, appends, marker=MARKER, **more)


def values(log: KafkaLog, topic: str = "out", partition: int = 0) -> list[str]:
    settle(log)
    return [value for *_, value in rows(log, topic, partition)]


def test_a_marked_publication_is_written_without_a_record_of_the_batch(log: KafkaLog) -> None:
    epoch = log.applications.acquire(FIRST)
    for batch in (1, 2):
        assert log.applications.publish(marked(epoch, batch, offsets={("in", 0): batch} if batch == 2 else {}))
    assert values(log) == ["v", "v"]
    assert values(log, *MARKER) == ["1", "2"]
    assert log.committed("app") == {("in", 0): 2}
    assert log.applications.published(FIRST) is None


def test_columns_are_written_like_blocks(log: KafkaLog) -> None:
    columns = [5, 3], [b"k", None], [None, b"v"], [(), (("trace", b"1"),)]
    log.append([Append("in", 0, ColumnBlock(*columns)), Append("in", 1, encode(*columns))])
    tables = [log.read("in", partition, 0, 2) for partition in range(2)]
    assert tables[0].equals(tables[1])
    assert tables[0]["timestamp"].to_pylist() == [5, 3]


@pytest.mark.parametrize("is_committed", [True, False])
def test_an_unknown_result_is_resolved_by_the_marker(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    epoch = log.applications.acquire(FIRST)
    log.applications.publish(marked(epoch, 1))
    write = Transactions.write

    def unknown(transactions: Transactions, *arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(Transactions, "write", write)
        if is_committed:
            transactions.write(*arguments, **options)
        raise UnknownResultError("no response")

    monkeypatch.setattr(Transactions, "write", unknown)
    assert log.applications.publish(marked(epoch, 2, b"w"))
    assert log.applications.publish(marked(epoch, 3, b"x"))
    assert values(log) == ["v", "w", "x"]


def test_a_marker_without_a_record_is_refused(log: KafkaLog) -> None:
    epoch = log.applications.acquire(FIRST)
    with pytest.raises(LogError, match="no record for its marker"):
        log.applications.publish(Publication(FIRST, epoch, 1, marker=MARKER))


def test_a_refused_record_aborts_a_marked_publication(log: KafkaLog) -> None:
    epoch = log.applications.acquire(FIRST)
    with pytest.raises(RecordRefusedError):
        log.applications.publish(marked(epoch, 1, bytes(3_000_000)))
    log.alter_topic("out", {"cleanup.policy": "compact"})
    keyless = Append("out", 0, ColumnBlock([1], [None], [b"v"]))
    with pytest.raises(RecordRefusedError):  # the broker refuses it
        log.applications.publish(Publication(FIRST, epoch, 1, [keyless, *marked(epoch, 1).appends[1:]], marker=MARKER))
    assert log.applications.publish(marked(epoch, 1))
    assert values(log) == ["v"]


def test_a_fenced_worker_publishes_nothing(log: KafkaLog, other: KafkaLog) -> None:
    driver = log.applications.acquire(Scope("app"))
    old = log.applications.acquire(FIRST, application_epoch=driver)
    log.applications.publish(marked(old, 1))
    new = other.applications.acquire(FIRST, application_epoch=driver)
    with pytest.raises(FencedError, match="another instance of worker 'w1'"):
        log.applications.publish(marked(old, 2, b"old"))
    assert other.applications.publish(marked(new, 2, b"new"))
    log.applications.acquire(Scope("app"))
    with pytest.raises(FencedError, match="application 'app' was acquired by another instance"):
        other.applications.publish(marked(new, 3))
    assert values(log) == ["v", "new"]


def test_a_publication_after_a_transaction_timeout_is_written_once(log: KafkaLog, broker: Broker) -> None:
    epoch = log.applications.acquire(FIRST)
    log.applications.publish(marked(epoch, 1))
    intruder = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "app:w1", "log_level": 0})
    intruder.init_transactions(30)
    assert log.applications.publish(marked(epoch, 2, b"w"))
    assert values(log) == ["v", "w"]


def test_workers_are_acquired_at_the_same_time(log: KafkaLog) -> None:
    driver = log.applications.acquire(Scope("app"))
    with ThreadPoolExecutor(2) as pool:
        epochs = list(
            pool.map(lambda scope: log.applications.acquire(scope, application_epoch=driver), [FIRST, SECOND])
        )
    assert log.applications.publish(marked(epochs[0], 1))
    assert log.applications.publish(Publication(SECOND, epochs[1], 1, offsets={("in", 1): 3}))
    assert log.committed("app") == {("in", 1): 3}


def test_records_without_a_transaction_are_confirmed_with_offsets(log: KafkaLog, other: KafkaLog) -> None:
    epoch = log.applications.acquire(FIRST)
    headers = [(("trace", b"1"),), ()]
    log.applications.send(FIRST, epoch, [Append("out", 0, ColumnBlock([5, 6], [b"a", b"b"], [b"1", b"2"], headers))])
    log.applications.send(FIRST, epoch, [Append("out", 0, encode([7], [b"c"], [b"3"]))])
    log.applications.flush(FIRST, epoch, {("in", 0): 3})
    table = other.read("out", 0, 0, 10)
    assert table["offset"].to_pylist() == [0, 1, 2], "there are no control records"
    assert table["timestamp"].to_pylist() == [5, 6, 7]
    assert values(other) == ["1", "2", "3"]
    assert other.committed("app") == {("in", 0): 3}


def test_records_without_a_transaction_that_are_refused_raise_an_error(log: KafkaLog) -> None:
    log.alter_topic("out", {"cleanup.policy": "compact"})
    epoch = log.applications.acquire(FIRST)
    log.applications.send(FIRST, epoch, [Append("out", 0, ColumnBlock([1], [None], [b"v"]))])
    with pytest.raises(RecordRefusedError):
        log.applications.flush(FIRST, epoch)
    with pytest.raises(RecordRefusedError):  # another thread may not have learned of it
        log.applications.flush(FIRST, epoch)
    epoch = log.applications.acquire(FIRST)
    log.applications.send(FIRST, epoch, [Append("out", 0, ColumnBlock([1], [b"k"], [b"v"]))])
    log.applications.flush(FIRST, epoch)
    assert values(log) == ["v"]


def test_results_are_sent_while_earlier_ones_are_not_acknowledged(log: KafkaLog, broker: Broker) -> None:
    epoch = log.applications.acquire(FIRST)
    log.applications.send(FIRST, epoch, [Append("out", 0, ColumnBlock([1], [b"k"], [b"1"]))])
    log.applications.flush(FIRST, epoch)
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        log.applications.send(FIRST, epoch, [Append("out", 0, ColumnBlock([1], [b"k"], [b"2"]))])
        with ThreadPoolExecutor(1) as pool:
            flushed = pool.submit(log.applications.flush, FIRST, epoch)
            log.applications.send(FIRST, epoch, [Append("out", 0, ColumnBlock([1], [b"k"], [b"3"]))])
            assert not flushed.done()
            os.kill(broker.pid, signal.SIGCONT)
            flushed.result()
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    log.applications.flush(FIRST, epoch)
    assert values(log) == ["1", "2", "3"]


@pytest.mark.parametrize("scope", [FIRST, Scope("app")])
def test_a_fenced_worker_confirms_nothing(log: KafkaLog, other: KafkaLog, scope: Scope) -> None:
    driver = log.applications.acquire(Scope("app"))
    old = log.applications.acquire(FIRST, application_epoch=driver)
    log.applications.flush(FIRST, old)
    log.applications.flush(FIRST, old, {("in", 0): 1})
    other.applications.acquire(scope)
    with pytest.raises(FencedError):
        log.applications.flush(FIRST, old, {("in", 0): 2})
    assert log.committed("app") == {("in", 0): 1}


def test_a_reset_fences_workers_without_transactions(log: KafkaLog, other: KafkaLog) -> None:
    epoch = log.applications.acquire(FIRST)
    log.applications.flush(FIRST, epoch)
    other.applications.delete("app")
    with pytest.raises(FencedError):
        log.applications.flush(FIRST, epoch)


def test_a_full_queue_loses_no_records(broker: Broker, tmp_path: Path) -> None:
    settings = {"queue.buffering.max.messages": "100"}
    cluster = Cluster({"bootstrap.servers": broker.bootstrap_servers}, producer=settings)
    with KafkaLog(cluster, tmp_path / "small") as log:
        epoch = log.applications.acquire(FIRST)
        texts = [str(number) for number in range(1_000)]
        columns = ColumnBlock([1] * 1_000, [b"k"] * 1_000, [text.encode() for text in texts])
        assert log.applications.publish(Publication(FIRST, epoch, 1, [Append("out", 0, columns)]))
        assert values(log) == texts
        uneven = ColumnBlock([1], [b"k"], [b"v", b"w"])
        with pytest.raises(RecordRefusedError, match="differ in length"):
            log.applications.publish(Publication(FIRST, epoch, 2, [Append("out", 0, uneven)]))
        assert values(log) == texts
