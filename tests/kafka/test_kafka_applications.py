"""Applications on a cluster, by configuration alone. They run without Spark, by its protocol: see `InProcessRun`."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import sqlite3
import string
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.examples.test_on_spark import dumped
from tests.kafka import independent
from tests.kafka.copies import check_copies, produce_originals

from millstream import App, Materialized, session, tumbling
from millstream.core.partitioning import partition_for
from millstream.dev.broker import Broker
from millstream.errors import (
    BrokerError,
    MillstreamError,
    OffsetOutOfRangeError,
    ProductionError,
    RecordRefusedError,
    SetupError,
    UnknownTopicError,
)
from millstream.log import ProducerRecord
from millstream.log.kafka import KafkaLog
from millstream.runtime.admin import reset
from millstream.runtime.in_process.batches import InProcessRun
from millstream.runtime.start import prepared_application
from millstream.views.checksums import checksum

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

NOW = int(time.time() * 1000)

Make = Callable[..., App]


@pytest.fixture
def make(broker: Broker, tmp_path: Path) -> Make:
    """Makes an application on the cluster."""

    def app(name: str = "shop", **config: Any) -> App:
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        return App(name, config={"state.dir": str(tmp_path / "data"), "status": "none", **servers, **config})

    return app


def copying(app: App, **options: Any) -> App:
    app.stream("in", key=str, value=str, **options).to("out")
    return app


def produce(log: KafkaLog, *values: str, key: str | None = "k", partition: int | None = None) -> None:
    given = None if key is None else key.encode()
    log.produce("in", [ProducerRecord(given, value.encode(), NOW, partition=partition) for value in values])


def written(broker: Broker, topic: str = "out") -> list[str]:
    return [(message.value() or b"").decode() for message in independent.messages(broker.bootstrap_servers, topic)]


def run(app: App) -> int:
    with InProcessRun(app) as local:
        return local.run()


def test_output_is_readable_by_other_clients(broker: Broker, log: KafkaLog, make: Make) -> None:
    produce_originals(log)
    run(copying(make()))
    check_copies(broker.bootstrap_servers)


def test_state_offsets_and_views_are_kept_after_a_stop(broker: Broker, log: KafkaLog, make: Make) -> None:
    def counting() -> App:
        app = make()
        app.stream("in", key=str, value=str).group_by_key().count(store="counts").to_stream().map_values(
            str, value=str
        ).to("out")
        return app

    log.create_topic("in", 2)
    for _round in range(3):
        produce(log, "x", "y")
        assert run(counting()) == 1
    assert written(broker) == ["1", "2", "3", "4", "5", "6"]
    assert counting().store("counts").get("k") == 6
    partition = partition_for(b"k", 2)
    assert log.committed("shop") == {("in", partition): log.ends(["in"])["in"][partition]}
    config = {topic.name: topic.config for topic in log.topics()}
    assert config["shop-counts-changelog"]["cleanup.policy"] == "compact"
    assert not run(counting())


def test_views_from_before_a_reset_are_not_shown(broker: Broker, log: KafkaLog, make: Make, tmp_path: Path) -> None:
    def counting() -> App:
        app = make()
        app.stream("in", key=str, value=str).group_by_key().count(store="counts")
        return app

    log.create_topic("in", 1)
    for key in ("old", "older"):
        produce(log, "x", key=key)
        run(counting())
    elsewhere = str(tmp_path / "elsewhere")
    reset("shop", to="latest", state_dir=elsewhere, config={"bootstrap.servers": broker.bootstrap_servers})
    shutil.rmtree(tmp_path / "data" / "applications")
    run(counting())  # it starts at the current end
    produce(log, "x", key="new")
    run(counting())
    assert dict(counting().store("counts").all()) == {"new": 1}


def test_views_missing_on_this_machine_are_rebuilt_from_changelogs(
    log: KafkaLog, make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def app() -> App:
        made = make()
        grouped = made.stream("in", key=str, value=str).group_by_key()
        grouped.count(store="counts")
        grouped.windowed_by(tumbling("1s")).count(store="windows")
        grouped.windowed_by(session("500ms")).count(store="sessions")
        made.table("rows", key=str, value=str, store=Materialized("rows", history="1h"))
        return made

    def views() -> dict[str, list[Any]]:
        opened = {name: app().store(name) for name in ("counts", "windows", "sessions")}
        contents = {name: dumped(store) for name, store in opened.items()}
        rows = app().store("rows")
        return {**contents, "rows": [(key, rows.get(key), rows.get(key, NOW + 1)) for key in "abc"]}

    log.create_topic("in", 2)
    log.create_topic("rows", 2)
    for number in range(60):
        log.produce("in", [ProducerRecord(b"abc"[number % 3 :][:1], b"v", NOW + number * 100)])
        value = None if number % 7 == 0 else b"%d" % number
        log.produce("rows", [ProducerRecord(b"abc"[number % 3 :][:1], value, NOW + number)])
    run(app())
    before = views()
    assert all(before.values())
    assert "changelogs" not in capsys.readouterr().err
    for path in (tmp_path / "data").glob("views.db*"):
        path.unlink()
    run(app())
    assert "the views of application 'shop' are not on this machine: making them" in capsys.readouterr().err
    assert views() == before
    lag = log.topic("shop-rows-changelog").config["min.compaction.lag.ms"]
    assert lag == str(25 * 3_600_000), "brokers would leave only one value of each row"
    # It was killed between a batch and its views, and the batch will be replayed.
    with contextlib.closing(sqlite3.connect(tmp_path / "data" / "views.db")) as connection, connection:
        [(batch,)] = connection.execute("SELECT batch FROM view_batches WHERE application = 'shop'")
        connection.execute("UPDATE view_batches SET batch = ?, checksum = ?", (batch - 1, checksum("shop", batch - 1)))
    commits = tmp_path / "data" / "applications" / "shop" / "checkpoint" / "commits"
    max(commits.iterdir(), key=lambda path: int(path.name)).unlink()
    run(app())
    assert "changelogs" not in capsys.readouterr().err
    assert views() == before
    log.produce("in", [ProducerRecord(b"a", b"v", NOW + 6_000)])
    run(app())
    assert "changelogs" not in capsys.readouterr().err
    assert app().store("counts").get("a") == 21


def test_a_view_is_not_rebuilt_from_an_incomplete_changelog(log: KafkaLog, make: Make, tmp_path: Path) -> None:
    """The changelog has outdated rows, so the view begins empty. Rows appear when they change."""
    log.create_topic("in", 1)

    def app(*, logged: bool = True) -> App:
        made = make(**{"store.changelogs": logged})
        made.stream("in", key=str, value=str).group_by_key().count(store="counts")
        return made

    for logged in (True, False, True):
        log.produce("in", [ProducerRecord(b"a" if logged else b"b", b"v", NOW), ProducerRecord(b"c", b"v", NOW)])
        run(app(logged=logged))
    assert dict(app().store("counts").all()) == {"a": 2, "b": 1, "c": 3}
    for path in (tmp_path / "data").glob("views.db*"):
        path.unlink()
    run(app())
    log.produce("in", [ProducerRecord(b"b", b"v", NOW)])
    run(app())
    assert dict(app().store("counts").all()) == {"b": 2}


def test_repartition_topics_keep_unread_records_and_delete_read_ones(broker: Broker, log: KafkaLog, make: Make) -> None:
    log.create_topic("in", 2)
    app = make(**{"topic.segment.bytes": "1048576"})
    counts = app.stream("in", key=str, value=str).group_by_key().count(store="counts")
    counts.group_by(lambda k, v: (f"{k[0]}", v), key=str, name="first").count(store="again").to_stream().map_values(
        str, value=str
    ).to("out")
    produce(log, "x", "y")
    with InProcessRun(app) as local:
        local.run()
        topic = log.topic("shop-first-repartition")
        wanted = {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "1048576"}
        assert topic.config == {**wanted, "message.timestamp.type": "CreateTime"}
        ends = log.ends([topic.name])[topic.name]
        local.log.delete_records({(topic.name, partition): end for partition, end in enumerate(ends)})
        assert log.starts([topic.name]) == {topic.name: ends}
        produce(log, "z")
        local.run()
    assert written(broker)[-1] == "1"


def test_topics_and_partitions_added_at_run_time_are_read(broker: Broker, log: KafkaLog, make: Make) -> None:
    log.create_topic("in", 1)
    app = make()
    app.stream(pattern="in.*", key=str, value=str).to("out")
    with InProcessRun(app) as local:
        produce(log, "a")
        local.run()
        log.create_topic("in-2", 2)
        log.produce("in-2", [ProducerRecord(b"k", b"lost"), ProducerRecord(b"k", b"b")], partition=1)
        log.delete_records({("in-2", 1): 1})
        log.add_partitions("in", 3)
        produce(log, "c", partition=2)
        deadline = time.monotonic() + 20
        while len(written(broker)) < 3 and time.monotonic() < deadline:
            local.run()
    assert sorted(written(broker)) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("reset", "expected"),
    [("earliest", ["old", "new"]), ("latest", []), ("by_duration:1h", ["new"]), ("by_duration:PT240H", ["old", "new"])],
)
def test_the_start_positions_of_an_application(
    broker: Broker, log: KafkaLog, make: Make, reset: str, expected: list[str]
) -> None:
    log.create_topic("in", 1)
    log.produce("in", [ProducerRecord(b"k", b"old", NOW - 86_400_000), ProducerRecord(b"k", b"new", NOW)])
    run(copying(make(**{"auto.offset.reset": reset})))
    run(copying(make("other"), offset_reset=reset))
    assert written(broker) == expected * 2


def test_an_application_starts_at_the_committed_offsets_of_its_group(broker: Broker, log: KafkaLog, make: Make) -> None:
    log.create_topic("in", 2)
    produce(log, "a", "b", "c", partition=0)
    produce(log, "d", partition=1)
    log.commit_offsets("shop", {("in", 0): 2})
    app = copying(make(**{"auto.offset.reset": "none"}))
    with pytest.raises(SetupError, match="group 'shop' has no committed offset in partition 1 of topic 'in'"):
        run(app)
    log.commit_offsets("shop", {("in", 1): 0})
    run(app)
    assert sorted(written(broker)) == ["c", "d"]


def test_records_deleted_before_they_are_read_raise_an_error(broker: Broker, log: KafkaLog, make: Make) -> None:
    log.create_topic("in", 1)
    produce(log, "a")
    app = copying(make())
    run(app)
    produce(log, "b", "c")
    produce(log, "d")
    end = log.ends(["in"])["in"][0]
    log.delete_records({("in", 0): end - 2})
    with pytest.raises(OffsetOutOfRangeError, match="starts at offset 5: the records from 2 to 4 are deleted"):
        run(app)
    with InProcessRun(copying(make(**{"data.loss.handler": "continue"}))) as local:
        local.run()
        drops = [drop for result in local.results for drop in result.drops]
    assert written(broker) == ["a", "d"]
    assert [(drop.operator, drop.reason, drop.count) for drop in drops] == [("in", "lost", 3)]


def test_a_recreated_input_topic_raises_an_error(log: KafkaLog, make: Make) -> None:
    log.create_topic("in", 1)
    produce(log, "a", "b")
    run(copying(make()))
    log.delete_topic("in")
    log.create_topic("in", 1)
    with pytest.raises(OffsetOutOfRangeError, match="deleted and made anew") as caught:
        run(copying(make()))
    assert "millstream reset" in str(caught.value)


def test_records_that_are_too_large_or_too_far_in_the_future_are_refused(log: KafkaLog, make: Make) -> None:
    log.create_topic("in", 1)
    log.create_topic("out", 1, {"max.message.bytes": "1000"})
    produce(log, "".join(random.Random(7).choices(string.printable, k=3000)))
    with pytest.raises(RecordRefusedError, match="topic 'out'"):
        run(copying(make()))
    log.create_topic("late", 1)
    with pytest.raises(RecordRefusedError, match=r"topic 'late'.*timestamp"):
        log.produce("late", [ProducerRecord(b"k", b"v", NOW + 10 * 86_400_000)])


def test_the_production_handler_decides_on_records_that_are_too_large(
    broker: Broker, log: KafkaLog, make: Make
) -> None:
    log.create_topic("in", 1)
    produce(log, "a", "bbbb", "c")
    names = {"production.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "dead"}

    def grown(app: App) -> App:
        app.stream("in", key=str, value=str).map_values(lambda text: text * 300_000, value=str).to("out")
        return app

    with pytest.raises(ProductionError, match=r"a record of 1,200,001 bytes is too large for topic 'out'") as caught:
        run(grown(make()))
    assert "producer.message.max.bytes" in str(caught.value)
    run(grown(make(**names)))
    assert [len(value) for value in written(broker)] == [300_000, 300_000]
    (letter,) = independent.messages(broker.bootstrap_servers, "dead")
    assert (letter.key(), letter.value()) == (b"k", b"bbbb")
    assert dict(letter.headers() or [])["__streams.errors.offset"] == b"1"


def test_records_that_are_too_large_are_refused_before_the_commit(broker: Broker, log: KafkaLog, make: Make) -> None:
    """The size includes the parts that a producer adds to the value; a dead letter has no stack trace."""
    log.create_topic("in", 1)
    sizes = [900, 950, 990, 1_000]
    produce(log, *("x" * size for size in sizes))
    names = {"production.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "dead"}
    app = make(**names, **{"producer.message.max.bytes": 1_400})
    app.stream("in", key=str, value=str).map_values(lambda text: text + "x" * 400, value=str).to("out")
    run(app)
    lengths = [len(value) for value in written(broker)]
    letters = independent.messages(broker.bootstrap_servers, "dead")
    assert sorted(lengths + [len(letter.value() or b"") + 400 for letter in letters]) == [size + 400 for size in sizes]
    assert lengths
    assert letters
    assert all(dict(letter.headers() or [])["__streams.errors.stacktrace"] == b"" for letter in letters)


def test_records_within_a_batch_may_be_large(broker: Broker, log: KafkaLog, make: Make) -> None:
    log.create_topic("in", 1)
    produce(log, "x" * 5_000, "y")
    app = make(**{"producer.message.max.bytes": 2_000})
    app.stream("in", key=str, value=str).group_by(lambda _key, text: text[0], key=str).count().to_stream().to("out")
    run(app)
    assert len(independent.messages(broker.bootstrap_servers, "out")) == 2


def test_a_missing_input_topic_raises_an_error(log: KafkaLog, make: Make) -> None:
    log.create_topic("inn", 1)
    with pytest.raises(UnknownTopicError, match="there is no topic 'in'") as caught:
        run(copying(make()))
    assert "did you mean 'inn'" in str(caught.value)


def test_start_waits_for_an_unavailable_broker(tmp_path: Path, make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = copying(make(**{"bootstrap.servers": f"127.0.0.1:{port}", "default.api.timeout.ms": 500}))
    with pytest.raises(BrokerError, match=rf"the broker at 127\.0\.0\.1:{port} does not answer"):
        run(app)
    assert f"waiting for the Kafka broker at 127.0.0.1:{port}" in capsys.readouterr().err


@pytest.mark.parametrize("moment", [prepared_application.ACQUIRED, prepared_application.CREATED])
def test_start_waits_for_a_broker_that_becomes_silent(
    moment: str,
    broker: Broker,
    log: KafkaLog,
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log.create_topic("in", 1)
    produce(log, "a", "b")
    pid = broker.pid
    assert pid is not None
    passed = []

    def reach(point: str) -> None:
        passed.append(point)
        if point == moment and passed.count(point) == 1:
            os.kill(pid, signal.SIGSTOP)
            threading.Timer(4, lambda: os.kill(pid, signal.SIGCONT)).start()

    monkeypatch.setattr(prepared_application, "reach", reach)
    run(copying(make(**{"request.timeout.ms": 1_000})))
    assert written(broker) == ["a", "b"]
    assert passed.count(moment) > 1
    assert "does not answer" in (told := capsys.readouterr().err)
    assert "trying again" in told


def test_a_poison_record_becomes_a_dead_letter_in_the_transaction_of_its_batch(
    broker: Broker, log: KafkaLog, make: Make
) -> None:
    log.create_topic("in", 1)
    produce(log, "1", "two", "3")
    names = {"processing.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "dead"}
    app = make(**names)
    app.stream("in", key=str, value=str).map_values(lambda text: str(int(text)), value=str).to("out")
    run(app)
    assert written(broker) == ["1", "3"]
    (letter,) = independent.messages(broker.bootstrap_servers, "dead")
    facts = dict(letter.headers() or [])
    assert (letter.key(), letter.value()) == (b"k", b"two")
    assert facts["__streams.errors.topic"] == b"in"
    assert facts["__streams.errors.offset"] == b"1"


def test_a_later_instance_fences_the_earlier_one(broker: Broker, log: KafkaLog, make: Make, tmp_path: Path) -> None:
    log.create_topic("in", 1)
    produce(log, "a")
    with InProcessRun(copying(make())) as zombie:
        zombie.run()
        other = InProcessRunElsewhere(copying(make()), zombie)
        produce(log, "b")
        other.run()
        produce(log, "c")
        with pytest.raises(MillstreamError, match="another instance of application 'shop' has taken over"):
            zombie.run()
        other.run()
        other.close()
    assert written(broker) == ["a", "b", "c"]


class InProcessRunElsewhere(InProcessRun):
    """An instance on another machine, which has the checkpoint but not the lock."""

    def __init__(self, app: App, other: InProcessRun) -> None:
        other.application._lock.close()
        super().__init__(app)
