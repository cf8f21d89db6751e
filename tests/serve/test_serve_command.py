"""`millstream serve`, `millstream tokens`, and the server beside an application."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.cli.conftest import MILLSTREAM, Result, Run, checked, environment, run_in
from tests.processes import below, running
from tests.serve import shop
from tests.serve.client import Client
from tests.serve.servers import listening, wait_until

from millstream.cli.main import main
from millstream.config import Config
from millstream.errors import ConfigError, SetupError
from millstream.log import open_log
from millstream.runtime.observe.server import Server

pytestmark = pytest.mark.slow  # most tests start processes

CONSOLE = "millstream: the console is at "

APPLICATION = """
from pathlib import Path
import sys

sys.path.insert(0, "{root}")
from tests.serve import shop

app = shop.build(Path("{data}"), report_interval_ms=50)
"""


@pytest.fixture
def here(data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process, which is quicker."""
    monkeypatch.setenv("MILLSTREAM_DATA", str(data))
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: checked(Result(main(arguments), *capsys.readouterr()))


@pytest.fixture
def command(data: Path) -> Run:
    """Runs a command in a process."""
    return run_in(data)


@contextmanager
def started(data: Path, *arguments: str) -> Iterator[subprocess.Popen]:
    """Starts a command that runs until it is ended. What it prints to stderr is in the file `err` beside the data."""
    data.parent.mkdir(exist_ok=True)
    with (data.parent / "err").open("w") as err:
        process = subprocess.Popen(
            [str(MILLSTREAM), *arguments],
            env=environment(data),
            cwd=data.parent,
            stdout=err,
            stderr=err,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def printed(data: Path) -> str:
    return (data.parent / "err").read_text()


def address_of(data: Path, process: subprocess.Popen) -> str:
    """The address that a command prints once its server listens."""

    def address() -> str:
        assert process.poll() is None, printed(data)
        return next((line.removeprefix(CONSOLE) for line in printed(data).splitlines() if CONSOLE in line), "")

    return wait_until(address, "the address of the console")


def client_of(address: str, **changes: Any) -> Client:
    parts = urlsplit(address)
    assert parts.hostname is not None
    assert parts.port is not None
    return Client(parts.hostname, parts.port, **changes)


def token_of(command: Run, *options: str) -> str:
    return command("tokens", "create", *options).out.strip()


# ----- millstream serve ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_until_it_is_ended(data: Path, command: Run, number: int) -> None:
    token = token_of(command, "anna", "--role", "operator")
    with started(data, "serve", "--port", "0") as process:
        address = address_of(data, process)
        assert "#code=" in address
        assert f"there is no log in {data} yet" in " ".join(printed(data).split())
        with open_log(data) as log:
            log.create_topic("orders")
        assert client_of(address, token=token).get("/api/v1/topics").json()["topics"][0]["name"] == "orders"
        process.send_signal(number)
        assert process.wait(30) == 0, printed(data)
    assert "Traceback" not in printed(data)


def test_without_access_control_the_command_warns_and_the_address_has_no_code(data: Path) -> None:
    with open_log(data):
        pass
    with started(data, "serve", "--port", "0", "--auth", "off") as process:
        address = address_of(data, process)
        assert "#code" not in address
        assert "warning: --auth off: every process and every user of this machine is an admin" in printed(data)
        assert client_of(address).get("/api/v1/session").json()["role"] == "admin"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--host", "0.0.0.0"], "cannot listen on 0.0.0.0 without TLS", "--insecure"),
        (["--host", "0.0.0.0", "--auth", "off", "--insecure"], "cannot listen on 0.0.0.0 without tokens", "--auth off"),
        (["--tls-certificate", "none.pem"], "TLS needs a certificate and its key", "--tls-key"),
        (["--tls-certificate", "none.pem", "--tls-key", "none.pem"], "none.pem cannot be read", ""),
        (["--tls-certificate", "empty.pem", "--tls-key", "empty.pem"], "cannot be used for TLS", "in PEM"),
        (["--host", "nowhere.invalid", "--insecure"], "cannot listen on nowhere.invalid", "--host"),
        (["--port", "65536"], "--port", ""),
        (["--config", "bootstrap.server=x"], "bootstrap.server", "did you mean"),
    ],
)
def test_a_mistake_is_named_with_a_hint(
    here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.pem").touch()
    result = here("serve", *(["--port", "0"] if "--port" not in arguments else []), *arguments)
    assert result.code in {1, 2}
    text = " ".join(result.err.split())
    assert message in text, text
    assert hint in text, text


def test_a_port_in_use_is_named(data: Path, command: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = command("serve", "--port", str(port))
    assert result.code == 1
    assert f"the server cannot listen on 127.0.0.1:{port}: Address already in use" in " ".join(result.err.split())
    assert "choose another port" in result.err


def test_the_server_speaks_tls(data: Path) -> None:
    certificate, key = data.parent / "cert.pem", data.parent / "key.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-out", certificate, "-keyout", key],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("openssl cannot make a certificate here")
    with open_log(data):
        pass
    options = ("--host", "0.0.0.0", "--tls-certificate", str(certificate), "--tls-key", str(key))
    with started(data, "serve", "--port", "0", *options) as process:
        address = address_of(data, process)
        assert address.startswith("https://127.0.0.1:")
        client = client_of(address, tls=ssl.create_default_context(cafile=str(certificate))).using(host="localhost")
        assert client.get("/healthz").json() == {"status": "ok"}
        opened = client.post("/api/v1/session", {"code": urlsplit(address).fragment.removeprefix("code=")})
        assert opened.status == 200
        assert "; Secure" in opened.headers["set-cookie"]
        with pytest.raises(ssl.SSLCertVerificationError):
            client.using(tls=ssl.create_default_context()).get("/healthz")
        with pytest.raises((ConnectionError, HTTPException)):
            client.using(tls=None).get("/healthz")


# ----- millstream tokens ---------------------------------------------------------------------------------------------


def test_tokens_are_created_listed_and_revoked(here: Run) -> None:
    command = here
    created = command("tokens", "create", "anna", "--role", "operator", "--store", "shop/*", "--days", "90")
    assert created.code == 0
    assert created.out.startswith("ms_")
    assert "this is the only time that the token is shown" in created.err
    (listed,) = command("tokens", "list", "-o", "json").lines
    assert (listed["name"], listed["role"], listed["stores"]) == ("anna", "operator", "shop/*")
    assert created.out.strip()[-24:] not in command("tokens", "list").out
    assert command("tokens", "revoke", "anna").code == 0
    assert command("tokens", "list", "-o", "json").lines == []
    again = command("tokens", "revoke", "anna")
    assert (again.code, "there is no token 'anna'" in again.err) == (1, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["a b"],
        ["anna", "--role", "king"],
        ["anna", "--store", "shop"],
        ["anna", "--days", "0"],
        ["anna", "--days", "inf"],
    ],
)
def test_a_token_that_cannot_be_is_refused(here: Run, arguments: list[str]) -> None:
    result = here("tokens", "create", *arguments)
    assert result.code in {1, 2}
    assert "ms_" not in result.out


# ----- beside an application -----------------------------------------------------------------------------------------


@pytest.fixture
def application(data: Path) -> Path:
    """The file of the application `shop`, with its input topics."""
    shop.create_topics(data)
    shop.write_input(data)
    file = data.parent / "app.py"
    file.write_text(APPLICATION.format(root=Path(__file__).parents[2], data=data))
    return file


def server_of(process: subprocess.Popen) -> int:
    """The process of the server beside an application."""
    (server,) = [child.pid for child in below(process.pid) if "millstream.serve" in child.command]
    return server


@pytest.mark.parametrize("beside", [False, True], ids=["serve", "run --serve"])
def test_the_processes_of_a_command_listen_on_loopback_only(
    data: Path, application: Path, command: Run, beside: bool
) -> None:
    arguments = ("run", str(application), "--local", "--serve", "127.0.0.1:0") if beside else ("serve", "--port", "0")
    token = token_of(command, "anna", "--role", "admin")
    with started(data, *arguments) as process:
        client = client_of(address_of(data, process), token=token)
        if beside:
            path = "/api/v1/applications"
            wait_until(lambda: "RUNNING" in client.get(path).body.decode(), "the application")
        else:  # it runs SQL, too
            statement = {"ksql": "CREATE STREAM o (shop STRING) WITH (kafka_topic='orders', value_format='JSON');"
                                 "CREATE TABLE t AS SELECT shop, COUNT(*) AS n FROM o GROUP BY shop;"}  # fmt: skip
            wait_until(lambda: client.post("/ksql", {"ksql": "SHOW TABLES;"}).status == 200, "the start of SQL", 100)
            assert client.post("/ksql", statement).status == 200
        assert listening(process.pid) == {f"0100007F:{client.port:04X}"}


def test_a_server_beside_an_application_serves_it_and_ends_with_it(data: Path, application: Path, command: Run) -> None:
    token = token_of(command, "anna", "--role", "admin")
    with started(data, "run", str(application), "--local", "--serve", "127.0.0.1:0") as process:
        client = client_of(address_of(data, process), token=token)

        def states() -> list[str]:
            return [each["state"] for each in client.get("/api/v1/applications").json()["applications"]]

        wait_until(lambda: states() == ["RUNNING"], "the application")
        server = server_of(process)
        assert client.post("/api/v1/applications/shop/stop").status == 202
        assert process.wait(30) == 0, printed(data)
        assert server not in running()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_server_ends_with_an_application_that_is_ended(data: Path, application: Path, number: int) -> None:
    with started(data, "run", str(application), "--local", "--serve", "127.0.0.1:0") as process:
        address_of(data, process)
        server = server_of(process)
        process.send_signal(number)
        process.wait(30)
        wait_until(lambda: server not in running(), "the end of the server")


def test_an_application_runs_on_without_its_server(data: Path, application: Path) -> None:
    with started(data, "run", str(application), "--local", "--serve", "127.0.0.1:0") as process:
        address_of(data, process)
        os.kill(server_of(process), signal.SIGKILL)
        with open_log(data) as log:
            log.produce("orders", [shop.order("north")])
            wait_until(
                lambda: log.committed("shop").get(("orders", 0)) == log.ends(["orders"])["orders"][0], "the commit"
            )
        process.terminate()
        assert process.wait(30) in {0, 130}, printed(data)
    assert "Traceback" not in printed(data)


def test_an_application_does_not_start_if_its_server_cannot(data: Path, application: Path, command: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = command("run", str(application), "--local", "--serve", f"127.0.0.1:{port}")
    assert result.code == 1
    assert f"the server cannot listen on 127.0.0.1:{port}: Address already in use" in " ".join(result.err.split())
    with open_log(data) as log:
        assert log.groups() == []


def test_without_the_libraries_of_the_server_an_application_says_what_to_install(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = data.parent / "hidden" / "granian"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'granian'\", name='granian')")
    monkeypatch.setenv("PYTHONPATH", str(hidden.parent))
    with pytest.raises(SetupError) as refused, Server("shop", Config({"state.dir": str(data)}), "127.0.0.1:0"):
        pass
    assert refused.value.message == "the server requires the package granian"
    assert refused.value.hint == 'pip install "millstream[serve]"'
    ended = run_in(data)("serve", "--port", "0")
    assert (ended.code, 'pip install "millstream[serve]"' in ended.err) == (1, True)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("nonsense", "is not an address"),
        ("127.0.0.1:x", "is not an address"),
        ("127.0.0.1:65536", "is not an address"),
        ("0.0.0.0:8088", "listens on this machine only"),
        ("streams.example.com:8088", "listens on this machine only"),
    ],
)
def test_the_address_of_a_server_beside_an_application_is_on_this_machine(
    data: Path, address: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Server("shop", Config({"state.dir": str(data)}), address)


def test_the_settings_of_the_server_are_not_on_its_command_line(data: Path) -> None:
    with open_log(data):
        pass
    config = Config({"state.dir": str(data), "sasl.password": "sentinel"})
    with Server("shop", config, "127.0.0.1:0"):
        servers = [child for child in below(os.getpid()) if "millstream.serve" in child.command]
        assert servers
        assert not [word for server in servers for word in (server.command, *server.environment) if "sentinel" in word]
