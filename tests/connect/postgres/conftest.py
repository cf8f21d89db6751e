"""A PostgreSQL server for each test process, and a database for each test."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.connect.postgres.server import Database, PostgresServer, find_binaries


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running server. Without its programs, tests are skipped, except on CI."""
    binaries = find_binaries()
    if binaries is None:
        reason = "there is no PostgreSQL server here: initdb is not on the path"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    # The path of a socket is short, and the server has a user of its own, who cannot enter pytest's directories.
    root = Path(tempfile.mkdtemp(prefix="millstream-pg-"))
    root.chmod(0o755)
    server = PostgresServer(binaries, root / "s", _free_port())
    with _guarded(server, root):
        server.create()
        server.start()
        yield server
        server.stop()


@contextmanager
def _guarded(server: PostgresServer, root: Path) -> Iterator[None]:
    """Ends the server and deletes its data, also if this process is killed: a shell waits for the end of a pipe."""
    script = 'cat; test -f "$1/postmaster.pid" && kill -QUIT "$(head -n 1 "$1/postmaster.pid")" && sleep 2; rm -rf "$2"'
    command = ["sh", "-c", script, "guard", str(server.data), str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as guard:
        try:
            yield
        finally:
            assert guard.stdin is not None
            guard.stdin.close()


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Database]:
    """A new, empty database."""
    with postgres.database() as database:
        yield database
