"""Names that would reach other files, and texts that would forge lines of a log."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.serve.conftest import LiveShop, Serving
from tests.serve.in_process import InProcess, in_process
from tests.serve.raw import head_of, raw_answer
from tests.serve.servers import Server, wait_until

from millstream.serve.access.audit import Audit
from millstream.serve.access.roles import Role

APPLICATIONS = "/api/v1/applications"


@pytest.fixture(scope="module")
def server(shop_in_process: InProcess) -> InProcess:
    return shop_in_process


@pytest.fixture(scope="module")
def admin(server: InProcess) -> str:
    return server.access.tokens.create("admin", Role.ADMIN)


# ----- names and paths -----------------------------------------------------------------------------------------------

NAMES = [
    "..", "../x", "%2e%2e", "%2e%2e%2f", "..%252f", "..%2f..%2f..%2fetc%2fpasswd", "%00", "a%00b", "/etc/passwd",
    "%2fetc%2fpasswd", "C:%5c", "..%5c..%5c", "a" * 250, "a" * 5000, "%ef%bc%8e%ef%bc%8e", "a%0ab", ".", "con", "a%20",
    "%20", "%7e", "%c0%ae%c0%ae", "%ff", "%ed%a0%80", "$%7bjndi:x%7d", "%27;drop", "%3cscript%3e", "*", "%", "..;",
    "..%00/", "%2e", "%252e%252e", "%25252e%25252e%25252f", "..%c0%af", "..%e0%80%af", "%c1%9c..", "%uff0e%uff0e",
    "%u002e%u002e%u2215", "..%ef%bc%8f", "..%e2%88%95", "%e2%80%a5", "%ef%b8%b0", ".%e2%80%8b.", "..%0d%0a", "%09..",
    "%5c%5chost%5cshare", "%5c%5c%3f%5cC:", "file:%2f%2f%2fetc%2fpasswd", "%2fproc%2fself%2fenviron", "%2fdev%2fstdin",
    "..%5c", "....%2f%2f", "....//....//", "..%3b%2f", "shop%2f..%2fshop", "shop%2frun", "shop%00.json", "shop%2e",
    "SHOP", "Shop", "shop.", "shop%20", "%20shop", "sh%c2%adop", "s%cc%81hop", "%d1%95hop", "nul", "aux.txt", "CON%3a",
    "-rf", "--help", "~", "~root", "$HOME", "$(id)", "%60id%60", "|id", "a;b", "a&b", "%7f", "%1b%5b0m",
    "x" * 249 + "%ff",
]  # fmt: skip
PATHS = [
    "/api/v1/applications/{}",
    "/api/v1/applications/{}/topology",
    "/api/v1/applications/{}/configuration",
    "/api/v1/topics/{}",
    "/api/v1/topics/{}/records",
    "/api/v1/groups/{}",
    "/api/v1/dead-letters/{}/records",
    "/{}",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_reaches_no_path(server: InProcess, admin: str, name: str) -> None:
    refused = {400, 404, 405, 422}
    for path in PATHS:
        if path == "/{}" and name in {".", "%2e"}:
            continue  # the console
        answer = server.request("GET", path.format(name), token=admin)
        assert answer.status in refused, (path, answer)
        assert b"root:" not in answer.body
        assert b"Traceback" not in answer.body
    for command in ("pause", "stop"):
        assert server.request("POST", f"/api/v1/applications/{name}/{command}", token=admin).status in refused
    commands = list(server.data.rglob("commands/*")), list(server.data.rglob("*/run/*"))
    assert commands[0] == []
    assert {file.parents[1].name for file in commands[1]} == {"shop"}


def test_links_out_of_the_data_directory_are_not_followed(live_shop: LiveShop, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = outside / "secret"
    secret.write_text('{"sentinel": 1}')
    run = live_shop.data / "applications" / "shop" / "run"
    (live_shop.data / "applications" / "linked").symlink_to(outside)
    (outside / "run").mkdir()
    wait_until((run / "report.json").exists, "the report")
    (outside / "run" / "report.json").write_text((run / "report.json").read_text())
    with in_process(live_shop.data) as server:
        token = server.access.tokens.create("admin", Role.ADMIN)

        def get(path: str) -> tuple[int, str]:
            answer = server.request("GET", f"{APPLICATIONS}{path}", token=token)
            return answer.status, answer.body.decode()

        assert [each["id"] for each in json.loads(get("")[1])["applications"]] == ["shop"]
        assert get("/linked")[0] == 404
        for name in ("topology.json", "topology.text", "configuration.json"):
            (run / name).unlink()
            (run / name).symlink_to(secret)
        for part in ("", "/topology", "/topology?format=text", "/configuration", "/stores"):
            assert "sentinel" not in get(f"/shop{part}")[1]
        (run / "commands").rename(outside / "commands")
        (run / "commands").symlink_to(outside / "commands")
        answer = server.request("POST", f"{APPLICATIONS}/shop/stop", token=token)
        assert (answer.status, "a link leads out" in answer.message) == (409, True)
        assert list((outside / "commands").iterdir()) == []


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=40))
def test_any_text_as_a_name_is_unknown_or_refused(server: InProcess, admin: str, name: str) -> None:
    if name in {"shop", "orders"}:
        return
    for path in PATHS[:6]:
        answer = server.request("GET", path.format(quote(name, safe="")), token=admin)
        # Starlette decodes %2F, so that a name with a slash may be another path, such as the list.
        assert answer.status in {400, 404, 405, 422} or "/" in name or name == ".", (path, answer)


def test_the_console_serves_its_own_files_only(shop_server: Server, tmp_path: Path) -> None:
    assert shop_server.anonymous().get("/").status == 200
    for path in ("/../web.py", "/..%2fweb.py", "/%2e%2e/web.py", "//etc/passwd", "/.%00./", "/index.html/../../web.py"):
        assert raw_answer(shop_server.port, head_of(shop_server, path)).split()[1] in {b"404", b"400"}, path


# ----- logs and files ------------------------------------------------------------------------------------------------

FORGED = '{"who": "root", "status": 200}'
BREAKS = [
    "\n",
    "\r",
    "\r\n",
    "\v",
    "\f",
    "\x1c",
    "\x1d",
    "\x1e",
    "\x85",
    "\u2028",
    "\u2029",
    "\x00",
    "\\n",
    "%0a",
    "\n\n",
]
TERMINAL = [
    "\x1b[31mred", "\x1b[2J", "\x1b[1A\x1b[2K", "\x1b]0;title\x07", "\x1b]8;;x\x1b\\link", "\x1bc", "\x9b31m",
    "\x1b[?1049h", "\x1bP$q\x1b\\", "\x1b_x\x1b\\", "\b\b\b\b", "\x7f", "\x07", "\t", "\x0e", "\x90", "\x9d0;x\x9c",
]  # fmt: skip
DISGUISED = [
    "\u202e",
    "\u202d",
    "\u2066",
    "\u2069",
    "\u200b",
    "\u200f",
    "\ufeff",
    "\u00ad",
    "\ufffe",
    "\U000e0041",
    "\u0301" * 50,
]
OTHERS = [
    '"',
    '","who":"root',
    "\\",
    "\\u000a",
    "${jndi:ldap:x}",
    "%s%n%x",
    "{0}",
    "<b>",
    "x" * 5000,
    "e\u0301\U0001f600",
]
FORGERIES = [*(f"a{each}{FORGED}" for each in BREAKS), *TERMINAL, *DISGUISED, *OTHERS]


def test_a_name_cannot_forge_a_line_of_the_audit_log(server: InProcess, admin: str) -> None:
    assert len(FORGERIES) >= 50
    before = _lines(server)
    for text in FORGERIES:
        name = quote(text, safe="")
        server.request("POST", f"/api/v1/applications/{name}/pause", token=admin)
    lines = _lines(server)[len(before) :]
    assert len(lines) == len(FORGERIES)
    for line in lines:
        assert line.isascii()
        assert line.isprintable()
        assert json.loads(line)["who"] == "admin"
        assert len(line) < 3000


def test_what_was_changed_is_noted_without_keys_and_values(server: InProcess, admin: str) -> None:
    body = {"records": [{"key": "sentinel-key", "value": 1}] * 3}
    assert server.request("POST", "/api/v1/topics/counts/records", token=admin, json_body=body).status == 201
    line = json.loads(_lines(server)[-1])
    assert (line["path"], line["what"]) == ("/api/v1/topics/counts/records", {"records": 3})
    assert "sentinel" not in json.dumps(line)


def test_the_files_of_a_server_and_of_reports_are_private(server: InProcess, admin: str) -> None:
    server.request("POST", "/api/v1/applications/shop/pause", token=admin)
    for file in [server.data / "access", *server.data.rglob("access/*"), *server.data.glob("applications/*/run/**/*")]:
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file


def test_the_audit_log_is_not_written_through_a_link(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "target"
    target.touch()
    audit = Audit(tmp_path)
    (tmp_path / "access").mkdir()
    (tmp_path / "access" / "audit.log").symlink_to(target)
    audit.write(who="anna")
    assert target.read_text() == ""
    assert '"who": "anna"' in capfd.readouterr().err


def test_a_data_directory_that_all_users_can_write_is_refused(serving: Serving, data: Path) -> None:
    data.mkdir()
    data.chmod(0o777)
    with in_process(data, is_open=True) as server:
        answer = server.request("GET", APPLICATIONS)
        assert (answer.status, "writable by all users" in answer.message) == (503, True)
    data.chmod(0o700)


def _lines(server: InProcess) -> list[str]:
    file = server.data / "access" / "audit.log"
    return file.read_text().splitlines() if file.exists() else []
