"""Access to the server: tokens, sessions of browsers, limits, and the audit log."""

from __future__ import annotations

import base64
import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.client import Answer, Client
from tests.serve.conftest import Serving
from tests.serve.in_process import InProcess, in_process
from tests.serve.servers import Server, wait_until

from millstream.errors import ConfigError, SetupError
from millstream.serve.access.limits import Rates
from millstream.serve.access.roles import Role
from millstream.serve.access.tokens import Tokens

SESSION = "/api/v1/session"
PAUSE = "/api/v1/applications/shop/pause"
OWN = {"X-Millstream": "1"}


@pytest.fixture
def server(data: Path) -> Iterator[InProcess]:
    with in_process(data) as server:
        yield server


def audit(data: Path) -> list[dict]:
    file = data / "access" / "audit.log"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def cookie_of(answer: Answer) -> dict[str, str]:
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


# ----- sessions ------------------------------------------------------------------------------------------------------


def test_the_code_in_the_address_opens_one_session_of_an_admin(serving: Serving, data: Path) -> None:
    with serving(data) as server:
        client = server.anonymous()
        opened = client.post(SESSION, {"code": server.code})
        assert (opened.status, opened.json()["role"]) == (200, "admin")
        cookie = opened.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
        assert server.code not in cookie
        with_cookie = client.using(headers=cookie_of(opened))
        assert with_cookie.get(SESSION).json()["name"] == "console"
        assert client.post(SESSION, {"code": server.code}).status == 401
        # The code is in no log.
        assert server.code not in server.text()
        assert server.code not in (data / "access" / "audit.log").read_text()


def test_a_session_ends_when_it_is_closed(server: InProcess) -> None:
    opened = server.request("POST", SESSION, json_body={"code": server.access.sessions.new_code()})
    cookie = cookie_of(opened)
    assert server.request("GET", SESSION, headers=cookie).status == 200
    closed = server.request("DELETE", SESSION, headers={**cookie, **OWN})
    assert closed.status == 200
    assert 'millstream_session=""' in closed.headers["set-cookie"]
    assert server.request("GET", SESSION, headers=cookie).status == 401


def test_a_change_with_a_cookie_needs_the_header_of_the_console(server: InProcess) -> None:
    opened = server.request("POST", SESSION, json_body={"code": server.access.sessions.new_code()})
    refused = server.request("POST", PAUSE, headers=cookie_of(opened))
    assert (refused.status, "X-Millstream" in refused.message) == (403, True)
    assert server.request("POST", PAUSE, headers={**cookie_of(opened), **OWN}).status not in {401, 403}
    token = server.access.tokens.create("script", Role.OPERATOR)
    assert server.request("POST", PAUSE, token=token).status not in {401, 403}


def test_a_cookie_is_marked_secure_where_the_browser_speaks_tls(data: Path) -> None:
    with in_process(data, host="0.0.0.0", insecure=True, allowed_hosts=("streams.example.com",)) as server:
        code = server.access.sessions.new_code()
        headers = {"host": "streams.example.com", "origin": "https://streams.example.com"}
        opened = server.request("POST", SESSION, json_body={"code": code}, headers=headers)
        assert opened.status == 200
        assert "Secure" in opened.headers["set-cookie"]


def test_a_token_opens_a_session_with_its_role_that_ends_with_the_token(server: InProcess) -> None:
    token = server.access.tokens.create("anna", Role.OPERATOR)
    opened = server.request("POST", SESSION, json_body={"token": token})
    assert opened.json() == {"name": "anna", "role": "operator", "stores": [], "auth": True}
    assert server.request("GET", SESSION, headers=cookie_of(opened)).status == 200
    server.access.tokens.revoke("anna")
    assert server.request("GET", SESSION, headers=cookie_of(opened)).status == 401


@pytest.mark.parametrize("body", [{}, {"code": "x"}, {"token": "x"}, {"token": "ms_00000000_" + "a" * 43}])
def test_no_session_without_a_valid_code_or_token(server: InProcess, body: dict) -> None:
    refused = server.request("POST", SESSION, json_body=body)
    assert refused.status == 401
    assert "set-cookie" not in refused.headers


# ----- tokens --------------------------------------------------------------------------------------------------------


def test_a_running_server_takes_a_new_token_and_refuses_a_revoked_one_at_once(shop_server: Server) -> None:
    tokens = Tokens(shop_server.data)
    client = shop_server.anonymous().using(token=tokens.create("passing", Role.VIEWER))
    assert client.get("/api/v1/applications").status == 200
    tokens.revoke("passing")
    assert client.get("/api/v1/applications").status == 401


def test_a_token_is_sent_as_bearer_or_as_the_password_of_basic(server: InProcess) -> None:
    token = server.access.tokens.create("anna", Role.VIEWER)

    def status(authorization: str) -> int:
        return server.request("GET", SESSION, headers={"authorization": authorization}).status

    def basic(text: str) -> str:
        return f"Basic {base64.b64encode(text.encode()).decode()}"

    assert [status(f"Bearer {token}"), status(f"bearer  {token}"), status(basic(f"anyone:{token}"))] == [200] * 3
    wrong = [basic(token), basic(""), "Basic ö", "Basic ====", "Bearer", token, f"Digest {token}", f"Bearer {token}x"]
    assert {status(authorization) for authorization in wrong} == {401}
    assert server.request("GET", SESSION).headers["www-authenticate"].startswith("Bearer")


def test_an_expired_token_is_refused(server: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    token = server.access.tokens.create("short", Role.VIEWER, seconds=60)
    opened = server.request("POST", SESSION, json_body={"token": token})
    assert server.request("GET", SESSION, token=token).status == 200
    now = server.access.tokens.list()[0].created / 1000
    monkeypatch.setattr("time.time", lambda: now + 61)
    assert server.request("GET", SESSION, token=token).status == 401
    assert server.request("GET", SESSION, headers=cookie_of(opened)).status == 401


def test_a_token_that_is_limited_to_stores_reads_no_topics(server: InProcess) -> None:
    token = server.access.tokens.create("partner", Role.VIEWER, stores=("shop/public-*",))
    assert server.request("GET", SESSION, token=token).json()["stores"] == ["shop/public-*"]
    for path in ("/api/v1/topics", "/api/v1/topics/orders/records", "/api/v1/dead-letters", "/api/v1/groups"):
        refused = server.request("GET", path, token=token)
        assert (refused.status, "limited to stores" in refused.message) == (403, True), path


def test_tokens_are_kept_as_hashes_in_files_of_their_owner(data: Path) -> None:
    tokens = Tokens(data)
    text = tokens.create("anna", Role.VIEWER)
    secret = text[-24:]  # the random part may have underscores, too
    modes = {}
    for file in [data, *data.rglob("*")]:
        modes[file.name] = stat.S_IMODE(file.stat().st_mode)
        if file.is_file():
            assert secret not in file.read_text()
    assert modes == {"data": 0o700, "access": 0o700, "tokens.json": 0o600, "lock": 0o600}


def test_tokens_that_other_users_can_read_are_not_used(server: InProcess, capfd: pytest.CaptureFixture[str]) -> None:
    token = server.access.tokens.create("anna", Role.VIEWER)
    file = server.data / "access" / "tokens.json"
    file.chmod(0o644)
    answer = server.request("GET", SESSION, token=token)
    assert (answer.status, str(file) in answer.body.decode()) == (503, False)
    assert f"chmod 600 {file}" in capfd.readouterr().err
    with pytest.raises(SetupError, match="can be read by other users"):
        Tokens(server.data).list()


@pytest.mark.parametrize("content", [b"", b"{}", b"[{}]", b'[{"id": "1", "name": "a", "role": "king"}]', b"\xff"])
def test_a_damaged_file_of_tokens_lets_nobody_in(server: InProcess, content: bytes) -> None:
    token = server.access.tokens.create("anna", Role.VIEWER)
    (server.data / "access" / "tokens.json").write_bytes(content)
    assert server.request("GET", SESSION, token=token).status == 503


def test_a_token_has_a_unique_name_and_a_sensible_duration(data: Path) -> None:
    tokens = Tokens(data)
    tokens.create("anna", Role.VIEWER)
    with pytest.raises(ConfigError, match="there is a token 'anna'"):
        tokens.create("anna", Role.ADMIN)
    for seconds in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ConfigError, match="cannot be valid for"):
            tokens.create("bo", Role.ADMIN, seconds=seconds)
    with pytest.raises(ConfigError, match="there is no token 'bo'"):
        tokens.revoke("bo")


def test_processes_that_create_tokens_at_once_lose_none(data: Path) -> None:
    program = """
import sys
from pathlib import Path
from millstream.serve.access.roles import Role
from millstream.serve.access.tokens import Tokens
for number in range(10):
    Tokens(Path(sys.argv[1])).create(f"{sys.argv[2]}-{number}", Role.VIEWER)
"""
    children = [subprocess.Popen([sys.executable, "-c", program, str(data), name]) for name in ("a", "b")]
    assert [child.wait() for child in children] == [0, 0]
    assert len(Tokens(data).list()) == 20


# ----- limits --------------------------------------------------------------------------------------------------------


def test_a_sender_with_too_many_requests_is_told_to_wait(server: InProcess) -> None:
    server.access.rates = Rates(per_second=2, clock=lambda: 0.0)
    anna, bo = (server.access.tokens.create(name, Role.VIEWER) for name in ("anna", "bo"))
    statuses = [server.request("GET", SESSION, token=anna).status for _ in range(6)]
    assert statuses == [200] * 4 + [429] * 2
    assert server.request("GET", SESSION, token=anna).headers["retry-after"] == "1"
    assert server.request("GET", SESSION, token=bo).status == 200


def test_an_address_with_too_many_failed_attempts_is_told_to_wait_and_valid_tokens_are_not(server: InProcess) -> None:
    server.access.rates = Rates(failures=2, clock=lambda: 0.0)
    token = server.access.tokens.create("anna", Role.VIEWER)
    statuses = [server.request("GET", SESSION, token="wrong").status for _ in range(6)]
    assert statuses == [401] * 4 + [429] * 2
    assert server.request("POST", SESSION, json_body={"code": "x"}).status == 429
    assert server.request("GET", SESSION, token=token).status == 200
    assert server.request("GET", SESSION, token="wrong", address="10.0.0.2").status == 401


# ----- audit ---------------------------------------------------------------------------------------------------------


def test_changes_and_refused_changes_have_a_line_in_the_audit_log(server: InProcess) -> None:
    viewer, operator = (server.access.tokens.create(r.name.lower(), r) for r in (Role.VIEWER, Role.OPERATOR))
    server.request("POST", PAUSE)
    server.request("GET", "/api/v1/applications", token=operator)
    refused = server.request("POST", PAUSE, token=viewer)
    failed = server.request("POST", PAUSE, token=operator)
    lines = audit(server.data)
    assert [(line["who"], line["role"], line["method"], line["path"], line["status"]) for line in lines] == [
        ("viewer", "viewer", "POST", PAUSE, 403),
        ("operator", "operator", "POST", PAUSE, failed.status),
    ]
    assert [line["request"] for line in lines] == [refused.headers["x-request-id"], failed.headers["x-request-id"]]
    assert stat.S_IMODE((server.data / "access" / "audit.log").stat().st_mode) == 0o600


def test_senders_without_a_token_cannot_fill_the_audit_log(server: InProcess) -> None:
    for _ in range(20):
        server.request("POST", PAUSE)
        server.request("POST", SESSION, json_body={"code": "x"})
    assert audit(server.data) == []


def test_a_full_audit_log_is_kept_for_a_while(server: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.serve.access.audit._MOST_BYTES", 300)
    token = server.access.tokens.create("operator", Role.OPERATOR)
    for _ in range(30):
        server.request("POST", PAUSE, token=token)
    names = sorted(file.name for file in (server.data / "access").glob("audit.log*"))
    assert names == [f"audit.log.{number}" for number in range(1, 6)]


# ----- open servers --------------------------------------------------------------------------------------------------


def test_a_server_without_access_control_needs_no_token_and_still_checks_the_origin(data: Path) -> None:
    with in_process(data, is_open=True) as server:
        assert server.request("GET", SESSION).json() == {"name": "anyone", "role": "admin", "stores": [], "auth": False}
        assert server.request("POST", PAUSE, headers={"origin": "http://evil.example"}).status == 403
        assert server.request("POST", PAUSE, headers={"sec-fetch-site": "cross-site"}).status == 403
        assert server.request("GET", SESSION, headers={"host": "evil.example"}).status == 400


def test_a_health_check_needs_neither_a_token_nor_a_host(shop_server: Server) -> None:
    client = shop_server.anonymous()
    for path in ("/healthz", "/readyz"):
        assert client.request("GET", path, headers={"Host": "10.1.2.3"}).status == 200
        head = client.request("HEAD", path, headers={"Host": "10.1.2.3"})
        assert (head.status, head.body) == (200, b"")


def test_a_client_with_http_2_without_tls_is_served(shop_server: Server) -> None:
    httpx = pytest.importorskip("httpx")
    with httpx.Client(http1=False, http2=True, trust_env=False) as client:
        headers = {"Authorization": f"Bearer {shop_server.token(Role.VIEWER)}"}
        answer = client.get(f"http://127.0.0.1:{shop_server.port}/api/v1/applications", headers=headers)
        assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
        refused = client.get(f"http://127.0.0.1:{shop_server.port}/docs", headers={**headers, "Host": "evil.example"})
        assert refused.status_code == 400


def test_the_reference_of_the_api_is_a_page_without_scripts(shop_server: Server) -> None:
    page = shop_server.viewer.get("/docs")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"/api/v1/applications/{application}/pause" in page.body
    assert b"<script" not in page.body
    assert "script-src" not in page.headers["content-security-policy"]
    assert shop_server.viewer.get("/openapi.json").json()["info"]["title"] == "Millstream"
    assert shop_server.anonymous().get("/docs").status == 401


def test_an_open_connection_does_not_hold_up_the_end_of_the_server(serving: Serving, data: Path) -> None:
    with serving(data) as server:
        connection = Client("127.0.0.1", server.port).connect()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        server.process.terminate()
        wait_until(lambda: server.process.poll() is not None, "the end of the server")
        connection.close()
