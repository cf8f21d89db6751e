"""What must not be possible: requests from other sites, paths out of the data directory, floods, forged log lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pickle
import socket
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.serve.in_process import InProcess
from tests.serve.raw import head_of, raw_answer
from tests.serve.servers import Server, listening

from millstream.errors import ConfigError
from millstream.serve.access.audit import Audit
from millstream.serve.access.guard import MOST_BYTES, Guard
from millstream.serve.access.roles import Role
from millstream.serve.options import ServeOptions

APPLICATIONS = "/api/v1/applications"


@pytest.fixture(scope="module")
def server(shop_in_process: InProcess) -> InProcess:
    return shop_in_process


@pytest.fixture(scope="module")
def admin(server: InProcess) -> str:
    return server.access.tokens.create("admin", Role.ADMIN)


# ----- sockets -------------------------------------------------------------------------------------------------------


def test_a_server_listens_on_loopback_only(shop_server: Server) -> None:
    assert listening(shop_server.process.pid) == {f"0100007F:{shop_server.port:04X}"}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "streams.example.com", "127.0.0.1.evil.example", ""])
def test_another_address_than_loopback_needs_tls_or_an_explicit_word(host: str) -> None:
    with pytest.raises(ConfigError, match="without TLS"):
        ServeOptions(host=host)
    with pytest.raises(ConfigError, match="without tokens"):
        ServeOptions(host=host, is_open=True, insecure=True)
    assert ServeOptions(host=host, insecure=True).scheme == "http"


# ----- host and origin -----------------------------------------------------------------------------------------------

HOSTS = [
    "evil.example", "evil.example:8088", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8088.evil.example", "localhost",
    "localhost.:8088", "localhost:8088:8088", "localhost:08088", "127.1:8088", "2130706433:8088", "0x7f000001:8088",
    "0.0.0.0:8088", "[::ffff:127.0.0.1]:8088", "[::1]", "[::1%25lo]:8088", "a/b?", "a#b", "127.0.0.1:8088/", "",
    "127.0.0.1:8088@evil.example", "evil.example@127.0.0.1:8088", " 127.0.0.1:8088", "127.0.0.1:8088 ",
    "127.0.0.1 :8088", "127.0.0.1:8088,evil.example", "127.0.0.1:8088\x00", "127.0.0.1:8088\t",
    "\xe9.example:8088", "rebind.example:8088",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_a_request_for_another_host_is_refused(server: InProcess, admin: str, host: str) -> None:
    answer = server.request("GET", APPLICATIONS, token=admin, headers={"host": host})
    assert (answer.status, "not one of this server" in answer.message) == (400, True)


def test_the_hosts_of_a_server_are_those_of_its_address_and_the_allowed_ones() -> None:
    assert ServeOptions().hosts(8088) == {"127.0.0.1:8088", "localhost:8088", "[::1]:8088"}
    assert ServeOptions().hosts(80) >= {"127.0.0.1", "localhost:80", "[::1]"}
    names = ("streams.example.com", "other.example:8443", "fd00::7")
    proxied = ServeOptions(host="0.0.0.0", insecure=True, allowed_hosts=names)
    assert proxied.hosts(8088) == {
        *("0.0.0.0:8088", "127.0.0.1:8088", "localhost:8088", "[::1]:8088"),
        *("streams.example.com", "streams.example.com:8088", "other.example:8443", "[fd00::7]", "[fd00::7]:8088"),
    }
    assert {"https://streams.example.com", "http://127.0.0.1:8088"} <= proxied.origins(8088)
    assert "https://127.0.0.1:8088" not in ServeOptions().origins(8088)


def test_a_header_that_must_be_unique_cannot_be_sent_twice(shop_server: Server) -> None:
    for name, value in (("Host", f"127.0.0.1:{shop_server.port}"), ("Origin", f"http://127.0.0.1:{shop_server.port}")):
        lines = f"Host: 127.0.0.1:{shop_server.port}\r\n{name}: {value}\r\n{name}: http://evil.example\r\n"
        assert raw_answer(shop_server.port, f"GET /openapi.json HTTP/1.1\r\n{lines}\r\n").startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1:8088"},
        {"origin": "http://127.0.0.1:8089"},
        {"origin": "http://127.0.0.1"},
        {"origin": ""},
        {"origin": "file://"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "nonsense"},
    ],
)
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_change_from_another_site_is_refused(
    server: InProcess, admin: str, method: str, headers: dict[str, str]
) -> None:
    for content in ("application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        given = {**headers, "content-type": content}
        assert server.request(method, "/api/v1/session", token=admin, body=b"{}", headers=given).status == 403


def test_no_answer_permits_other_origins(server: InProcess, admin: str) -> None:
    for method in ("GET", "OPTIONS"):
        headers = {"origin": "http://127.0.0.1:8088", "access-control-request-method": "POST"}
        answer = server.request(method, APPLICATIONS, token=admin, headers=headers)
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


# ----- bodies --------------------------------------------------------------------------------------------------------


class _Explodes:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("/tmp/millstream-unpickled"),)


def test_a_body_is_json_and_nothing_else(server: InProcess, admin: str) -> None:
    bodies = [
        pickle.dumps(_Explodes()),
        b"!!python/object/apply:os.system ['true']",
        b"\xff\xfe",
        b"",
        b"[]",
        b"null",
        b'"x"',
    ]
    for body in bodies:
        for kind in ("application/json", "application/x-python-pickle", "application/x-yaml", "text/plain", ""):
            headers = {"content-type": kind}
            answer = server.request("POST", "/api/v1/topics/orders/records", token=admin, body=body, headers=headers)
            assert answer.status in {400, 415, 422}, (body, kind, answer)
    assert not Path("/tmp/millstream-unpickled").exists()


@pytest.mark.parametrize("depth", [100, 500, 990, 5_000, 200_000])
def test_a_deeply_nested_body_is_refused_or_written(server: InProcess, admin: str, depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        value = opening * depth + ("1" if opening != "[" else "") + closing * depth
        body = f'{{"records": [{{"key": "k", "value": {value}}}]}}'.encode()
        if len(body) > MOST_BYTES:
            continue
        headers = {"content-type": "application/json"}
        answer = server.request("POST", "/api/v1/topics/counts/records", token=admin, body=body, headers=headers)
        assert answer.status in {400, 422}, answer
        assert b"Traceback" not in answer.body


def test_numbers_beyond_all_bounds_are_refused(server: InProcess, admin: str) -> None:
    headers = {"content-type": "application/json"}
    for number in ("9" * 5_000, "1e999", "-1e999", "NaN", "Infinity"):
        for field in ("timestamp", "partition", "value"):
            body = f'{{"records": [{{"key": "k", "{field}": {number}}}]}}'.encode()
            answer = server.request("POST", "/api/v1/topics/counts/records", token=admin, body=body, headers=headers)
            assert answer.status in {400, 422}, (number[:10], field, answer)
    for query in (
        "limit=1001",
        "limit=0",
        "limit=-1",
        "limit=1e3",
        "offset=9223372036854775808",
        "partition=-1",
        "partition=2",
    ):
        assert server.request("GET", f"/api/v1/topics/orders/records?{query}", token=admin).status in {404, 422}, query


def test_a_body_that_is_too_large_is_refused_whether_its_length_is_told_or_not(shop_server: Server) -> None:
    path = "/api/v1/topics/orders/records"
    # The server answers before it has the whole body. So nothing follows that it would refuse to read.
    head = head_of(shop_server, path, "POST", f"Content-Length: {MOST_BYTES + 1}\r\n")
    assert raw_answer(shop_server.port, head).startswith(b"HTTP/1.1 413")
    head = head_of(shop_server, path, "POST", "Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n")
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    answer = raw_answer(shop_server.port, head.encode() + chunk * (MOST_BYTES // 0x10000 + 1))
    assert answer.startswith(b"HTTP/1.1 413"), answer[:200]
    for length in ("-1", "1e3", "+5", "５"):
        head = head_of(shop_server, path, "POST", f"Content-Length: {length}\r\n")
        assert raw_answer(shop_server.port, head.encode()).startswith(b"HTTP/1.1 400")


def test_a_compressed_body_is_not_expanded(server: InProcess, admin: str) -> None:
    import gzip

    body = gzip.compress(b'{"records": [' + b" " * 10_000_000 + b"]}")
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    answer = server.request("POST", "/api/v1/topics/counts/records", token=admin, body=body, headers=headers)
    assert answer.status in {400, 422}


def test_headers_that_are_too_large_are_refused(shop_server: Server) -> None:
    head = head_of(shop_server, "/healthz", "GET", f"X-Large: {'x' * 200_000}\r\n")
    assert raw_answer(shop_server.port, head.encode()).split()[1:2] in ([b"431"], [b"400"], [])
    assert shop_server.anonymous().get("/healthz").status == 200


def test_requests_that_never_end_do_not_keep_others_from_an_answer(shop_server: Server) -> None:
    port = shop_server.port
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
    try:
        head = f"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 99\r\n\r\n{{"
        for number, connection in enumerate(connections):
            connection.sendall(head.encode()[: (0, 20, None)[number % 3]])  # nothing, a part of the head, of the body
        assert shop_server.anonymous().get("/healthz").status == 200
        assert shop_server.viewer.get(APPLICATIONS).status == 200
    finally:
        for connection in connections:
            connection.close()


def test_a_request_without_an_answer_in_time_is_told_to_try_again(tmp_path: Path) -> None:
    cancelled = threading.Event()

    async def slow(_scope: Any, _receive: Any, _send: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    guard = Guard(slow, {"127.0.0.1:8088"}, set(), Audit(tmp_path), seconds=0.05)
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    async def receive() -> Any:
        await asyncio.Event().wait()

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"127.0.0.1:8088")]}
    asyncio.run(guard(scope, receive, send))
    assert messages[0]["status"] == 503
    assert (b"retry-after", b"1") in messages[0]["headers"]
    assert "no answer after" in json.loads(messages[1]["body"])["error"]["message"]
    assert cancelled.wait(5)


def test_an_answer_that_comes_after_the_time_is_dropped_and_not_waited_for(tmp_path: Path) -> None:
    messages: list[Any] = []

    async def exchange() -> None:
        answered = asyncio.Event()

        async def stubborn(_scope: Any, _receive: Any, send: Any) -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await answered.wait()  # it would wait for ever if the answer waited for it
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"late"})

        async def send(message: Any) -> None:
            messages.append(message)
            answered.set()

        async def receive() -> Any:
            await asyncio.Event().wait()

        guard = Guard(stubborn, {"127.0.0.1:8088"}, set(), Audit(tmp_path), seconds=0.05)
        await guard(
            {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"127.0.0.1:8088")]}, receive, send
        )

    asyncio.run(exchange())
    assert [message.get("status") for message in messages] == [503, None]
    assert b"late" not in messages[1]["body"]


def test_an_unexpected_error_has_no_traceback_in_its_answer(server: InProcess, admin: str, capfd: Any) -> None:
    def fails(*_args: Any) -> None:
        raise RuntimeError("a secret thing\nmillstream: forged")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("millstream.serve.operations.groups.suggestion", fails)
        answer = server.request("GET", "/api/v1/groups/nothing", token=admin)
    assert answer.status == 500
    assert answer.json()["error"]["code"] == "unexpected"
    assert b"secret thing" not in answer.body
    printed = capfd.readouterr().err
    assert answer.json()["request_id"] in printed
    assert "secret thing" in printed
    assert "\nmillstream: forged" not in printed


def test_large_records_are_shown_in_pages_of_bounded_size(server: InProcess, admin: str) -> None:
    from millstream.log import ProducerRecord, open_log

    with open_log(server.data) as log:
        log.create_topic("large", 2)
        for _ in range(20):
            log.produce("large", [ProducerRecord(None, b"x" * 900_000, 0, (), number) for number in (0, 1)])
    for newest in ("false", "true"):
        cursor, seen = "", []
        while cursor is not None:
            query = f"limit=1000&newest={newest}" + (f"&cursor={quote(cursor)}" if cursor else "")
            answer = server.request("GET", f"/api/v1/topics/large/records?{query}", token=admin)
            assert len(answer.body) < 8_000_000
            seen += [(each["partition"], each["offset"]) for each in answer.json()["records"]]
            cursor = answer.json()["cursor"]
        assert sorted(seen) == [(number, offset) for number in (0, 1) for offset in range(20)]
