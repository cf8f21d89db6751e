"""A real Kafka broker on this machine, for development and tests: one node, KRaft, loopback only."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from millstream.dev.jars import bring_jars, cache
from millstream.errors import SetupError
from millstream.runtime.host.process_identity import birth

_MEMORY = ("-Xms64m", "-Xmx384m", "-XX:MaxMetaspaceSize=160m")
_PATIENCE = 120.0
_JUST_BEGUN = 1.0
_POLL = 0.05
_PDEATHSIG = 1

# Few partitions and replicas of its own topics: there is one node. A short session, because a broker that was killed
# is let in again only when its last session is over. Nothing is deleted by time: records that are tried out often have
# old timestamps, by which Kafka's default of a week would delete them at once, and the broker may stand for weeks.
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


class Broker:
    """A broker, whose data is in a directory.

    Args:
        directory: Where its data, its properties and its log are kept; made if it is not there.
        port: Where it listens, on 127.0.0.1; None for a free port, which it then keeps.
        properties: Properties of the broker beside those that it needs here.
        listeners: More listeners by name, each with its protocol; `port_of` says where they are.
        attached: Whether the broker ends when this process does.
        java_options: Options for Java instead of the usual ones, which are for a small and quick broker.
    """

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
        self.directory = directory.resolve()  # processes that know it by another path are to find it, too
        self._more = dict(properties or {})
        self._protocols = {"PLAINTEXT": "PLAINTEXT", **(listeners or {}), "CONTROLLER": "PLAINTEXT"}
        self._attached = attached
        self._java_options = java_options
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = self._known()
        self._ports: dict[str, int] = {**known.get("ports", {})}
        if port is not None:
            self._ports["PLAINTEXT"] = port
        missing = [name for name in self._protocols if name not in self._ports]
        self._ports.update(zip(missing, _free_ports(len(missing)), strict=True))

    @property
    def bootstrap_servers(self) -> str:
        """Where clients find it."""
        return f"127.0.0.1:{self.port_of('PLAINTEXT')}"

    def port_of(self, listener: str) -> int:
        """The port of a listener."""
        return self._ports[listener]

    @property
    def pid(self) -> int | None:
        """The process of the broker, if one runs."""
        if self._process is not None:
            return self._process.pid if self._process.poll() is None else None
        pid = self._known().get("pid")
        return pid if pid is not None and _is_broker(pid, self.directory) else None

    @property
    def started(self) -> float | None:
        """When the broker was started last, in seconds since the epoch."""
        return self._known().get("started")

    @property
    def size(self) -> int:
        """The bytes that its data takes on the disk. Much of its files is room for more, which takes none."""
        found = 0
        for path in (self.directory / "data").rglob("*"):
            with contextlib.suppress(OSError):  # some go while we look
                found += path.stat().st_blocks * 512 if path.is_file() else 0
        return found

    def start(self, *, wait: bool = True) -> None:
        """Starts the broker, with the data that it had; waits until it answers.

        Raises:
            SetupError: It does not start. The message has what it said.
        """
        check_client()
        with self._locked():
            if self.pid is None:
                self._start(bring_jars(), _java())
        if wait:
            self.wait_until_ready()

    def _start(self, jars: Path, java: str) -> None:
        self._check_ports()
        properties = self._write_properties()
        class_path = ":".join(str(jar) for jar in sorted(jars.glob("*.jar")))
        log = self.directory / "broker.log"
        base = [java, *self._java_options, "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        with log.open("ab") as output:
            if not (self.directory / "data" / "meta.properties").exists():
                self._format([*base, "-cp", class_path], properties, output)
            archive = cache() / f"classes-{secrets.token_hex(4)}.jsa"
            command = [*base, *_archive(archive), "-cp", class_path, "kafka.Kafka", str(properties)]
            self._process = subprocess.Popen(  # noqa: S603  (the user's own Java)
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_die_with_parent if self._attached and sys.platform == "linux" else None,  # noqa: PLW1509
            )
        self._note(pid=self._process.pid, started=time.time(), archive=str(archive))

    def wait_until_ready(self, seconds: float = _PATIENCE) -> None:
        """Waits until the broker answers.

        Raises:
            SetupError: It has ended, or says nothing for so long.
        """
        deadline = time.monotonic() + seconds
        while not self.answers():
            if self.pid is None:
                raise SetupError(f"the broker does not start: {self._last_words()}")
            if time.monotonic() > deadline:
                raise SetupError(f"the broker does not answer after {seconds:g} s: {self._last_words()}")
            time.sleep(_POLL)

    def answers(self) -> bool:
        """Whether the broker takes requests of clients: it lists itself."""
        from confluent_kafka import KafkaException  # noqa: PLC0415  (it is not always installed)
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415

        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port_of("PLAINTEXT")), timeout=1).close()
            with contextlib.suppress(KafkaException):
                client = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
                return bool(client.list_topics(timeout=1).brokers)
        return False

    def stop(self, seconds: float = 20.0) -> None:
        """Stops the broker in order; kills it if that takes too long."""
        pid = self.pid
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        if not self._gone(pid, seconds):
            self.kill()
        archive = Path(self._known().get("archive", ""))
        if archive.is_file():
            archive.rename(_kept_archive())
        self._note(pid=None)

    def kill(self) -> None:
        """Ends the broker at once, as a crash would."""
        pid = self.pid
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            self._gone(pid, _PATIENCE)
            self._note(pid=None)

    def delete(self) -> None:
        """Stops the broker and deletes all that it has."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _gone(self, pid: int, seconds: float) -> bool:
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
                return True
            return False
        deadline = time.monotonic() + seconds
        while _is_broker(pid, self.directory):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL)
        return True

    # ----- files -------------------------------------------------------------------------------------------------

    def _known(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.directory / "broker.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return found

    def _note(self, *, pid: int | None, **more: Any) -> None:
        part = self.directory / "broker.json.part"
        part.write_text(json.dumps({"pid": pid, "ports": self._ports, **more}), encoding="utf-8")
        part.replace(self.directory / "broker.json")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Two that start the same broker at once start one."""
        with (self.directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _check_ports(self) -> None:
        """Clients know the ports of the listeners; that of the controller may be another one each time."""
        for name in self._protocols:
            refusal = _refusal(self._ports[name])
            if refusal is not None and name == "CONTROLLER":
                (self._ports[name],) = _free_ports(1)
            elif refusal is not None:
                raise SetupError(
                    f"port {self._ports[name]} of 127.0.0.1 {refusal}", hint="choose another one, as with --port 19092"
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
            **self._more,
        }
        path = self.directory / "server.properties"
        path.touch(mode=0o600)  # it may have passwords
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        return path

    def _format(self, java: list[str], properties: Path, output: IO[bytes]) -> None:
        cluster = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(properties)]
        done = subprocess.run([*java, *tool], stdout=output, stderr=output, check=False)  # noqa: S603
        if done.returncode:
            raise SetupError(f"the broker's storage cannot be made: {self._last_words()}")

    def _last_words(self) -> str:
        lines = (self.directory / "broker.log").read_text(encoding="utf-8", errors="replace").splitlines()
        telling = [line for line in lines if "ERROR" in line or "Exception" in line]
        return next(reversed(telling or lines), "it says nothing")


def check_client() -> None:
    """Makes sure that there is a Kafka client.

    Raises:
        SetupError: There is none.
    """
    try:
        import confluent_kafka  # noqa: F401, PLC0415  (it is not always installed)
    except ImportError as error:
        hint = 'pip install "millstream[kafka]"'
        raise SetupError("Kafka needs the package confluent-kafka, which is not installed", hint=hint) from error


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        hint = "install a JDK or JRE; millstream doctor says how"
        raise SetupError(f"a Kafka broker needs Java 17 or later, and there is none {where}", hint=hint)
    return found


def _archive(part: Path) -> list[str]:
    """Options by which Java finds its classes quicker; a broker that is stopped in order leaves them for later ones."""
    option = f"SharedArchiveFile={_kept_archive()}" if _kept_archive().exists() else f"ArchiveClassesAtExit={part}"
    return [f"-XX:{option}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def _kept_archive() -> Path:
    return cache() / "classes.jsa"


def _is_broker(pid: int, directory: Path) -> bool:
    """Whether a process is the broker of this directory, and not another one that got its number."""
    try:
        if sys.platform == "linux":
            command = _command_on_linux(pid)
        else:
            shown = ["ps", "-ww", "-p", str(pid), "-o", "command="]
            command = subprocess.run(shown, capture_output=True, check=False).stdout  # noqa: S603
    except OSError:
        return False
    return command.rstrip().endswith(b" " + os.fsencode(directory / "server.properties"))


def _command_on_linux(pid: int) -> bytes:
    """The command of a process. One that has just begun has none for a moment, one that is over has none any more."""
    deadline = time.monotonic() + _JUST_BEGUN
    while True:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        if command or birth(pid) is None or time.monotonic() > deadline:
            return command
        time.sleep(_JUST_BEGUN / 100)


def _refusal(port: int) -> str | None:
    """Why nobody can listen on a port, if so."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does: connections that linger do not matter
        try:
            one.bind(("127.0.0.1", port))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            return "is taken by another program" if taken else f"cannot be used: {error.strerror}"
    return None


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
