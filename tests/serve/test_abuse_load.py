"""Abuses at the same time, while another client is answered, and the memory of the server stays bounded."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.serve.conftest import Serving
from tests.serve.raw import head_of, raw_answer
from tests.serve.servers import Server, memory

from millstream.log import ProducerRecord, open_log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ROUNDS = 12
RECORDS = "/api/v1/topics/counts/records"
JSON = {"Content-Type": "application/json"}


def status_of(answer: bytes) -> int:
    """The status of an answer; 0 if the server has closed the connection before it was sent."""
    return int(answer.split()[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def large_bodies(server: Server) -> Iterator[int]:
    for path in (RECORDS, "/ksql", "/query", "/inserts-stream"):
        head = head_of(server, path, "POST", "Content-Type: application/json\r\nContent-Length: 10000000\r\n")
        yield status_of(raw_answer(server.port, head.encode() + b"[" * 10_000_000))


def endless_chunks(server: Server) -> Iterator[int]:
    head = head_of(server, RECORDS, "POST", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n")
    yield status_of(raw_answer(server.port, head.encode() + (b"10000\r\n" + b" " * 0x10000 + b"\r\n") * 160))


def deep_bodies(server: Server) -> Iterator[int]:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        body = opening * 100_000 + "1" + closing * 100_000
        yield server.admin.request("POST", RECORDS, body=f'{{"records": [{body}]}}'.encode(), headers=JSON).status


def compressed_bodies(server: Server) -> Iterator[int]:
    body = gzip.compress(b" " * 50_000_000)
    yield server.admin.request("POST", RECORDS, body=body, headers={**JSON, "Content-Encoding": "gzip"}).status


def ranges(server: Server) -> Iterator[int]:
    many = ",".join(f"{n}-" for n in range(5_000))
    for value in (f"bytes={many}", "bytes=0-99999999999999999999", "bytes=-1,-1,-1"):
        yield server.admin.request("GET", "/vendor/uplot.js", headers={"Range": value}).status


def large_pages(server: Server) -> Iterator[int]:
    for newest in ("true", "false"):
        yield server.admin.get("/api/v1/topics/large/records", limit=1000, newest=newest).status


def streams_that_nobody_reads(server: Server) -> Iterator[int]:
    with ExitStack() as stack:
        for _ in range(40):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(30)
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(head_of(server, "/api/v1/events?channel=topic:large@start").encode())
            yield status_of(connection.recv(100))


def unfinished_requests(server: Server) -> Iterator[int]:
    with ExitStack() as stack:
        for _ in range(100):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30))
            connection.sendall(head_of(server, RECORDS, "POST", "Content-Length: 99\r\n").encode() + b"{")
    yield 0


ABUSES = (large_bodies, endless_chunks, deep_bodies, compressed_bodies, ranges, large_pages, streams_that_nobody_reads,
          unfinished_requests)  # fmt: skip
REFUSED = {0, 400, 413, 416, 422, 429, 503}
ANSWERED = {"large_pages": {200}, "ranges": {200, 206, 416}, "streams_that_nobody_reads": {200, 429, 503}}


class Abuser(threading.Thread):
    """Repeats an abuse, and keeps the statuses of the answers."""

    def __init__(self, abuse: Callable[[Server], Iterator[int]], server: Server) -> None:
        super().__init__(daemon=True)
        self.abuse, self._server = abuse, server
        self.statuses: set[int] = set()
        self.problem: Exception | None = None

    def run(self) -> None:
        try:
            for _ in range(ROUNDS):
                self.statuses.update(self.abuse(self._server))
        except Exception as error:  # noqa: BLE001  (the test shows it)
            self.problem = error


def test_another_client_is_answered_during_abuses(shop_data: Path, data: Path, serving: Serving) -> None:
    shutil.copytree(shop_data, data)
    with open_log(data) as log:
        log.create_topic("large")
        for _ in range(30):
            log.produce("large", [ProducerRecord(b"k", json.dumps("x" * 900_000).encode())])
    with serving(data, most_streams=20) as server:
        rows = {"path": "/api/v1/applications/shop/stores/orders-of-shop/rows", "key": "north"}
        assert server.viewer.get(**rows).status == 200
        server.admin.get("/api/v1/topics/large/records", limit=1000)
        before = most = memory(server.process.pid)
        abusers = [Abuser(abuse, server) for abuse in ABUSES]
        for abuser in abusers:
            abuser.start()
        answers = 0
        while any(abuser.is_alive() for abuser in abusers):
            assert server.viewer.get(**rows).json()["rows"][0]["value"] == 3
            assert server.viewer.get("/api/v1/applications").status == 200
            assert server.anonymous().get("/healthz").status == 200
            most = max(most, memory(server.process.pid))
            answers += 1
        assert answers >= ROUNDS
        for abuser in abusers:
            assert abuser.problem is None, abuser.abuse.__name__
            assert abuser.statuses <= ANSWERED.get(abuser.abuse.__name__, REFUSED), (
                abuser.abuse.__name__,
                abuser.statuses,
            )
        assert most - before < 200_000_000
        assert "Traceback" not in server.text()
