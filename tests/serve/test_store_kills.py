"""Rows while the application is killed and starts again: positions never go backwards, and values agree with them."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serve import store_killed
from tests.serve.client import SECONDS
from tests.serve.conftest import Serving
from tests.serve.servers import Server, wait_until

from millstream.log import ProducerRecord, open_log

STORES = f"/api/v1/applications/{store_killed.APPLICATION}/stores"
READS = 10_000
EVERY = 2_300
"""A kill comes after about as many reads, of an application that runs, is dead, or starts again."""
EVENTS = 20
"""The application processes as many events between two kills, at least."""


class Reader(threading.Thread):
    """Reads until it is stopped, each time one of: a key of a store, or both keys in one request."""

    def __init__(self, server: Server, number: int) -> None:
        super().__init__(daemon=True)
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
        self._headers = {"Authorization": f"Bearer {server.viewer.token}"}
        self._number = number
        self.answers: list[tuple[str, int, Any]] = []
        self.problems: list[str] = []
        self.unavailable = 0
        self.stopped = threading.Event()

    def run(self) -> None:
        try:
            for step in itertools.count(self._number):
                if self.stopped.is_set():
                    return
                self._read(("counts", "sums")[step % 2], ("a", "b", None)[step % 3])
        except Exception as error:  # noqa: BLE001  (the test shows it)
            self.problems.append(repr(error))
        finally:
            self._connection.close()

    def _read(self, store: str, key: str | None) -> None:
        path = f"{STORES}/{store}/rows"
        if key is None:
            body = json.dumps({"keys": ["a", "b"]})
            self._connection.request("POST", path, body, {**self._headers, "Content-Type": "application/json"})
        else:
            self._connection.request("GET", f"{path}?key={key}", headers=self._headers)
        response = self._connection.getresponse()
        content = json.loads(response.read())
        if response.status == 503 and response.headers["Retry-After"]:
            self.unavailable += 1
        elif response.status != 200:
            self.problems.append(f"{response.status} {content}")
        else:
            values = {row["key"]: row["value"] or 0 for row in content["rows"]}
            self.answers.append((store, content["position"], values))


class Producer(threading.Thread):
    """Writes events of the keys a and b in turn, until it is stopped."""

    def __init__(self, data: Path) -> None:
        super().__init__(daemon=True)
        self._data = data
        self.written = 0
        self.stopped = threading.Event()

    def run(self) -> None:
        with open_log(self._data) as log:
            while not self.stopped.is_set():
                log.produce("events", [ProducerRecord(key, (1).to_bytes(8)) for key in (b"a", b"b")])
                self.written += 1
                self.stopped.wait(0.005)


@contextlib.contextmanager
def running(data: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The application, in a process of its own, which is killed at the end."""
    with subprocess.Popen([sys.executable, "-m", "tests.serve.store_killed", str(data)]) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def reading(server: Server) -> Iterator[list[Reader]]:
    """Three readers."""
    readers = [Reader(server, number) for number in range(3)]
    for reader in readers:
        reader.start()
    try:
        yield readers
    finally:
        for reader in readers:
            reader.stopped.set()
        for reader in readers:
            reader.join()


def reads(readers: list[Reader]) -> int:
    return sum(len(reader.answers) for reader in readers)


@contextlib.contextmanager
def further_reads(readers: list[Reader]) -> Iterator[None]:
    """Waits at the end until there are further reads."""
    least = reads(readers) + EVERY
    yield
    wait_until(lambda: reads(readers) >= least, "further reads")


def count(server: Server) -> int:
    """The number of events of the key b; 0 before the first one."""
    answer = server.viewer.get(f"{STORES}/counts/rows", key="b")
    rows = answer.json()["rows"] if answer.status == 200 else []
    return int(rows[0]["value"]) if rows else 0


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_positions_never_go_backwards_while_the_application_is_killed(data: Path, serving: Serving) -> None:
    with open_log(data) as log:
        log.create_topic("events")
    producer = Producer(data)
    producer.start()
    with serving(data) as server:
        with running(data):
            wait_until(lambda: count(server) > EVENTS, "the first events")
        with reading(server) as readers:  # the application is dead
            for _kill in range(READS // EVERY):
                least = count(server) + EVENTS
                with running(data), further_reads(readers):
                    wait_until(lambda least=least: count(server) > least, "the next events")  # type: ignore[misc]
            with running(data):
                with further_reads(readers):
                    pass
                producer.stopped.set()
                producer.join()
                wait_until(lambda: count(server) == producer.written, "each event is counted once")
        assert count(server) == producer.written
    assert reads(readers) > READS
    check(readers)


def check(readers: list[Reader]) -> None:
    """Checks the answers: the positions of a store grow, and each position has one value of each key."""
    assert [reader.problems for reader in readers] == [[]] * len(readers)
    values: dict[tuple[str, int], int] = {}
    for reader in readers:
        for store in ("counts", "sums"):
            positions = [position for name, position, _values in reader.answers if name == store]
            assert positions == sorted(positions)
        for _store, position, shown in reader.answers:
            for key, value in shown.items():  # both stores have the same numbers at the same position
                assert values.setdefault((key, position), value) == value
            if len(shown) == 2:
                assert 0 <= shown["a"] - shown["b"] <= 1, "an answer shows one commit"
    for key in ("a", "b"):
        counts = [value for (name, _position), value in sorted(values.items()) if name == key]
        assert counts == sorted(counts)
        assert len(set(counts)) > 20
