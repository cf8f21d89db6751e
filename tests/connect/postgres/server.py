"""A PostgreSQL server for tests: it is started in a temporary directory, and can be killed and started again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg2
from psycopg2.extensions import connection as Connection  # noqa: N812

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "max_connections": "100",
    "max_prepared_transactions": "10",
    "fsync": "off",
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "log_min_messages": "fatal",
}
_DIRECTORIES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/local/bin")


def find_binaries() -> Path | None:
    """The directory of the newest server on this machine."""
    initdb = shutil.which("initdb")
    if initdb is not None:
        return Path(initdb).parent
    found = [path for pattern in _DIRECTORIES for path in Path("/").glob(f"{pattern[1:]}/initdb")]
    return max(found, key=lambda path: [int(part) for part in path.parts if part.isdigit()]).parent if found else None


class PostgresServer:
    """A server with its data in a directory."""

    def __init__(self, binaries: Path, directory: Path, port: int) -> None:
        self.binaries = binaries
        self.directory = directory
        self.port = port
        # The server refuses to run as root.
        self._user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []

    def create(self) -> None:
        self.directory.mkdir(mode=0o700, parents=True)
        if self._user:
            shutil.chown(self.directory, "postgres", "postgres")
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync",
                  "--no-instructions", "--locale=C.UTF-8")  # fmt: skip

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def start(self, **settings: str) -> None:
        options = {**SETTINGS, "port": str(self.port), "unix_socket_directories": str(self.directory), **settings}
        text = " ".join(f"-c {name}={value}" for name, value in options.items())
        self._run(
            "pg_ctl", "-D", str(self.data), "-w", "-t", "60", "-l", str(self.directory / "log"), "-o", text, "start"
        )

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self.data), "-w", "-m", "immediate", "stop")

    def kill(self) -> None:
        """Ends all its processes at once, as a crash of the machine would, but for the disk."""
        pid = int((self.data / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, signal.SIGSTOP)  # it must not start another process now
        children = [int(line) for line in _children(pid)]
        for process in (pid, *children):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + 20
        while any(_is_running(process) for process in (pid, *children)):
            assert time.monotonic() < deadline, "processes of the server are still there"
            time.sleep(0.01)
        # A process that has ended and that nobody reaps would look alive to the next server.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        (self.directory / f".s.PGSQL.{self.port}.lock").unlink(missing_ok=True)

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._user, str(self.binaries / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
        assert done.returncode == 0, done.stderr + done.stdout

    @contextmanager
    def database(self) -> Iterator[Database]:
        """A new database. It is dropped afterwards, with its slots."""
        name = f"d{uuid4().hex[:12]}"
        admin = self.connect("postgres")
        with admin.cursor() as cursor:
            cursor.execute(f"create database {name}")
        admin.close()
        database = Database(self, name)
        try:
            yield database
        finally:
            database.close()
            self._drop(name)

    def _drop(self, name: str) -> None:
        admin = self.connect("postgres")
        with admin.cursor() as cursor:
            cursor.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))
            deadline = time.monotonic() + 20
            while True:
                try:
                    cursor.execute(
                        "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = %s",
                        (name,),
                    )
                    cursor.execute(f"drop database {name} with (force)")
                    break
                except psycopg2.errors.ObjectInUse:
                    assert time.monotonic() < deadline, "the slot is still in use"
                    time.sleep(0.05)
        admin.close()

    def connect(self, database: str, user: str = "postgres") -> Connection:
        connection = psycopg2.connect(host="127.0.0.1", port=self.port, dbname=database, user=user)
        connection.autocommit = True
        return connection


class Database:
    """A database of a test."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server = server
        self.name = name
        self._connection: Connection | None = None

    def execute(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Executes statements in a transaction of their own, and returns the rows of the last one."""
        if self._connection is None or self._connection.closed:
            self._connection = self.connect()
        with self._connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def connect(self, user: str = "postgres") -> Connection:
        return self.server.connect(self.name, user)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
