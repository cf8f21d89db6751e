"""`millstream dev kafka`, each command in a separate process."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run, run_in
from tests.kafka.opening import open_kafka_log
from tests.unit.log.helpers import record, rows

from millstream.dev.broker import Broker
from millstream.log.kafka.health import topic_configs
from millstream.log.opening import log_location

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    if (tmp_path / "data" / "kafka").exists():
        Broker(tmp_path / "data" / "kafka").delete()


@pytest.fixture
def millstream(data: Path, broker: Broker) -> Run:
    """Runs a command; where no broker can run, tests are skipped."""
    return run_in(data)


@pytest.fixture
def port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def listening(pid: int) -> set[str]:
    """The addresses on which a process listens, in hexadecimal."""
    sockets = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            sockets.add(str(link.readlink()))
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                addresses.add(fields[1].rpartition(":")[0])
    return addresses


def test_a_broker_is_started_described_and_stopped(millstream: Run, data: Path, port: str) -> None:
    assert millstream("dev", "kafka", "status") == (0, "not running\n", "")
    assert not data.exists()

    started = millstream("dev", "kafka", "start", "--port", port)
    assert (started.code, started.out) == (0, f"127.0.0.1:{port}\n")
    assert f"millstream topics list --bootstrap-servers 127.0.0.1:{port}" in started.err
    assert data.stat().st_mode & 0o077 == 0

    (status,) = millstream("dev", "kafka", "status", "-o", "json").lines
    assert (status["running"], status["answers"], status["bootstrap_servers"]) == (True, True, f"127.0.0.1:{port}")
    assert status["data"] == str(data / "kafka")
    assert status["uptime"] >= 0
    assert status["size"] > 0
    shown = millstream("dev", "kafka", "status")
    assert shown.out.startswith(f"running at 127.0.0.1:{port}\nprocess {status['pid']}, for ")
    if sys.platform == "linux":
        assert listening(status["pid"]) <= {"0100007F", "0000000000000000FFFF00000100007F"}

    again = millstream("dev", "kafka", "start")
    assert again == (0, f"127.0.0.1:{port}\n", f"the broker is already running (process {status['pid']})\n")
    elsewhere = millstream("dev", "kafka", "start", "--port", "9")
    assert (elsewhere.code, elsewhere.out) == (1, "")
    assert elsewhere.err == (
        f"error: the broker is already running at 127.0.0.1:{port}\nhint: stop it first: millstream dev kafka stop\n"
    )

    assert millstream("dev", "kafka", "stop") == (0, "", "the broker was stopped\n")
    assert millstream("dev", "kafka", "stop") == (0, "", "the broker is not running\n")
    assert millstream("dev", "kafka", "status").out.startswith("not running; its data in ")
    (stopped,) = millstream("dev", "kafka", "status", "-o", "json").lines
    assert (stopped["running"], stopped["answers"], stopped["pid"]) == (False, False, None)


def test_a_killed_broker_is_restarted_with_its_data(millstream: Run, data: Path, port: str) -> None:
    servers = millstream("dev", "kafka", "start", "--port", port).out.strip()
    with open_kafka_log({"bootstrap.servers": servers}, data) as log:
        log.create_topic("orders")
        log.produce("orders", [record("k", "v")])
    (status,) = millstream("dev", "kafka", "status", "-o", "json").lines
    os.kill(status["pid"], signal.SIGKILL)
    assert millstream("dev", "kafka", "status").out.startswith("not running; its data in ")
    assert millstream("dev", "kafka", "stop").err == "the broker is not running\n"

    properties = data / "kafka" / "server.properties"
    kept = [line for line in properties.read_text().splitlines() if "retention" not in line]
    properties.write_text("\n".join(kept))  # settings of an earlier release: Kafka keeps records for a week

    assert millstream("dev", "kafka", "start").out.strip() == servers
    with open_kafka_log({"bootstrap.servers": servers}, data) as log:
        assert rows(log, "orders") == [(0, "k", "v")]
    cluster = log_location({"bootstrap.servers": servers}).cluster
    assert cluster is not None
    config = topic_configs(cluster)["orders"]
    assert (config["retention.ms"], config["retention.bytes"]) == ("-1", "-1")
    assert (data / "kafka").exists()
    deleted = millstream("dev", "kafka", "stop", "--delete")
    assert deleted == (0, "", f"the broker was stopped\n{data / 'kafka'} was deleted\n")
    assert not (data / "kafka").exists()
    assert millstream("dev", "kafka", "status").out == "not running\n"


def test_concurrent_starts_start_one_broker(millstream: Run, port: str) -> None:
    ended = []
    threads = [
        threading.Thread(target=lambda: ended.append(millstream("dev", "kafka", "start", "--port", port)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(result.code, result.out) for result in ended] == [(0, f"127.0.0.1:{port}\n")] * 2, ended


def test_a_port_in_use_is_reported(millstream: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = millstream("dev", "kafka", "start", "--port", str(port))
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines()[-2:] == [
        f"error: port {port} of 127.0.0.1 is taken by another program",
        "hint: choose another one, such as --port 19092",
    ]
    assert millstream("dev", "kafka", "status").out == "not running\n"


def test_missing_requirements_of_a_broker_are_reported(millstream: Run, tmp_path: Path, port: str) -> None:
    start = ("dev", "kafka", "start", "--port", port)
    empty = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    no_maven = millstream(*start, env=empty)
    assert no_maven.err.splitlines()[-2:] == [
        "error: Kafka is downloaded with Maven, and there is no mvn on the PATH",
        "hint: install Maven",
    ]
    output = r"\033[0m\033[0m[ERROR] it is away -> [Help 1]\n[ERROR] \n"
    (tmp_path / "mvn").write_text(f"#!/bin/sh\nprintf '{output}'\nexit 1\n")
    (tmp_path / "mvn").chmod(0o700)
    no_network = millstream(*start, env=empty)
    assert no_network.err.splitlines() == [
        "downloading Kafka 4.3.1 with Maven, once; it takes half a minute …",
        "error: Maven cannot download Kafka 4.3.1: it is away",
        "hint: check that this machine reaches Maven Central, and check ~/.m2/settings.xml",
    ]
    no_java = millstream(*start, env={"JAVA_HOME": str(tmp_path)})
    assert no_java.err.splitlines()[-2:] == [
        f"error: a Kafka broker needs Java 17 or later, and there is none in JAVA_HOME ({tmp_path})",
        "hint: install a JDK or JRE; millstream doctor shows how",
    ]
    without = (
        "import sys; sys.modules['confluent_kafka'] = None; from millstream.cli.main import main; sys.exit(main())"
    )
    no_client = millstream(*start, program=[sys.executable, "-c", without])
    assert no_client.err.splitlines() == [
        "error: Kafka needs the package confluent-kafka, which is not installed",
        'hint: pip install "millstream[kafka]"',
    ]
    assert {result.code for result in (no_maven, no_network, no_java, no_client)} == {1}
