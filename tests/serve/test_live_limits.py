"""Limits of event streams: slow clients, many clients, expired tokens, and the stop of the server."""

from __future__ import annotations

import json
import resource
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.serve.client import Event
from tests.serve.conftest import Serving
from tests.serve.events import EVENTS, begun
from tests.serve.servers import Server, memory, start_server, wait_until

from millstream.log import Log, ProducerRecord, open_log
from millstream.serve.access.roles import Role
from millstream.serve.access.tokens import Tokens


@pytest.fixture
def log(data: Path) -> Iterator[Log]:
    with open_log(data) as log:
        log.create_topic("numbers")
        yield log


def number(value: int, size: int = 0) -> ProducerRecord:
    return ProducerRecord(b"k", f"{value}{'x' * size}".encode(), value)


@contextmanager
def raw_stream(server: Server, query: str, *, receive_buffer: int | None = None) -> Iterator[socket.socket]:
    """A stream whose client reads only what the test reads."""
    with socket.socket() as connection:
        if receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.settimeout(30)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(
            f"GET {EVENTS}?{query} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
            f"Authorization: Bearer {server.token(Role.VIEWER)}\r\n\r\n".encode()
        )
        yield connection


@pytest.mark.slow
def test_a_slow_client_misses_events_and_delays_no_other(data: Path, log: Log, serving: Serving) -> None:
    size, rounds, each = 4_000, 60, 100
    with serving(data) as server, raw_stream(server, "channel=topic:numbers", receive_buffer=4096) as slow:
        got = slow.recv(2000)
        while b"subscribed" not in got:
            got += slow.recv(2000)
        with server.viewer.events(EVENTS, channel="topic:numbers") as events:
            begun(events)
            before = memory(server.process.pid)
            for round_ in range(rounds):  # 24 MB: more than the buffers of the socket hold
                log.produce("numbers", [number(round_ * each + index, size) for index in range(each)])
                offsets = [next(events).data["offset"] for _ in range(each)]
                assert offsets == [*range(round_ * each, (round_ + 1) * each)]
            assert memory(server.process.pid) - before < 60_000_000
        missed, offsets = _read_slowly(slow, rounds * each, log)
    first = missed[0]
    assert first["partition"] == 0
    # What came before is without a gap, and so is what comes after.
    expected = [*range(first["from"])]
    for gap, following in zip(missed, [*missed[1:], {"from": rounds * each + 1}], strict=True):
        expected += range(gap["to"], following["from"])
    assert offsets == expected


def _read_slowly(connection: socket.socket, last: int, log: Log) -> tuple[list[dict[str, int]], list[int]]:
    """Reads until a record that is written now; returns what was missed, and the offsets of the others."""
    missed: list[dict[str, int]] = []
    offsets: list[int] = []
    is_written = False
    with connection.makefile("rb") as file:
        kind = b""
        for line in file:
            if line.startswith(b"event: "):
                kind = line[7:].strip()
            if not line.startswith(b"data: "):
                continue
            data = json.loads(line[6:])
            if kind == b"missed":
                missed += data["channels"]["topic:numbers"]
            elif kind == b"topic":
                offsets.append(data["offset"])
            if missed and not is_written:
                is_written = True
                log.produce("numbers", [number(last)])
            if offsets and offsets[-1] == last:
                break
    return missed, offsets


@pytest.mark.slow
def test_a_thousand_clients_of_a_topic_all_get_an_event(data: Path, log: Log, serving: Serving) -> None:
    clients = 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * clients)), hard))
    with serving(data, most_streams=clients) as server, ExitStack() as stack:
        query = "channel=topic:numbers&channel=applications"
        sockets = [stack.enter_context(raw_stream(server, query)) for _ in range(clients)]
        texts = dict.fromkeys(sockets, b"")
        _read_all(texts, b"event: subscribed")
        before = memory(server.process.pid)
        log.produce("numbers", [number(1)])
        _read_all(texts, b'"value":"1"')
        assert memory(server.process.pid) - before < 100_000_000
        assert server.viewer.get(EVENTS, channel="topic:numbers").status == 503


def _read_all(texts: dict[socket.socket, bytes], awaited: bytes) -> None:
    """Reads from all sockets until each has got a text."""
    with selectors.DefaultSelector() as selector:
        waiting = {connection for connection, text in texts.items() if awaited not in text}
        for connection in waiting:
            selector.register(connection, selectors.EVENT_READ, connection)
        while waiting:
            ready = selector.select(40)
            assert ready, f"{len(waiting)} clients got nothing"
            for key, _ in ready:
                connection = key.data
                data = connection.recv(65536)
                assert data, texts[connection]
                texts[connection] += data
                if awaited in texts[connection]:
                    waiting.discard(connection)
                    selector.unregister(connection)


def test_one_stream_more_than_the_limit_is_refused_until_another_is_closed(data: Path, serving: Serving) -> None:
    with serving(data) as server, ExitStack() as stack:
        sockets = [stack.enter_context(raw_stream(server, "channel=alerts")) for _ in range(100)]
        _read_all(dict.fromkeys(sockets, b""), b"event: subscribed")
        answer = server.viewer.get(EVENTS, channel="alerts")
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) > 0
        assert "--max-streams" in answer.message
        sockets[50].close()
        wait_until(lambda: _opens(server), "the end of the closed stream")


def _opens(server: Server) -> bool:
    with raw_stream(server, "channel=alerts") as connection:
        return b" 200 " in connection.recv(200)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with short heartbeats, over a log with a topic."""
    data = tmp_path_factory.mktemp("quick") / "data"
    with open_log(data) as log:
        log.create_topic("numbers")
    with start_server(data, heartbeat_seconds=0.1) as server:
        yield server


def test_a_stream_ends_when_its_token_expires(quick: Server) -> None:
    token = Tokens(quick.data).create("short", Role.VIEWER, seconds=3)
    with quick.anonymous().using(token=token).events(EVENTS, channel="topic:numbers") as events:
        begun(events)
        assert _last(events) == ("access", "the token or the session has expired, or was revoked")


def test_a_stream_ends_when_its_token_is_revoked(quick: Server) -> None:
    token = Tokens(quick.data).create("anna", Role.VIEWER)
    with quick.anonymous().using(token=token).events(EVENTS, channel="topic:numbers") as events:
        begun(events)
        Tokens(quick.data).revoke("anna")
        assert _last(events)[0] == "access"


def test_a_stream_ends_when_its_session_is_closed(quick: Server) -> None:
    opened = quick.anonymous().post("/api/v1/session", {"code": quick.code})
    cookie = opened.headers["set-cookie"].partition(";")[0]
    browser = quick.anonymous().using(headers={"Cookie": cookie, "X-Millstream": "1"})
    with browser.events(EVENTS, channel="topic:numbers") as events:
        begun(events)
        assert browser.delete("/api/v1/session").status == 200
        assert _last(events)[0] == "access"


def test_a_quiet_stream_gets_comments(quick: Server) -> None:
    with raw_stream(quick, "channel=topic:numbers") as connection:
        _read_all({connection: b""}, b": \n\n")


def _last(events: Iterator[Event]) -> tuple[str, str]:
    (last,) = events
    assert last.kind == "end"
    return last.data["reason"], last.data["message"]


def test_the_server_stops_though_streams_are_open_and_one_does_not_read(data: Path, log: Log, serving: Serving) -> None:
    log.produce("numbers", [number(value, 10_000) for value in range(1500)])
    with serving(data) as server:
        with (
            raw_stream(server, "channel=topic:numbers@start", receive_buffer=4096) as slow,
            server.viewer.events(EVENTS, channel="topic:numbers") as events,
        ):
            assert slow.recv(100)
            begun(events)
            began = time.monotonic()
            server.process.terminate()
            assert _last(events) == ("shutdown", "the server stops")
            assert server.process.wait(20) == 0
            assert time.monotonic() - began < 15
        assert server.text() == ""


def test_closed_streams_leave_nothing_behind(data: Path, log: Log, serving: Serving) -> None:
    with serving(data, most_streams=2) as server:
        for value in range(30):
            with server.viewer.events(EVENTS, channel=["topic:numbers", "applications"]) as events:
                begun(events)
                log.produce("numbers", [number(value)])
                assert next(event for event in events if event.kind == "topic").data["offset"] == value
            wait_until(lambda: _opens(server), "the end of the closed stream")
        assert server.text() == ""
