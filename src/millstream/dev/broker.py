"""A Kafka broker on this machine, for development and tests: one node, KRaft, loopback only."""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from millstream.dev.jars import cache, download_jars
from millstream.dev.java import archive_options, java_command, shared_archive
from millstream.dev.ports import bind_error, free_ports
from millstream.dev.processes import command_of
from millstream.dev.server import Server
from millstream.errors import SetupError

_MEMORY = ("-Xms64m", "-Xmx384m", "-XX:MaxMetaspaceSize=160m")

# Internal topics have one replica and few partitions: there is one node. The session timeout is short because a killed
# broker can register again only after its last session has expired. Retention is unlimited: test records often have old
# timestamps, and Kafka's default of a week would delete them at once.
_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
    "offsets.retention.minutes": str(2**31 - 1),
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "controller.quorum.election.timeout.ms": "200",
    "controller.quorum.fetch.timeout.ms": "400",
}


class Broker(Server):
    """A broker and its data directory.

    Args:
        directory: The directory of its data, properties and log; created if missing.
        port: Its port on 127.0.0.1; None chooses a free port at the first start and keeps it.
        properties: Additional properties of the broker.
        listeners: Additional listeners: their protocols by name. `port_of` returns their ports.
        attached: Whether the broker ends when this process does.
        java_options: Options of Java. The default ones suit a small broker that starts quickly.
    """

    kind = "broker"
    timeout = 120.0

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        attached: bool = True,
        java_options: tuple[str, ...] = (*_MEMORY, "-XX:TieredStopAtLevel=1"),
    ) -> None:
        super().__init__(directory, attached=attached)
        self._properties = dict(properties or {})
        self._protocols = {"PLAINTEXT": "PLAINTEXT", **(listeners or {}), "CONTROLLER": "PLAINTEXT"}
        self._java_options = java_options
        self._ports: dict[str, int] = {**self._recorded().get("ports", {})}
        if port is not None:
            self._ports["PLAINTEXT"] = port
        missing = [name for name in self._protocols if name not in self._ports]
        self._ports.update(zip(missing, free_ports(len(missing)), strict=True))

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port_of('PLAINTEXT')}"

    def port_of(self, listener: str) -> int:
        """The port of a listener."""
        return self._ports[listener]

    @property
    def size(self) -> int:
        """The disk space of its data in bytes. Kafka preallocates files, which are sparse, so blocks are counted."""
        size = 0
        for path in (self.directory / "data").rglob("*"):
            with contextlib.suppress(OSError):  # the broker may delete files meanwhile
                size += path.stat().st_blocks * 512 if path.is_file() else 0
        return size

    def start(self, *, wait: bool = True) -> None:
        """Starts the broker with its existing data, and waits until it answers.

        Raises:
            SetupError: It does not start. The message contains its last error.
        """
        check_client()
        with self._locked():
            if self.pid is None:
                self._start(download_jars(), java_command())
        if wait:
            self.wait_until_ready()

    def _start(self, jars: Path, java: str) -> None:
        self._check_ports()
        properties = self._write_properties()
        class_path = ":".join(str(jar) for jar in sorted(jars.glob("*.jar")))
        base = [java, *self._java_options, "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        with self._log.open("ab") as output:
            if not (self.directory / "data" / "meta.properties").exists():
                self._format([*base, "-cp", class_path], properties, output)
            archive = cache() / f"classes-{secrets.token_hex(4)}.jsa"
            command = [*base, *archive_options(archive), "-cp", class_path, "kafka.Kafka", str(properties)]
            pid = self._launch(command, output)
        self._record(pid=pid, started=time.time(), archive=str(archive))

    def answers(self) -> bool:
        """Whether the broker answers a metadata request."""
        from confluent_kafka import KafkaException  # noqa: PLC0415  (it is not always installed)
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415

        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port_of("PLAINTEXT")), timeout=1).close()
            with contextlib.suppress(KafkaException):
                client = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
                return bool(client.list_topics(timeout=1).brokers)
        return False

    def stop(self, seconds: float = 20.0) -> None:
        """Shuts the broker down; kills it if that takes too long."""
        archive = Path(self._recorded().get("archive", ""))
        if self.pid is not None:
            super().stop(seconds)
            if archive.is_file():
                archive.rename(shared_archive())

    # ----- files -------------------------------------------------------------------------------------------------

    def _addresses(self) -> dict[str, Any]:
        return {"ports": self._ports}

    def _is_own(self, pid: int) -> bool:
        return command_of(pid).endswith(b" " + os.fsencode(self.directory / "server.properties"))

    def _check_ports(self) -> None:
        """Checks that the ports are free. The controller gets another port if not, because no client uses it."""
        for name in self._protocols:
            problem = bind_error(self._ports[name])
            if problem is not None and name == "CONTROLLER":
                (self._ports[name],) = free_ports(1)
            elif problem is not None:
                raise SetupError(
                    f"port {self._ports[name]} of 127.0.0.1 {problem}", hint="choose another one, such as --port 19092"
                )

    def _write_properties(self) -> Path:
        listeners = {name: f"{name}://127.0.0.1:{self._ports[name]}" for name in self._protocols}
        settings = {
            **_PROPERTIES,
            "controller.quorum.voters": f"1@127.0.0.1:{self._ports['CONTROLLER']}",
            "listeners": ",".join(listeners.values()),
            "advertised.listeners": ",".join(at for name, at in listeners.items() if name != "CONTROLLER"),
            "listener.security.protocol.map": ",".join(f"{name}:{p}" for name, p in self._protocols.items()),
            "log.dirs": str(self.directory / "data"),
            **self._properties,
        }
        path = self.directory / "server.properties"
        path.touch(mode=0o600)  # it may contain passwords
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        return path

    def _format(self, java: list[str], properties: Path, output: IO[bytes]) -> None:
        cluster = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(properties)]
        done = subprocess.run([*java, *tool], stdout=output, stderr=output, check=False)  # noqa: S603
        if done.returncode:
            raise SetupError(f"the broker's storage cannot be formatted: {self._last_error()}")


def check_client() -> None:
    """Checks that the Kafka client is installed.

    Raises:
        SetupError: It is not.
    """
    try:
        import confluent_kafka  # noqa: F401, PLC0415  (it is not always installed)
    except ImportError as error:
        hint = 'pip install "millstream[kafka]"'
        raise SetupError("Kafka needs the package confluent-kafka, which is not installed", hint=hint) from error
