"""A schema registry on this machine, for development and tests: Apicurio Registry, in memory, loopback only."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from millstream.dev.jars import cache, unpack_archive
from millstream.dev.java import java_command
from millstream.dev.ports import bind_error, free_ports
from millstream.dev.processes import command_of, die_with_parent
from millstream.errors import SetupError

APICURIO = "2.5.11.Final"

_ARTIFACT = f"io.apicurio:apicurio-registry-app:{APICURIO}:tar.gz:all"
_NAME = f"Apicurio Registry {APICURIO}"
_PATH = "/apis/ccompat/v7"
_JAVA_OPTIONS = ("-Xms64m", "-Xmx384m", "-XX:MaxMetaspaceSize=256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_TIMEOUT = 180.0
_POLL = 0.1


def has_registry() -> bool:
    """Whether the registry has been downloaded."""
    return (_cache() / "unpacked").exists()


def download_registry() -> Path:
    """Returns the folder of the registry's program. The first call downloads it; concurrent calls wait for it.

    Raises:
        SetupError: Maven is missing, or the download fails.
    """
    return unpack_archive(_cache(), _ARTIFACT, _NAME)


def _cache() -> Path:
    return cache(f"apicurio-registry-{APICURIO}")


class RegistryServer:
    """A registry, which keeps its schemas in memory: they are lost when it stops.

    Args:
        directory: The directory of its log; created if missing.
        port: Its port on 127.0.0.1; None chooses a free port at the first start and keeps it.
        attached: Whether the registry ends when this process does.
    """

    def __init__(self, directory: Path, *, port: int | None = None, attached: bool = True) -> None:
        self.directory = directory.resolve()
        self._attached = attached
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.port: int = port or self._recorded().get("port") or free_ports(1)[0]

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self.port}{_PATH}"

    @property
    def pid(self) -> int | None:
        """The process id of the registry, or None if it is not running."""
        if self._process is not None:
            return self._process.pid if self._process.poll() is None else None
        pid = self._recorded().get("pid")
        return pid if pid is not None and self._is_registry(pid) else None

    @property
    def started(self) -> float | None:
        """The time of the last start, in seconds since the epoch."""
        return self._recorded().get("started")

    def start(self) -> None:
        """Starts the registry, and waits until it answers. Its global compatibility level is BACKWARD, as Confluent's.

        Raises:
            SetupError: It does not start. The message contains its last error.
        """
        with self._locked():
            started = self.pid is None
            if started:
                self._start(download_registry(), java_command("a schema registry"))
            self.wait_until_ready()
            if started:
                self._request("PUT", "/config", {"compatibility": "BACKWARD"})

    def _start(self, program: Path, java: str) -> None:
        problem = bind_error(self.port)
        if problem is not None:
            raise SetupError(
                f"port {self.port} of 127.0.0.1 {problem}", hint="choose another one, such as --port 18081"
            )
        jar = next(program.glob("*-runner.jar"), None)
        if jar is None:
            raise SetupError(f"{program} has no program of a registry", hint=f"delete {program.parent}")
        environment = {**os.environ, "QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(self.port)}
        with (self.directory / "registry.log").open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603  (the user's own Java)
                [java, *_JAVA_OPTIONS, self._mark, "-jar", str(jar)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.directory,
                env=environment,
                start_new_session=True,
                preexec_fn=die_with_parent if self._attached and sys.platform == "linux" else None,  # noqa: PLW1509
            )
        self._record(pid=self._process.pid, started=time.time())

    def wait_until_ready(self, seconds: float = _TIMEOUT) -> None:
        """Waits until the registry answers.

        Raises:
            SetupError: It has ended, or does not answer in time.
        """
        deadline = time.monotonic() + seconds
        while not self.answers():
            if self.pid is None:
                raise SetupError(f"the registry does not start: {self._last_error()}")
            if time.monotonic() > deadline:
                raise SetupError(f"the registry does not answer after {seconds:g} s: {self._last_error()}")
            time.sleep(_POLL)

    def answers(self) -> bool:
        """Whether the registry answers a request for its subjects."""
        try:
            self._request("GET", "/subjects")
        except (OSError, ValueError):
            return False
        return True

    def stop(self, seconds: float = 20.0) -> None:
        """Stops the registry; kills it if that takes too long."""
        pid = self.pid
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        if not self._wait_until_gone(pid, seconds):
            os.kill(pid, signal.SIGKILL)
            self._wait_until_gone(pid, seconds)
        self._record(pid=None)

    def delete(self) -> None:
        """Stops the registry, and deletes its directory."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _wait_until_gone(self, pid: int, seconds: float) -> bool:
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
                return True
            return False
        deadline = time.monotonic() + seconds
        while self._is_registry(pid):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL)
        return True

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request, without a client library: the commands must work without one."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        request = urllib.request.Request(self.url + path, content, headers, method=method)  # noqa: S310  (http)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=5) as answer:
            return json.loads(answer.read())

    # ----- files -----------------------------------------------------------------------------------------------------

    @property
    def _mark(self) -> str:
        """An option of Java without effect, by which the process is recognized."""
        return f"-Dmillstream.registry={self.directory}"

    def _is_registry(self, pid: int) -> bool:
        return os.fsencode(f" {self._mark} -jar ") in command_of(pid)

    def _recorded(self) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads((self.directory / "registry.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return record

    def _record(self, *, pid: int | None, **facts: Any) -> None:
        part = self.directory / "registry.json.part"
        part.write_text(json.dumps({"pid": pid, "port": self.port, **facts}), encoding="utf-8")
        part.replace(self.directory / "registry.json")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Locks the directory, so that two processes that start the registry at once start one."""
        with (self.directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _last_error(self) -> str:
        lines = (self.directory / "registry.log").read_text(encoding="utf-8", errors="replace").splitlines()
        errors = [line for line in lines if "ERROR" in line or "Exception" in line]
        return next(reversed(errors or lines), "its log is empty")
