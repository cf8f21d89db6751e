"""Commands on a cluster: the same as on the embedded log, and the errors of a cluster."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.cli.conftest import Result, Run, checked, run_in
from tests.kafka import independent
from tests.kafka.conftest import running
from tests.kafka.opening import open_kafka_log

from millstream import App
from millstream.cli import log_access
from millstream.cli.main import main
from millstream.dev.broker import Broker
from millstream.errors import BrokerError, FencedError
from millstream.log import ProducerRecord, Scope
from millstream.log.kafka import KafkaLog, health
from millstream.log.kafka.release import release_of
from millstream.runtime.admin import application_reset, steps
from millstream.runtime.in_process.batches import InProcessRun
from millstream.runtime.start.instance_lock import lock_application

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

NOW = int(time.time() * 1000)
QUICKLY = 20.0
"""Seconds: thirteen for the broker, and the rest for a process to start and end on a busy machine."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def command(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process, without settings of a cluster."""
    for name in ("MILLSTREAM_DEBUG", "MILLSTREAM_PROFILE", "MILLSTREAM_CONFIG", "MILLSTREAM_BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MILLSTREAM_DATA", str(data))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, given: str = "") -> Result:
        stdin = tmp_path / "stdin"
        stdin.write_text(given, encoding="utf-8")
        with stdin.open() as opened, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", opened)
            code = main(arguments)
        return checked(Result(code, *capsys.readouterr()))

    return run


@pytest.fixture
def millstream(command: Run, log: KafkaLog, broker: Broker) -> Run:
    """Runs a command on the cluster, and checks its exit code."""

    def run(*arguments: str, given: str = "", code: int = 0) -> Result:
        result = command(*arguments, "-b", broker.bootstrap_servers, given=given)
        assert result.code == code, result
        return result

    return run


def counting(servers: str, data: Path, name: str = "shop") -> App:
    app = App(name, config={"state.dir": str(data), "status": "none", "bootstrap.servers": servers})
    counts = app.stream("in", key=str, value=str).group_by_key().count(store="counts")
    counts.to_stream().map_values(str, value=str).to("out")
    return app


def run_once(app: App) -> None:
    with InProcessRun(app) as local:
        local.run()


@pytest.fixture
def shop(log: KafkaLog, broker: Broker, data: Path) -> App:
    """An application that has run on the cluster; the records k, k, q are counted."""
    log.create_topic("in", 2)
    log.create_topic("out", 1)
    log.produce("in", [ProducerRecord(key, b"v", NOW) for key in (b"k", b"k", b"q")])
    app = counting(broker.bootstrap_servers, data)
    run_once(app)
    return counting(broker.bootstrap_servers, data)


# ----- topics ----------------------------------------------------------------------------------------------------


def test_topics_are_created_described_and_deleted(millstream: Run, log: KafkaLog) -> None:
    options = ("-c", "cleanup.policy=compact", "-c", "retention.ms=60000", "-c", "replication.factor=1")
    assert millstream("topics", "create", "prices", "-p", "3", *options).err == "topic prices has 3 partitions\n"
    assert log.topic("prices").partitions == 3
    log.produce("prices", [ProducerRecord(b"tea", b"3")], partition=1)
    topic = json.loads(millstream("topics", "describe", "prices", "-o", "json").out)
    assert topic["config"] == {"cleanup.policy": "compact", "retention.ms": "60000"}
    assert [part["start"] for part in topic["partitions"]] == [0, 0, 0]
    assert topic["partitions"][1]["end"] > 0
    assert {part["size"] for part in topic["partitions"]} == {None}
    assert millstream("topics", "describe", "prices").out.splitlines()[-1].split()[-1] == "-"

    (row,) = millstream("topics", "list", "-o", "json").lines
    assert (row["name"], row["partitions"], row["size"], row["internal"]) == ("prices", 3, None, False)
    assert millstream("topics", "list").out.splitlines()[1].split()[3:] == ["-", "no"]

    compacted = millstream("topics", "compact", "prices")
    assert compacted.out == ""
    assert re.fullmatch(r"prices: nothing was done; the brokers .* compact topics themselves.*\n", compacted.err)
    (removed,) = millstream("topics", "compact", "prices", "-o", "json").lines
    assert removed == {"topic": "prices", "removed_records": 0, "removed_bytes": 0}

    assert "add --yes" in millstream("topics", "delete", "prices", code=1).err
    assert millstream("topics", "delete", "prices", "--yes").err == "topic prices is deleted\n"
    assert millstream("topics", "list").err == "there are no topics\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("create in", "topic 'in' exists already"),
        ("create new -c replication.factor=3", "topic 'new': "),
        ("create new -c replication.factor=many", "replication.factor: 'many' is not a whole number"),
        ("create new -c cleanup.policy=shred", "topic 'new': "),
        ("create new -c no.such.key=1", "topic 'new': "),
        ("create a/b", "topic name 'a/b' "),
        ("describe im", "there is no topic 'im'"),
        ("delete im --yes", "there is no topic 'im'"),
        ("compact im", "there is no topic 'im'"),
    ],
)
def test_invalid_topics_are_refused(millstream: Run, log: KafkaLog, options: str, message: str) -> None:
    log.create_topic("in", 1)
    result = millstream("topics", *options.split(), code=1)
    assert result.err.startswith(f"error: {message}"), result.err
    assert len(result.err.splitlines()) <= 2
    assert [topic.name for topic in log.topics()] == ["in"]


def test_an_existing_topic_is_left_unchanged(millstream: Run, log: KafkaLog) -> None:
    log.create_topic("in", 2)
    assert "has 2 partitions" in millstream("topics", "create", "in", "--if-not-exists").err


# ----- records ---------------------------------------------------------------------------------------------------


def test_records_are_written_and_read(millstream: Run, log: KafkaLog, broker: Broker) -> None:
    log.create_topic("in", 1)
    rows = [{"key": f"k{n}", "value": f"v{n}", "timestamp": NOW + n, "headers": [["h", str(n)]]} for n in range(3)]
    given = "".join(f"{json.dumps(row)}\n" for row in rows)
    assert "3 records written to in" in millstream("produce", "in", "--format", "json", given=given).err
    seen = independent.messages(broker.bootstrap_servers, "in")
    assert [(message.key(), message.value(), message.timestamp()[1]) for message in seen] == [
        (f"k{n}".encode(), f"v{n}".encode(), NOW + n) for n in range(3)
    ]
    assert millstream("consume", "in", "--from-beginning").out == "k0\tv0\nk1\tv1\nk2\tv2\n"
    read = millstream("consume", "in", "--from-beginning", "-o", "json").lines
    assert [{key: row[key] for key in rows[0]} for row in read] == rows
    assert millstream("consume", "in", "--offset", "1", "-n", "1").out == "k1\tv1\n"
    assert millstream("consume", "in", "--timestamp", str(NOW + 2)).out == "k2\tv2\n"
    assert millstream("consume", "in", "--timestamp", str(NOW + 9)).out == ""


def test_avro_is_written_and_decoded_by_its_id(
    millstream: Run, log: KafkaLog, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MILLSTREAM_SCHEMA_REGISTRY_URL", raising=False)
    log.create_topic("orders", 1)
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    (tmp_path / "order.avsc").write_text(json.dumps(schema), encoding="utf-8")
    millstream("produce", "orders", "--value", "avro", "--schema", "order.avsc", given='{"id": 7}\n')
    with closing(Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "theirs"})) as consumer:
        consumer.assign([TopicPartition("orders", 0, 0)])
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == b"\x00\x00\x00\x00\x01\x0e"
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("orders", value=b"\x00\x00\x00\x00\x01\x10", partition=0)
    producer.flush()
    assert millstream("consume", "orders", "--from-beginning").out == 'null\t{"id": 7}\nnull\t{"id": 8}\n'


def test_last_shows_the_last_records(millstream: Run, log: KafkaLog) -> None:
    log.create_topic("in", 1)
    for number in range(4):
        log.produce("in", [ProducerRecord(b"k", f"v{number}".encode())])
    assert millstream("consume", "in", "--offset", "-2").out == "k\tv2\nk\tv3\n"


def test_a_group_continues_at_its_committed_offsets(millstream: Run, log: KafkaLog) -> None:
    log.create_topic("in", 1)
    log.produce("in", [ProducerRecord(b"k", value) for value in (b"a", b"b", b"c")])
    assert millstream("consume", "in", "-g", "checks", "--from-beginning", "-n", "2").out == "k\ta\nk\tb\n"
    assert log.committed("checks") == {("in", 0): 2}
    assert millstream("consume", "in", "-g", "checks", "-n", "5").out == "k\tc\n"
    assert millstream("consume", "in", "-g", "checks").out == ""


def test_follow_waits_for_new_records(log: KafkaLog, millstream: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create_topic("in", 1)
    wait = KafkaLog.wait

    def arrive(self: KafkaLog, positions: Any, timeout: float) -> bool:
        log.produce("in", [ProducerRecord(b"k", b"new")])
        return wait(self, positions, timeout)

    monkeypatch.setattr(KafkaLog, "wait", arrive)
    assert millstream("consume", "in", "--follow", "--max-records", "1").out == "k\tnew\n"


def test_a_refused_record_is_reported(millstream: Run, log: KafkaLog) -> None:
    log.create_topic("in", 1, {"cleanup.policy": "compact"})
    result = millstream("produce", "in", given="no key\n", code=1)
    assert result.err.startswith("error: ")
    assert len(result.err.splitlines()) <= 2


def test_a_broker_that_stops_during_a_wait_is_reported_as_unavailable(tmp_path: Path) -> None:
    with (
        running(Broker(tmp_path / "broker")) as own,
        open_kafka_log({"bootstrap.servers": own.bootstrap_servers}, tmp_path / "data", timeout=5) as log,
    ):
        log.create_topic("in", 1)
        stopping = threading.Thread(target=own.stop)
        stopping.start()
        try:
            with pytest.raises(BrokerError, match="does not answer"):
                log.wait({("in", 0): 1}, 60)  # first, partitions have no leaders
        finally:
            stopping.join()


# ----- groups ----------------------------------------------------------------------------------------------------


def test_groups_of_all_clients_are_listed(millstream: Run, log: KafkaLog, broker: Broker, shop: App) -> None:
    log.produce("in", [ProducerRecord(b"k", b"v", NOW)])
    strange = "team a: nightly/export"
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": strange})
    with closing(consumer):
        consumer.commit(offsets=[TopicPartition("out", 0, 1)], asynchronous=False)
    rows = {row["group"]: row for row in millstream("groups", "list", "-o", "json").lines}
    lag = rows["shop"].pop("lag")
    assert rows["shop"] == {"group": "shop", "type": "application", "topics": ["in"]}
    assert 1 <= lag <= 2  # the control record of the transaction also has an offset
    assert rows[strange]["type"] == "consumer"
    assert rows[strange]["topics"] == ["out"]
    assert rows[strange]["lag"] > 0
    (row,) = millstream("groups", "describe", strange, "-o", "json").lines
    assert (row["topic"], row["partition"], row["offset"]) == ("out", 0, 1)
    described = millstream("groups", "describe", "shop").out
    assert described.startswith("application shop, last batch 0\n")
    assert sum(row["lag"] for row in millstream("groups", "describe", "shop", "-o", "json").lines) == lag
    run_once(shop)
    assert sum(row["lag"] for row in millstream("groups", "describe", "shop", "-o", "json").lines) == 0
    assert "did you mean 'shop'" in millstream("groups", "describe", "shopp", code=1).err


def test_a_group_with_members_and_one_of_a_deleted_topic(millstream: Run, log: KafkaLog, broker: Broker) -> None:
    log.create_topic("in", 1)
    log.create_topic("gone", 1)
    log.commit_offsets("checks", {("in", 0): 0, ("gone", 0): 0})
    log.delete_topic("gone")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "live", "auto.offset.reset": "earliest"}
    with closing(Producer({"bootstrap.servers": broker.bootstrap_servers})) as producer:
        producer.produce("in", b"v")
        producer.flush()
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe(["in"])
        while consumer.poll(0.1) is None:
            pass
        consumer.commit(asynchronous=False)
        rows = {row["group"]: (row["topics"], row["lag"]) for row in millstream("groups", "list", "-o", "json").lines}
    assert rows == {"checks": (["in"], 1), "live": (["in"], 0)}


# ----- applications ----------------------------------------------------------------------------------------------


def test_stores_are_read(millstream: Run, shop: App) -> None:
    (row,) = millstream("stores", "list", "shop", "-o", "json").lines
    assert (row["store"], row["kind"], row["key"], row["value"]) == ("counts", "key-value", "string", "long")
    (row,) = millstream("stores", "get", "shop", "counts", "k", "-o", "json").lines
    assert (row["key"], row["value"]) == ("k", 2)
    rows = millstream("stores", "scan", "shop", "counts", "-o", "json").lines
    assert {row["key"]: row["value"] for row in rows} == {"k": 2, "q": 1}
    assert "there is no application 'shopp' here" in millstream("stores", "list", "shopp", code=1).err


def test_stores_of_an_application_on_another_machine(
    millstream: Run, shop: App, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MILLSTREAM_DATA", str(tmp_path / "elsewhere"))
    for arguments in (["list", "shop"], ["get", "shop", "counts", "k"], ["scan", "shop", "counts"]):
        error, hint = millstream("stores", *arguments, code=1).err.splitlines()
        assert error == f"error: the stores of application 'shop' are not in {tmp_path / 'elsewhere'}"
        assert hint.startswith("hint: stores are read on the machine where the application runs")
    assert not (tmp_path / "elsewhere").exists()


SHOP = """
from millstream import App

app = App("shop")
counts = app.stream("in", key=str, value=str).group_by_key().count(store="{store}")
counts.to_stream().map_values(str, value=str).to("out")
"""


def test_a_topology_is_compared_with_the_one_that_ran(millstream: Run, shop: App, tmp_path: Path) -> None:
    path = tmp_path / "shop.py"
    path.write_text(SHOP.format(store="counts"), encoding="utf-8")
    (difference,) = millstream("plan-diff", str(path), "-o", "json").lines
    assert (difference["compatible"], difference["first_run"]) == (True, False)
    assert [store["status"] for store in difference["stores"]] == ["kept"]
    path.write_text(SHOP.format(store="totals"), encoding="utf-8")
    assert "lost" in millstream("plan-diff", str(path), code=4).out


def test_a_reset_lists_its_steps_and_executes_them(
    millstream: Run, shop: App, log: KafkaLog, broker: Broker, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application_reset, "_LOOK_SECONDS", 0.0)
    plan = millstream("reset", "shop").out
    assert plan.splitlines() == [
        "shop: steps",
        "  - delete the internal topic shop-counts-changelog",
        "  - delete its journal, the topic shop-progress, and its committed offsets",
        f"  - delete its views in {data / 'views.db'}",
        "  - shut out an instance of it that runs on another machine, if there is one: it stops",
        f"  - delete the checkpoint {data / 'applications' / 'shop' / 'checkpoint'}",
        "  - begin to read at the earliest",
    ]
    assert {topic.name for topic in log.topics()} >= {"shop-counts-changelog", "shop-progress"}
    with lock_application(data / "applications" / "shop", "shop"):
        refused = millstream("reset", "shop", "--execute", "--yes", code=1)
    assert refused.err.startswith("error: application 'shop' is running already (process ")

    done = millstream("reset", "shop", "--execute", "--yes").out.splitlines()
    assert done[:2] == ["shop: done", "  - deleted the internal topic shop-counts-changelog"]
    assert done[-1] == "  - the next start begins to read at the earliest"
    assert "shop-counts-changelog" not in {topic.name for topic in log.topics()}
    assert "shop" not in log.groups()
    assert log.applications.published(Scope("shop")) is None
    assert "has no store 'counts'" in millstream("stores", "get", "shop", "counts", "k", code=1).err
    run_once(shop)
    values = [message.value() or b"" for message in independent.messages(broker.bootstrap_servers, "out")]
    assert sorted(values) == sorted([b"1", b"2", b"1"] * 2)
    assert millstream("stores", "get", "shop", "counts", "k", "-o", "json").lines[0]["value"] == 2


def test_a_reset_keeps_an_application_with_the_same_name_prefix(
    millstream: Run, shop: App, log: KafkaLog, broker: Broker, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application_reset, "_LOOK_SECONDS", 0.0)
    run_once(counting(broker.bootstrap_servers, data, "shop-eu"))
    millstream("reset", "shop", "--execute", "--yes")
    names = {topic.name for topic in log.topics()}
    assert {"shop-eu-counts-changelog", "shop-eu-progress"} <= names
    assert millstream("stores", "get", "shop-eu", "counts", "k", "-o", "json").lines[0]["value"] == 2


def test_a_reset_is_refused_while_an_instance_on_another_machine_publishes(
    millstream: Run, shop: App, log: KafkaLog, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with InProcessRun(counting(broker.bootstrap_servers, tmp_path / "elsewhere")) as local:

        def publish(_seconds: float) -> None:
            log.produce("in", [ProducerRecord(b"k", b"v", NOW)])
            local.run()

        monkeypatch.setattr(application_reset, "time", SimpleNamespace(sleep=publish))
        refused = millstream("reset", "shop", "--execute", "--yes", code=1)
        message = r"error: application 'shop' is running elsewhere: it has just published batch \d+\nhint: stop that "
        assert re.search(message, refused.err)
        log.produce("in", [ProducerRecord(b"k", b"v", NOW)])
        assert local.run() == 1


def test_a_reset_fences_an_idle_instance_on_another_machine(
    millstream: Run, shop: App, log: KafkaLog, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application_reset, "_LOOK_SECONDS", 0.0)
    app = App("copy", config={"state.dir": str(tmp_path / "elsewhere"), "bootstrap.servers": broker.bootstrap_servers})
    app.stream("in", key=str, value=str).to("copied")
    for _start in range(3):  # so that several epochs precede the reset
        run_once(app)
    with InProcessRun(app) as local:
        log.produce("in", [ProducerRecord(b"k", b"v", NOW)])
        monkeypatch.setattr(steps, "shutil", SimpleNamespace(rmtree=lambda _path: None))  # no file of another machine
        millstream("reset", "copy", "--execute", "--yes")
        with pytest.raises(FencedError, match="another instance of application 'copy' has taken over"):
            local.run()
        assert log.applications.published(Scope("copy")) is None
        assert len(independent.messages(broker.bootstrap_servers, "copied")) == 3


def test_dead_letters_are_listed_and_replayed(millstream: Run, log: KafkaLog, broker: Broker, data: Path) -> None:
    log.create_topic("in", 1)
    log.produce("in", [ProducerRecord(b"k", value, NOW) for value in (b"1", b"x", b"2")])
    dead = {"errors.dead.letter.queue.topic.name": "dead", "processing.exception.handler": "continue"}
    servers = {"bootstrap.servers": broker.bootstrap_servers, "state.dir": str(data), "status": "none"}
    app = App("shop", config={**servers, **dead})
    app.stream("in", key=str, value=str).map_values(lambda value: str(int(value)), value=str).to("out")
    run_once(app)
    (row,) = millstream("dlq", "list", "-o", "json").lines
    assert row["topic"] == "dead"
    (letter,) = millstream("dlq", "list", "dead", "-o", "json").lines
    assert "ValueError" in letter["exception"]
    assert "nothing was done; add --execute" in millstream("dlq", "replay", "dead").err
    millstream("dlq", "replay", "dead", "--execute", "--yes")
    millstream("dlq", "replay", "dead", "--execute", "--yes")
    values = [message.value() for message in independent.messages(broker.bootstrap_servers, "in")]
    assert values == [b"1", b"x", b"2", b"x"]


# ----- addresses of a cluster ------------------------------------------------------------------------------------


@pytest.fixture
def profiles(tmp_path: Path) -> Callable[[str], Path]:
    """Writes millstream.toml."""

    def write(text: str) -> Path:
        path = tmp_path / "millstream.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_cluster_is_named_by_option_environment_or_profile(
    command: Run,
    log: KafkaLog,
    broker: Broker,
    profiles: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    data: Path,
) -> None:
    log.create_topic("here", 1)
    path = profiles(
        """
        [profiles.test]
        bootstrap_servers = "${env:WHERE}"
        sasl.password = "${env:SECRET}"
        [profiles.other]
        "bootstrap.servers" = "127.0.0.1:1"
        security.protocol = "SASL_SSL"
        "sasl.mechanism" = "PLAIN"
        """
    )
    monkeypatch.setenv("WHERE", broker.bootstrap_servers)
    monkeypatch.setenv("SECRET", "hunter2")
    here = '{"name": "here"'
    assert command("topics", "list", "-o", "json", "--profile", "test").out.startswith(here)
    monkeypatch.setenv("MILLSTREAM_PROFILE", "other")  # of two profiles, one counts
    assert command("topics", "list", "-o", "json", "--profile", "test").out.startswith(here)
    monkeypatch.setenv("MILLSTREAM_PROFILE", "test")
    assert command("topics", "list", "-o", "json").out.startswith(here)
    path.rename(tmp_path / "elsewhere.toml")
    assert command("topics", "list").err.startswith("error: profile 'test': millstream.toml cannot be read: No such")
    monkeypatch.setenv("MILLSTREAM_CONFIG", str(tmp_path / "elsewhere.toml"))
    assert command("topics", "list", "-o", "json").out.startswith(here)
    monkeypatch.delenv("MILLSTREAM_PROFILE")
    assert command("topics", "list").err.startswith("error: there is no data directory ")
    monkeypatch.setenv("MILLSTREAM_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    assert command("topics", "list", "-o", "json").out.startswith(here)
    assert command("topics", "list", "-o", "json", "-b", broker.bootstrap_servers).out.startswith(here)
    assert not (data / "log.db").exists()


GOOD = '[profiles.test]\n"bootstrap.servers" = "127.0.0.1:1"\n'
TYPO = '[profiles.test]\n"bootstrap.server" = "127.0.0.1:1"'
FILE = "millstream.toml"
WRONG = [
    (GOOD, "--profile tset", f"{FILE} has no profile 'tset'\nhint: did you mean 'test'?"),
    (GOOD, "--profile x", f"{FILE} has no profile 'x'\nhint: it has: test"),
    ("profiles = 3", "--profile x", f"{FILE} has no profile 'x'\nhint: it has: none"),
    ("[profiles.test", "--profile test", f"{FILE} is not TOML: "),
    (
        f'{GOOD}sasl.password = "${{env:NO_SUCH}}"',
        "--profile test",
        f"{FILE}, profile 'test': sasl.password: there is no environment variable NO_SUCH",
    ),
    (
        TYPO,
        "--profile test",
        f"{FILE}, profile 'test': unknown configuration key 'bootstrap.server'\nhint: did you mean 'bootstrap.servers'",
    ),
    ('[profiles.test]\n"client.id" = "x"', "--profile test", f"{FILE}, profile 'test': bootstrap.servers is missing"),
    (GOOD, "-b nowhere", "bootstrap.servers: 'nowhere' is not a list of servers\nhint: write host:port"),
]


@pytest.mark.parametrize(("text", "arguments", "message"), WRONG)
def test_errors_in_a_profile_are_reported_in_one_line(
    command: Run, profiles: Callable[[str], Path], text: str, arguments: str, message: str
) -> None:
    profiles(text)
    for name in ("topics list", "groups list", "reset shop", "stores list shop", "consume in", "dlq list"):
        result = command(*name.split(), *arguments.split())
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith(f"error: {message}")
        assert len(result.err.splitlines()) <= 2


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a listener that never responds."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("name", ["topics list", "groups list", "reset shop", "produce in", "stores list shop"])
def test_commands_wait_for_an_unavailable_broker_and_report_it(
    command: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_access, "_CONNECT_SECONDS", 0.5)
    result = command(*name.split(), "-b", "127.0.0.1:1")
    waiting, error, *hint = result.err.splitlines()
    assert (result.code, waiting) == (1, "waiting for the Kafka broker at 127.0.0.1:1")
    assert error.startswith(
        "error: the cluster cannot be reached: the broker at 127.0.0.1:1 does not answer (Connect to "
    )
    assert hint == ["hint: is it running, and is that its address?"]


def test_a_silent_broker_is_reported_by_a_process(silent: str, data: Path) -> None:
    began = time.monotonic()
    result = run_in(data)("topics", "list", "-b", silent)
    assert time.monotonic() - began < QUICKLY
    waiting, error, *_hint = result.err.splitlines()
    assert (result.code, waiting) == (1, f"waiting for the Kafka broker at {silent}")
    assert error.startswith("error: the cluster cannot be reached: ")
    assert len(result.err.splitlines()) <= 3


def test_dev_commands_accept_no_bootstrap_servers(command: Run) -> None:
    assert "No such option" in command("dev", "kafka", "status", "-b", "127.0.0.1:1").err


# ----- the doctor ------------------------------------------------------------------------------------------------


def checks_by_name(result: Result) -> dict[str, list[dict[str, Any]]]:
    """Returns the checks of `doctor` on a cluster, by name."""
    checks: dict[str, list[dict[str, Any]]] = {}
    for check in result.lines:
        checks.setdefault(check["name"], []).append(check)
    return checks


def test_doctor_reports_a_healthy_cluster(command: Run, log: KafkaLog, broker: Broker, shop: App) -> None:
    result = command("doctor", "-b", broker.bootstrap_servers, "-o", "json")
    checks = checks_by_name(result)
    assert "log" not in checks
    names = ["confluent-kafka", "cluster", "brokers", "release", "authentication", "authorisation", "topics"]
    assert [checks[name][0]["status"] for name in names] == ["ok"] * 7
    assert checks["release"][0]["found"] == "Kafka 4.1 or later"
    assert re.fullmatch(r"[\d.]+, with librdkafka [\d.]+", checks["confluent-kafka"][0]["found"])
    assert re.fullmatch(r"1 broker, controller \d+, cluster id \S+", checks["cluster"][0]["found"])
    assert checks["authentication"][0]["found"] == "PLAINTEXT"
    assert checks["authorisation"][0]["found"] == "topics that are visible to the user: 4"


def test_doctor_compares_clocks_with_probe(
    command: Run, log: KafkaLog, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [topic.name for topic in log.topics()]
    (clock,) = checks_by_name(command("doctor", "-b", broker.bootstrap_servers, "--probe", "-o", "json"))["clock"]
    assert (clock["status"], clock["found"][:9]) == ("ok", "less than")
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 90)
    (clock,) = checks_by_name(command("doctor", "-b", broker.bootstrap_servers, "--probe", "-o", "json"))["clock"]
    assert clock["status"] == "warn"
    assert re.fullmatch(r"that of the brokers is [89]\d\.\d s behind the local one", clock["found"])
    assert [topic.name for topic in log.topics()] == before


@pytest.mark.parametrize(
    ("requests", "release"),
    [({0: 13, 65: 0}, "4.1"), ({0: 9, 60: 0, 65: 0}, "3.0"), ({0: 9, 60: 0}, "2.8"), ({0: 8}, None)],
)
def test_the_release_follows_from_the_request_versions(requests: dict[int, int], release: str | None) -> None:
    assert release_of(requests) == release


def test_doctor_warns_of_harmful_settings(command: Run, log: KafkaLog, broker: Broker) -> None:
    for name in ("a", "b", "c", "d"):
        log.create_topic(name, 1, {"min.insync.replicas": "2"})
    log.create_topic("shop-counts-changelog", 1, {"cleanup.policy": "delete"})
    log.create_topic("shop-by-repartition", 1, {"retention.ms": "1000"})
    result = command("doctor", "-b", broker.bootstrap_servers)
    begin = result.out.index("warn  topics: ")
    assert result.out[begin:].splitlines() == [
        "warn  topics: a, b, c and 1 more: min.insync.replicas is above the number of replicas: nothing can be written",
        "      fix: lower min.insync.replicas of the topic, or give it more replicas",
        "warn  topics: shop-counts-changelog: it holds state, and is not compacted: retention deletes the state",
        "      fix: cleanup.policy=compact",
        "warn  topics: shop-by-repartition: records may be deleted before they are read",
        "      fix: retention.ms=-1; the application deletes records that it has read",
        "ok    retention: topics keep their records without limit",
    ]


def test_doctor_warns_of_records_that_retention_deletes_unread(millstream: Run, log: KafkaLog, shop: App) -> None:
    def reports() -> list[tuple[str, str]]:
        checks = checks_by_name(millstream("doctor", "-o", "json"))["retention"]
        return [(check["status"], check["found"]) for check in checks]

    assert reports() == [("ok", "topics keep their records without limit")]
    week = ("-c", f"retention.ms={7 * 24 * 3_600_000}")
    millstream("topics", "alter", "in", *week)
    millstream("topics", "create", "old", *week)
    log.produce("old", [ProducerRecord(b"k", b"v", 1_000)] * 3)
    (unread,) = [text for status, text in reports() if status == "warn"]
    assert unread == (
        "old: 3 records can be deleted at any moment, and no application has read them; "
        "it keeps records for 7d by their timestamps, read or not"
    )
    log.commit_offsets("checks", {("old", 0): 1})
    (behind,) = [text for status, text in reports() if status == "warn"]
    assert behind.startswith("old: group 'checks' has not read 2 records that can be deleted soon; it keeps ")
    millstream("topics", "alter", "old", "-c", "retention.ms=-1")
    ((status, text),) = reports()
    assert (status, text.split(": ")[1]) == ("ok", "in keeps records for 7d by their timestamps")


def test_doctor_reports_an_unavailable_or_unknown_cluster(
    command: Run, profiles: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_PATIENCE", 0.5)
    result = command("doctor", "-b", "127.0.0.1:1", "-o", "json")
    assert result.code == 1
    (cluster,) = checks_by_name(result)["cluster"]
    assert cluster["status"] == "fail"
    assert "the broker at 127.0.0.1:1 does not answer" in cluster["found"]
    assert cluster["fix"] == "is it running, and is that its address?"
    profiles(GOOD)
    monkeypatch.setenv("MILLSTREAM_PROFILE", "tset")
    (cluster,) = checks_by_name(command("doctor", "-o", "json"))["cluster"]
    assert (cluster["status"], cluster["fix"]) == ("fail", "did you mean 'test'?")


def test_doctor_reports_a_missing_kafka_client(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "millstream.log.kafka", None)
    result = command("doctor", "-b", "127.0.0.1:1", "-o", "json")
    (client,) = checks_by_name(result)["confluent-kafka"]
    assert (client["status"], client["fix"]) == ("fail", 'pip install "millstream[kafka]"')
    assert command("topics", "list", "-b", "127.0.0.1:1").err == (
        'error: a Kafka cluster requires the package confluent-kafka\nhint: pip install "millstream[kafka]"\n'
    )


def topic(*parts: tuple[int, list[int], list[int]]) -> Any:
    """Returns partitions from leader, replicas and in-sync replicas."""
    named = [SimpleNamespace(leader=leader, replicas=all_, isrs=isrs) for leader, all_, isrs in parts]
    return SimpleNamespace(partitions=dict(enumerate(named)))


def test_doctor_checks_replicas_of_several_brokers() -> None:
    topics = {
        "good": topic((1, [1, 2, 3], [1, 2, 3])),
        "risky": topic((1, [1, 2, 3], [1, 2, 3])),
        "strict": topic((1, [1, 2], [1, 2])),
        "behind": topic((1, [1, 2, 3], [1, 2, 3]), (2, [1, 2, 3], [2, 3])),
        "lost": topic((-1, [1, 2, 3], [])),
        "__transaction_state": topic((1, [1], [1])),
    }
    least = {"good": "2", "risky": "1", "strict": "2", "behind": "2", "lost": "2"}
    configs = {name: {"min.insync.replicas": value} for name, value in least.items()}
    texts = [finding.found for finding in health._topics(topics, configs, 3)]
    assert [text.partition(": ")[0] for text in texts] == [
        *("lost", "behind, lost", "strict", "risky", "__transaction_state")
    ]


def test_doctor_reports_unreachable_advertised_addresses() -> None:
    check = health._reach([(1, "127.0.0.1", 1)])
    assert check.status == "fail"
    assert check.found == "broker 1 advertises 127.0.0.1:1: Connection refused"
    assert check.fix == "its advertised.listeners must have an address that this machine can reach"
