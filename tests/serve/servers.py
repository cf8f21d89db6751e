"""Starts real server processes for tests."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tests.processes import below, open_files
from tests.serve.client import Client

from millstream.serve.access.roles import Role
from millstream.serve.access.tokens import Tokens

T = TypeVar("T")


@dataclass
class Server:
    """A running server.

    Attributes:
        process: Its process. What it prints to stderr is in the file `log`.
        address: The address that it printed, with the one-time code.
        data: Its data directory.
        log: The file with its stderr.
    """

    process: subprocess.Popen[str]
    address: str
    data: Path
    log: Path
    _tokens: dict[Role, str] = field(default_factory=dict)

    @property
    def port(self) -> int:
        """The port on which it listens."""
        port = urlsplit(self.address).port
        assert port is not None
        return port

    @property
    def code(self) -> str:
        """The one-time code that opens a session."""
        return urlsplit(self.address).fragment.removeprefix("code=")

    def anonymous(self) -> Client:
        """A client without a token."""
        host = urlsplit(self.address).hostname
        assert host is not None
        return Client(host, self.port)

    def token(self, role: Role) -> str:
        """A token with a role."""
        if role not in self._tokens:
            self._tokens[role] = Tokens(self.data).create(f"{role.name.lower()}-{self.port}", role)
        return self._tokens[role]

    def client(self, role: Role) -> Client:
        """A client with a token of a role."""
        return self.anonymous().using(token=self.token(role))

    @property
    def viewer(self) -> Client:
        """A client that reads."""
        return self.client(Role.VIEWER)

    @property
    def operator(self) -> Client:
        """A client that also pauses and resumes applications, writes records and replays dead letters."""
        return self.client(Role.OPERATOR)

    @property
    def admin(self) -> Client:
        """A client that may do everything."""
        return self.client(Role.ADMIN)

    def text(self) -> str:
        """What it has printed to stderr."""
        return self.log.read_text(encoding="utf-8")


@contextmanager
def start_server(data: Path, **options: Any) -> Iterator[Server]:
    """Starts a server in a process of its own, on a free port, and stops it at the end.

    Args:
        data: The data directory.
        options: Fields of `ServeOptions`, such as ``is_open=True`` or ``most_streams=1000``.
    """
    data.parent.mkdir(parents=True, exist_ok=True)
    given = {"host": "127.0.0.1", "port": 0, "data": str(data), **options}
    log = data.parent / f"server-{time.monotonic_ns()}.log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "millstream.serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(given) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline() or "{}")
            assert "address" in answer, (answer, log.read_text())
            yield Server(process, answer["address"], data, log)
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def memory(process: int) -> int:
    """The resident memory of a process, in bytes."""
    text = Path(f"/proc/{process}/statm").read_text(encoding="ascii")
    return int(text.split()[1]) * resource.getpagesize()


def listening(pid: int) -> set[str]:
    """The addresses on which a process and its descendants listen, as ``/proc/net/tcp`` has them."""
    files = [str(file) for process in (pid, *(child.pid for child in below(pid))) for file in open_files(process)]
    inodes = {file[8:-1] for file in files if file.startswith("socket:[")}
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                addresses.add(fields[1])
    return addresses


def wait_until(holds: Callable[[], T], what: str = "it", seconds: float = 40.0) -> T:
    """Calls a function until its result is true, and returns the result. It fails after a generous time."""
    end = time.monotonic() + seconds
    while not (result := holds()):
        assert time.monotonic() < end, f"{what} has not happened"
        time.sleep(0.02)
    return result
