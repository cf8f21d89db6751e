"""Real-time execution on a cluster, with workers in this process: results, restarts, and views from changelogs."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.kafka import independent

from millstream import App, Materialized, contract, session, tumbling, value
from millstream.dev.broker import Broker
from millstream.errors import IncompatibleTopologyError, OffsetOutOfRangeError, SetupError
from millstream.log import ProducerRecord
from millstream.log.kafka import KafkaLog
from millstream.runtime.admin import migrate
from millstream.runtime.in_process.batches import InProcessRun
from millstream.runtime.real_time import publications
from millstream.runtime.real_time.publications import Publications
from millstream.runtime.real_time.task_record import read_offsets

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

Make = Callable[..., App]

WORDS = [f"w{number % 17}" for number in range(400)]


@pytest.fixture
def make(broker: Broker, tmp_path: Path) -> Make:
    """Makes an application on the cluster whose workers are threads."""

    def app(name: str = "shop", **config: Any) -> App:
        servers = {"bootstrap.servers": broker.bootstrap_servers, "execution.mode": "local", "num.workers": 2}
        return App(name, config={"state.dir": str(tmp_path / "data"), "status": "none", **servers, **config})

    return app


def count_words(app: App) -> App:
    """Words have an exchange: their key is not that of the line."""
    words = app.stream("lines", value=str)
    words.group_by(lambda word: word).count(store="counts").to_stream().to("word-counts")
    return app


def produce(log: KafkaLog, words: list[str], first: int = 0) -> None:
    log.produce("lines", [ProducerRecord(b"%d" % n, w.encode(), timestamp=first + n) for n, w in enumerate(words)])


def last_counts(broker: Broker) -> dict[str, int]:
    """The last count of each word, as a client reads it that knows only committed records."""
    found: dict[str, int] = {}
    for message in independent.messages(broker.bootstrap_servers, "word-counts"):
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        assert isinstance(value, bytes)
        found[key.decode()] = int.from_bytes(value, "big")
    return found


def test_results_are_exact_over_restarts_and_another_machine(
    log: KafkaLog, make: Make, broker: Broker, tmp_path: Path
) -> None:
    log.create_topic("lines", 4)
    produce(log, WORDS)
    count_words(make()).run(until_caught_up=True)
    assert last_counts(broker) == Counter(WORDS)
    produce(log, WORDS, 1000)
    app = count_words(make())
    app.run(until_caught_up=True)
    assert last_counts(broker) == Counter(WORDS + WORDS)
    assert app.store("counts").get("w3") == 2 * WORDS.count("w3")
    shutil.rmtree(tmp_path / "data")  # as on another machine: state and views come from changelogs
    produce(log, WORDS, 2000)
    app = count_words(make())
    app.run(until_caught_up=True)
    assert last_counts(broker) == Counter(WORDS * 3)
    assert app.store("counts").get("w3") == 3 * WORDS.count("w3")
    assert len(independent.messages(broker.bootstrap_servers, "word-counts")) == 3 * len(WORDS)


def test_views_follow_windows_sessions_versions_and_global_tables(log: KafkaLog, make: Make) -> None:
    for topic in ("clicks", "prices", "names"):
        log.create_topic(topic, 2)
    log.produce("clicks", [ProducerRecord(b"k", b"1", timestamp=time) for time in (1_000, 2_000, 70_000)])
    log.produce("prices", [ProducerRecord(b"p", b"1", timestamp=10), ProducerRecord(b"p", b"2", timestamp=20)])
    log.produce("names", [ProducerRecord(b"k", b'"Ann"', timestamp=5)])
    app = make()
    clicks = app.stream("clicks").group_by_key()
    clicks.windowed_by(tumbling("1m", grace="1m")).count(store="minutes")
    clicks.windowed_by(session("10s", grace="5m")).count(store="sessions")
    app.table("prices", store=Materialized("prices", history="1h"))
    app.global_table("names", store="names")
    app.run(until_caught_up=True)
    assert [app.store("minutes").fetch("k", start) for start in (0, 60_000)] == [2, 1]
    sessions = [(window.start, window.end, count) for window, count in app.store("sessions").fetch("k")]
    assert sessions == [(1_000, 2_000, 2), (70_000, 70_000, 1)]
    assert app.store("prices").get("p", as_of=15).value == 1
    assert app.store("prices").get("p").value == 2
    assert app.store("names").get("k") == "Ann"


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_other_guarantees_count_each_record_once_without_a_crash(
    log: KafkaLog, make: Make, broker: Broker, guarantee: str
) -> None:
    log.create_topic("lines", 4)
    for run in range(2):
        produce(log, WORDS, run * 1000)
        app = count_words(make(**{"processing.guarantee": guarantee}))
        app.run(until_caught_up=True)
    assert last_counts(broker) == Counter(WORDS + WORDS)
    assert len(independent.messages(broker.bootstrap_servers, "word-counts")) == 2 * len(WORDS)
    assert app.store("counts").get("w3") == 2 * WORDS.count("w3")


def test_a_topic_of_librdkafkas_default_partitioner_is_noticed(log: KafkaLog, make: Make, broker: Broker) -> None:
    log.create_topic("lines", 4)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number, word in enumerate(WORDS):
        producer.produce("lines", key=word, value=word, timestamp=number + 1)
    producer.flush()
    for mode in ("check", "repartition"):
        app = make(**{"input.partitioning": mode})
        app.stream("lines", value=str).group_by_key().count(store="counts").to_stream().to("word-counts")
        if mode == "check":
            with pytest.raises(SetupError, match="not partitioned by Kafka"):
                app.run(until_caught_up=True)
        else:
            app.run(until_caught_up=True)
    assert last_counts(broker) == Counter(WORDS)


def test_topics_that_come_to_match_a_pattern_and_new_partitions_are_read(
    log: KafkaLog, make: Make, broker: Broker
) -> None:
    def send(topic: str) -> None:
        records = enumerate(WORDS, 1)
        log.produce(topic, [ProducerRecord(b"%d" % n, word.encode(), timestamp=n) for n, word in records])

    log.create_topic("lines-a", 2)
    send("lines-a")
    app = make()
    lines = app.stream(pattern="lines-.*", value=str)
    lines.group_by(lambda word: word).count(store="counts").to_stream().to("word-counts")
    with app.start() as handle:
        wait(lambda: last_counts(broker) == Counter(WORDS))
        log.create_topic("lines-b", 3)
        send("lines-b")
        wait(lambda: last_counts(broker) == Counter(WORDS * 2))
        log.add_partitions("lines-a", 4)
        send("lines-a")
        wait(lambda: last_counts(broker) == Counter(WORDS * 3))
        assert handle.metrics()["sources"]["lines-b"]["lag"] == 0
    assert len(independent.messages(broker.bootstrap_servers, "word-counts")) == 3 * len(WORDS)


def test_global_tables_alone_are_read_to_their_ends(log: KafkaLog, make: Make) -> None:
    log.create_topic("names", 2)
    log.produce("names", [ProducerRecord(b"k%d" % n, b"%d" % n, timestamp=n + 1) for n in range(100)])
    app = make()
    app.global_table("names", key=str, value=str, store="names")
    app.run(until_caught_up=True)
    assert dict(app.store("names").all()) == {f"k{n}": str(n) for n in range(100)}


def test_violations_of_contracts_are_in_quarantine_once_and_not_in_views(
    log: KafkaLog, make: Make, broker: Broker
) -> None:
    rows = [b"1", b"-2", b"{", b"3", b"-4"]
    log.create_topic("rates", 2)
    log.create_topic("orders", 2)
    for n, row in enumerate(rows):
        log.produce("rates", [ProducerRecord(b"k%d" % n, row, timestamp=n + 1)])
        log.produce("orders", [ProducerRecord(b"k%d" % n, row, timestamp=n + 1)])
        app = make()
        positive = contract(value() > 0, on_violation="quarantine")
        app.global_table("rates", contract=positive, store="rates")
        app.stream("orders", contract=positive).to("checked")
        if n in {2, 4}:
            app.run(until_caught_up=True)
    assert dict(app.store("rates").all()) == {"k0": 1, "k3": 3}
    for topic in ("rates", "orders"):
        letters = [message.value() for message in independent.messages(broker.bootstrap_servers, f"{topic}-quarantine")]
        assert letters == [b"-2", b"{", b"-4"]


def test_a_migration_rebuilds_stores_from_changelogs(log: KafkaLog, make: Make, broker: Broker) -> None:
    def windowed(size: int) -> App:
        app = make()
        lines = app.stream("lines", value=str).group_by(lambda word: word)
        lines.count(store="counts").to_stream().to("word-counts")
        windows = lines.windowed_by(tumbling(size)).count()
        windows.to_stream(lambda key, _count: key.key).to("windows", key=str)
        return app

    log.create_topic("lines", 2)
    produce(log, WORDS, 1)
    windowed(10_000).run(until_caught_up=True)
    with pytest.raises(IncompatibleTopologyError, match="millstream migrate"):
        windowed(20_000).run(until_caught_up=True)
    steps = migrate(windowed(20_000))
    assert "the next start rebuilds store counts from shop-counts-changelog" in steps
    produce(log, WORDS, 1)
    app = windowed(20_000)
    app.run(until_caught_up=True)
    assert last_counts(broker) == Counter(WORDS * 2)
    assert app.store("counts").get("w3") == 2 * WORDS.count("w3")
    in_windows = [message.value() for message in independent.messages(broker.bootstrap_servers, "windows")]
    assert max(int.from_bytes(value, "big") for value in in_windows if isinstance(value, bytes)) == WORDS.count("w0")


def test_migrations_between_the_modes_lose_and_double_nothing(log: KafkaLog, make: Make, broker: Broker) -> None:
    def topology(mode: str) -> App:
        app = count_words(make(**{"execution.mode": mode}))
        lines = app.stream("lines", value=str, name="again")
        lines.group_by(lambda word: word).windowed_by(tumbling("1h")).count(store="hours")
        lines.map_values(str.upper).to("copies")
        return app

    log.create_topic("lines", 2)
    for part, mode in enumerate(("local", "micro_batch", "local", "micro_batch")):
        app = topology(mode)
        if part:
            migrate(app)
        produce(log, WORDS, 1000 * (part + 1))
        if mode == "local":
            app.run(until_caught_up=True)
        else:
            with InProcessRun(app) as batches:
                batches.run()
        assert last_counts(broker) == Counter(WORDS * (part + 1))
        assert len(independent.messages(broker.bootstrap_servers, "copies")) == len(WORDS) * (part + 1)
        assert topology(mode).store("counts").get("w3") == WORDS.count("w3") * (part + 1)
        assert topology(mode).store("hours").fetch("w3", 0) == WORDS.count("w3") * (part + 1)


def test_records_of_expired_windows_are_deleted_from_changelogs(
    log: KafkaLog, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publications, "_DELETE_EVERY", 0.0)
    log.create_topic("clicks", 1)
    app = make(**{"commit.interval.ms": 5, "num.workers": 1})
    app.stream("clicks").group_by_key().windowed_by(tumbling("1s", grace="1s")).count(store="seconds")
    changelog = "shop-seconds-changelog"
    with app.start() as handle:
        for number in range(200):
            log.produce("clicks", [ProducerRecord(b"k", b"1", timestamp=(number + 1) * 10_000)])
            wait(lambda count=number: handle.metrics()["sources"]["clicks"]["read"] > count)  # type: ignore[misc]
            if log.starts([changelog])[changelog] > [0]:
                break
        else:
            raise AssertionError("nothing was deleted")
    assert app.store("seconds").fetch("k", (number + 1) * 10_000) == 1


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_lost_records_stop_the_application_or_are_counted(log: KafkaLog, make: Make, broker: Broker) -> None:
    log.create_topic("lines", 2)
    produce(log, WORDS)
    count_words(make()).run(until_caught_up=True)
    before = log.ends(["lines"])["lines"]
    produce(log, WORDS, 1000)
    remaining = [end - 10 for end in log.ends(["lines"])["lines"]]
    log.delete_records({("lines", number): first for number, first in enumerate(remaining)})
    with pytest.raises(OffsetOutOfRangeError):
        count_words(make()).run(until_caught_up=True)
    handle = count_words(make(**{"data.loss.handler": "continue"})).start(until_caught_up=True)
    handle.wait()
    lost = sum(first - end for first, end in zip(remaining, before, strict=True))
    assert sum(handle.metrics()["dropped"].values()) == lost
    assert sum(last_counts(broker).values()) == 2 * len(WORDS) - lost


def test_the_offsets_of_the_group_reach_the_end_of_an_idle_topic(log: KafkaLog, make: Make) -> None:
    log.create_topic("lines", 2)
    with count_words(make()).start():
        for first in range(0, 3000, 1000):  # publications without group offsets follow one with them
            produce(log, WORDS, first)
            ends = {("lines", number): end for number, end in enumerate(log.ends(["lines"])["lines"])}
            wait(lambda: log.committed("shop").items() >= ends.items())  # noqa: B023  (called in this iteration)


def copy_lines(app: App) -> App:
    """A topology without exchanges and without state."""
    app.stream("lines", value=str).map_values(str.upper).to("copies")
    return app


def ends_of(log: KafkaLog, topic: str) -> dict[tuple[str, int], int]:
    return {(topic, number): end for number, end in enumerate(log.ends([topic], committed=False)[topic])}


@pytest.mark.parametrize(
    ("guarantee", "topology"),
    [
        ("exactly_once", copy_lines),
        ("exactly_once", count_words),
        ("at_least_once", copy_lines),
        ("at_most_once", count_words),
    ],
)
def test_nothing_lags_behind_the_control_records_of_transactions(
    log: KafkaLog,
    make: Make,
    broker: Broker,
    guarantee: str,
    topology: Callable[[App], App],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither of committed transactions nor of aborted ones; the task records and the metrics have the same offsets."""
    monkeypatch.setattr(publications, "_GROUP_OFFSETS_EVERY", 0.1)
    log.create_topic("lines", 2)
    options = {"processing.guarantee": guarantee}
    with topology(make(**options)).start() as handle:
        for first in (0, 1000):
            produce(log, WORDS, first)
            abort(broker, "lines")
            wait(lambda: log.committed("shop").items() >= ends_of(log, "lines").items())
        wait(lambda: not any(source["lag"] for source in handle.metrics()["sources"].values()))
    assert read_offsets(log, "shop").items() >= ends_of(log, "lines").items()
    produce(log, WORDS, 2000)
    abort(broker, "lines")
    topology(make(**options)).run(until_caught_up=True)
    assert log.committed("shop").items() >= ends_of(log, "lines").items()
    topic = "copies" if topology is copy_lines else "word-counts"
    assert len(independent.messages(broker.bootstrap_servers, topic)) == 3 * len(WORDS)


def abort(broker: Broker, topic: str) -> None:
    """Writes a transaction to the first partition that is aborted."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "aborts"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value=b"never", partition=0)
    producer.flush(30)
    producer.abort_transaction(30)


def test_no_offset_passes_records_that_are_read_and_not_taken(
    log: KafkaLog, make: Make, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position is behind the control records meanwhile."""
    log.create_topic("lines", 2)
    produce(log, WORDS)
    ends = ends_of(log, "lines")
    held, released = Event(), Event()
    may_take = Publications.may_take
    steps = count()

    def hold(publications: Publications) -> bool:
        positions = [(key, task.next_offset(key)) for task in publications._rounds.running() for key in task.direct]
        if all(ends[key] == offset for key, offset in positions) and next(steps) == 20:  # group offsets are due in each
            held.set()
        return released.is_set() and may_take(publications)

    monkeypatch.setattr(Publications, "may_take", hold)
    monkeypatch.setattr(publications, "_GROUP_OFFSETS_EVERY", 0.0)
    with copy_lines(make(**{"num.workers": 1, "commit.interval.ms": 5})).start():
        assert held.wait(60)
        for offsets in (log.committed("shop"), read_offsets(log, "shop")):
            assert {offset for (topic, _), offset in offsets.items() if topic == "lines"} <= {0}
        released.set()
        wait(lambda: log.committed("shop").items() >= ends.items())
    assert len(independent.messages(broker.bootstrap_servers, "copies")) == len(WORDS)
