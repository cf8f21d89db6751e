"""A schema registry on this machine, for development and tests: Apicurio Registry, in memory, loopback only."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from pathlib import Path
from typing import Any

from millstream.dev.jars import cache, unpack_archive
from millstream.dev.java import java_command
from millstream.dev.ports import bind_error, free_ports
from millstream.dev.processes import command_of
from millstream.dev.server import Server
from millstream.errors import SetupError

APICURIO = "2.5.11.Final"

_ARTIFACT = f"io.apicurio:apicurio-registry-app:{APICURIO}:tar.gz:all"
_NAME = f"Apicurio Registry {APICURIO}"
_PATH = "/apis/ccompat/v7"
_JAVA_OPTIONS = ("-Xms64m", "-Xmx384m", "-XX:MaxMetaspaceSize=256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


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


class RegistryServer(Server):
    """A registry, which keeps its schemas in memory: they are lost when it stops.

    Args:
        directory: The directory of its log; created if missing.
        port: Its port on 127.0.0.1; None chooses a free port at the first start and keeps it.
        attached: Whether the registry ends when this process does.
    """

    kind = "registry"
    timeout = 180.0

    def __init__(self, directory: Path, *, port: int | None = None, attached: bool = True) -> None:
        super().__init__(directory, attached=attached)
        self.port: int = port or self._recorded().get("port") or free_ports(1)[0]

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self.port}{_PATH}"

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
        with self._log.open("ab") as output:
            command = [java, *_JAVA_OPTIONS, self._mark, "-jar", str(jar)]
            pid = self._launch(command, output, cwd=self.directory, env=environment)
        self._record(pid=pid, started=time.time())

    def answers(self) -> bool:
        """Whether the registry answers a request for its subjects."""
        try:
            self._request("GET", "/subjects")
        except (OSError, ValueError):
            return False
        return True

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request, without a client library: the commands must work without one."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        request = urllib.request.Request(self.url + path, content, headers, method=method)  # noqa: S310  (http)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=5) as answer:
            return json.loads(answer.read())

    @property
    def _mark(self) -> str:
        """An option of Java without effect, by which the process is recognized."""
        return f"-Dmillstream.registry={self.directory}"

    def _is_own(self, pid: int) -> bool:
        return os.fsencode(f" {self._mark} -jar ") in command_of(pid)

    def _addresses(self) -> dict[str, Any]:
        return {"port": self.port}
