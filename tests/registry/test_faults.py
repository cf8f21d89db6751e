"""A registry with Confluent's API that is away, slow, or answers with errors and nonsense."""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.registry.http_server import Answer, Request, Server, serving

from millstream.config import Config
from millstream.dev.ports import free_ports
from millstream.errors import (
    ConfigError,
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegistryError,
    SetupError,
    UnknownSchemaError,
)
from millstream.registry import Reference, Schema, SchemaRegistry, open_registry

TEXT = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
ORDER = Schema(TEXT)
OTHER = Schema(TEXT.replace("long", "string"))
QUICK = {"schema.registry.retries.wait.ms": 1, "schema.registry.retries.max.wait.ms": 2}


def well(request: Request) -> Answer:
    """Answers as a registry with one schema."""
    path = request.path.partition("?")[0]
    if path.startswith("/schemas/ids/"):
        return Answer({"schema": TEXT})
    if path.endswith("/versions"):
        return Answer({"id": 1} if request.method == "POST" else [1])
    return Answer({"id": 1, "version": 1, "subject": "orders-value", "schema": TEXT})


def always(body: Any, status: int = 200) -> Callable[[Request], Answer]:
    return lambda _request: Answer(body, status)


def refused(status: int, code: int, message: str = "no") -> Callable[[Request], Answer]:
    return always({"error_code": code, "message": message}, status)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PROFILE", "BOOTSTRAP_SERVERS", "SCHEMA_REGISTRY_URL"):
        monkeypatch.delenv(f"MILLSTREAM_{name}", raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(well) as server:
        yield server


Open = Callable[..., SchemaRegistry]


@pytest.fixture
def connect() -> Iterator[Open]:
    opened = []

    def connect(url: str, **settings: Any) -> SchemaRegistry:
        report = settings.pop("report", None)
        dotted = {f"schema.registry.{key.replace('_', '.')}": value for key, value in settings.items()}
        registry = open_registry({"schema.registry.url": url, **QUICK, **dotted}, report=report)
        opened.append(registry)
        return registry

    yield connect
    for registry in opened:
        registry.close()


# ----- requests ------------------------------------------------------------------------------------------------------


def test_opening_sends_no_request_and_a_schema_needs_one(server: Server, connect: Open) -> None:
    registry = connect(server.url)
    assert server.requests == []
    for _ in range(1_000):
        assert registry.schema(7) == ORDER
        assert registry.register("orders-value", ORDER) == 1
        assert registry.lookup("orders-value", ORDER).version == 1
        assert registry.latest("orders-value").id == 1
        assert registry.version("orders-value", 1).schema == ORDER
        assert registry.schema(1) == ORDER  # known since its registration
    assert [(request.method, request.path.partition("?")[0]) for request in server.requests] == [
        ("GET", "/schemas/ids/7"),
        ("POST", "/subjects/orders-value/versions"),
        ("POST", "/subjects/orders-value"),
        ("GET", "/subjects/orders-value/versions/latest"),
        ("GET", "/subjects/orders-value/versions/1"),
    ]


def test_threads_that_need_the_same_schema_send_one_request(server: Server, connect: Open) -> None:
    registry = connect(server.url)
    delay = threading.Event()
    server.answer = lambda _request: Answer({"schema": TEXT}, delay=delay)
    results: list[Schema] = []
    threads = [threading.Thread(target=lambda: results.append(registry.schema(7))) for _ in range(8)]
    for thread in threads:
        thread.start()
    delay.set()
    for thread in threads:
        thread.join()
    assert results == [ORDER] * 8
    assert len(server.requests) == 1


def test_an_unknown_id_is_not_requested_for_each_record(server: Server, connect: Open) -> None:
    server.answer = refused(404, 40403, "Schema not found")
    registry = connect(server.url)
    for _ in range(100):
        with pytest.raises(UnknownSchemaError, match="has no schema with the id 7: Schema not found"):
            registry.schema(7)
    assert len(server.requests) == 1


def test_references_and_normalization_are_sent(server: Server, connect: Open) -> None:
    registry = connect(server.url)
    registry.register("a b", Schema(TEXT, "JSON", (Reference("n", "other", 2),)), normalize=True)
    (request,) = server.requests
    assert request.path.lower() == "/subjects/a%20b/versions?normalize=true"
    assert request.body["schemaType"] == "JSON"
    assert request.body["references"] == [{"name": "n", "subject": "other", "version": 2}]


def test_the_context_of_a_subject_is_that_of_its_ids(server: Server, connect: Open) -> None:
    registry = connect(server.url)
    registry.schema(7, ":.staging:orders-value")
    registry.schema(7, ":.staging:payments-value")
    registry.schema(7, "orders-value")
    registry.schema(7)
    assert [request.path for request in server.requests] == [
        "/schemas/ids/7?subject=%3A.staging%3Aorders-value",
        "/schemas/ids/7",
    ]


# ----- away ----------------------------------------------------------------------------------------------------------


def test_what_is_known_survives_a_registry_that_is_away(server: Server, connect: Open) -> None:
    registry = connect(server.url, api_timeout_ms=0, cache_latest_ttl_sec=0)
    registry.schema(7)
    registry.register("orders-value", ORDER)
    registry.latest("orders-value")
    server.stop()
    assert registry.schema(7) == ORDER
    assert registry.register("orders-value", ORDER) == 1
    assert registry.latest("orders-value").id == 1
    for request in (
        lambda: registry.schema(8),
        lambda: registry.register("orders-value", OTHER),
        lambda: registry.latest("payments-value"),
        registry.subjects,
    ):
        with pytest.raises(RegistryError, match=r"registry at .* has not answered for 0 s: .*refused") as raised:
            request()
        assert raised.value.may_pass
        assert "check schema.registry.url" in str(raised.value.hint)


def test_a_request_waits_for_a_registry_that_is_away_at_the_start_and_says_so(connect: Open) -> None:
    (port,) = free_ports(1)
    reports: list[str] = []
    started: list[Server] = []

    def report(text: str) -> None:
        reports.append(text)
        started.append(Server(well, port))

    registry = connect(f"http://127.0.0.1:{port}", report=report)
    try:
        assert registry.schema(7) == ORDER
    finally:
        for server in started:
            server.stop()
    (text,) = reports
    assert text.startswith(f"waiting for the schema registry at http://127.0.0.1:{port} (0 of at most 60 s): ")
    assert "refused" in text


def test_the_wait_is_logged_unless_it_is_reported(connect: Open, caplog: pytest.LogCaptureFixture) -> None:
    (port,) = free_ports(1)
    registry = connect(f"http://127.0.0.1:{port}", api_timeout_ms=20)
    with pytest.raises(RegistryError, match="has not answered for"):
        registry.subjects()
    assert "waiting for the schema registry" in caplog.text


def test_a_registry_that_is_starting_is_awaited(server: Server, connect: Open) -> None:
    answers = [Answer("busy", 503), Answer("busy", 502), Answer({"error_code": 42900, "message": "later"}, 429)]
    server.answer = lambda request: answers.pop(0) if answers else well(request)
    reports: list[str] = []
    assert connect(server.url, report=reports.append).schema(7) == ORDER
    assert len(server.requests) == 4
    assert len(reports) == 1
    assert "status 503" in reports[0]


def test_an_internal_error_is_retried_a_few_times(server: Server, connect: Open) -> None:
    answers = [Answer({"error_code": 50001, "message": "in the backend"}, 500)] * 3
    server.answer = lambda request: answers.pop() if answers else well(request)
    assert connect(server.url).schema(7) == ORDER
    assert len(server.requests) == 4
    server.requests.clear()
    server.answer = refused(500, 50001, "in the backend")
    with pytest.raises(RegistryError, match="failed 4 times: status 500: in the backend") as raised:
        connect(server.url).schema(7)
    assert len(server.requests) == 4
    assert "the log of the registry has the reason" in str(raised.value)


def test_a_registry_that_does_not_answer_in_time_is_away(server: Server, connect: Open) -> None:
    delay = threading.Event()
    server.answer = lambda _request: Answer({"schema": TEXT}, delay=delay)
    registry = connect(server.url, request_timeout_ms=50, api_timeout_ms=1)
    with pytest.raises(RegistryError, match=r"has not answered for .*: it did not answer in time"):
        registry.schema(7)
    delay.set()
    assert connect(server.url).schema(7) == ORDER


def test_the_next_address_is_asked_when_one_is_away(server: Server, connect: Open) -> None:
    (port,) = free_ports(1)
    registry = connect(f"http://127.0.0.1:{port},{server.url}", api_timeout_ms=0)
    assert registry.schema(7) == ORDER
    with serving(refused(503, 50300)) as busy:
        assert connect(f"{busy.url},{server.url}", api_timeout_ms=0).schema(7) == ORDER


# ----- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "error", "message", "hint"),
    [
        (refused(401, 401, "Unauthorized"), RegistryError, "does not know this user", "basic.auth.user.info"),
        (refused(403, 40301, "denied"), RegistryError, "does not permit this to the user", "what this user may do"),
        (always("<html>login</html>", 401), RegistryError, "does not know this user", "basic.auth.user.info"),
        (refused(404, 40401, "Subject not found"), UnknownSchemaError, "has no subject 'orders-value'", ""),
        (always("<html>not here</html>", 404), RegistryError, "is no schema registry, or has another", "needs a path"),
        (refused(404, 404, "HTTP 404 Not Found"), RegistryError, "is no schema registry", "schema.registry.url"),
        (refused(422, 42201, "Input schema is invalid"), InvalidSchemaError, "does not accept the schema of", ""),
        (refused(422, 42205, "Subject is in read-only mode"), RegistryError, r"\(422\): Subject is in read-only", ""),
        (refused(400, 400, "bad\x1b[31m"), RegistryError, r"refuses the request .*\(400\): bad", ""),
        (always("moved", 301), RegistryError, r"refuses the request .*\(301\)", ""),
        (refused(409, 409, "It is incompatible"), IncompatibleSchemaError, "unknown:\n    It is incompatible", ""),
    ],
)  # fmt: skip
def test_a_refusal_is_one_clear_error(
    answer: Callable[[Request], Answer], error: type, message: str, hint: str, server: Server, connect: Open
) -> None:
    server.answer = answer
    with pytest.raises(error, match=message) as raised:
        connect(server.url).register("orders-value", ORDER)
    assert hint.replace("needs a path", "may need a path") in str(raised.value)
    assert "\x1b" not in str(raised.value)
    assert not getattr(raised.value, "may_pass", False)


def test_an_incompatible_schema_is_explained_with_the_path_of_the_field(server: Server, connect: Open) -> None:
    def answer(request: Request) -> Answer:
        path = request.path.partition("?")[0]
        if path == "/compatibility/subjects/orders-value/versions/latest":
            return Answer({"is_compatible": False, "messages": ["{errorType:'TYPE_MISMATCH'}"]})
        if path.startswith("/config"):
            return Answer({"compatibilityLevel": "BACKWARD"})
        if request.method == "POST":
            return Answer({"error_code": 409, "message": "Schema being registered is incompatible"}, 409)
        return well(request)

    server.answer = answer
    registry = connect(server.url)
    reason = "id: version 1 has long, which the new schema cannot read as string"
    assert registry.problems("orders-value", OTHER) == [reason]
    with pytest.raises(IncompatibleSchemaError, match=reason) as raised:
        registry.register("orders-value", OTHER)
    assert raised.value.problems == (reason,)
    assert registry.problems("orders-value", ORDER) == ["{errorType:'TYPE_MISMATCH'}"]  # the registry's own reason


# ----- nonsense ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body", ["", "<html>hello</html>", "[]", "{}", "null", "5", '{"id": "x"}', '{"id": null, "schema": 5}', "\ufffd"]
)  # fmt: skip
def test_nonsense_is_one_clear_error(body: str, server: Server, connect: Open) -> None:
    server.answer = always(body)
    registry = connect(server.url)
    for request in (
        lambda: registry.schema(7),
        lambda: registry.register("orders-value", ORDER),
        lambda: registry.lookup("orders-value", ORDER),
        lambda: registry.latest("orders-value"),
        lambda: registry.version("orders-value", 1),
        lambda: registry.problems("orders-value", ORDER),
        registry.compatibility,
    ):
        with pytest.raises(RegistryError, match=r"the answer of .* makes no sense") as raised:
            request()
        assert "check schema.registry.url" in str(raised.value.hint)


def test_a_schema_of_an_unknown_type_is_nonsense(server: Server, connect: Open) -> None:
    server.answer = always({"schema": "x", "schemaType": "XML"})
    with pytest.raises(RegistryError, match="makes no sense: a schema of type 'XML'"):
        connect(server.url).schema(7)


# ----- authentication ------------------------------------------------------------------------------------------------


def test_basic_authentication(server: Server, connect: Open) -> None:
    registry = connect(server.url, basic_auth_user_info="anna:hunter:2")
    registry.schema(7)
    assert server.requests[0].headers["Authorization"] == f"Basic {base64.b64encode(b'anna:hunter:2').decode()}"
    server.answer = refused(401, 401)
    with pytest.raises(RegistryError) as raised:
        registry.schema(8)
    assert "hunter" not in f"{raised.value} {raised.value!r} {registry!r}"


def test_bearer_authentication(server: Server, connect: Open) -> None:
    connect(server.url, bearer_auth_token="t0ken").schema(7)
    assert server.requests[0].headers["Authorization"] == "Bearer t0ken"
    settings = {"bearer_auth_logical_cluster": "lsrc-1", "bearer_auth_identity_pool_id": "pool-1"}
    connect(server.url, bearer_auth_token="t0ken", **settings).schema(7)
    assert server.requests[1].headers["target-sr-cluster"] == "lsrc-1"
    assert server.requests[1].headers["Confluent-Identity-Pool-Id"] == "pool-1"


def test_tokens_of_an_oauth_server(server: Server, connect: Open) -> None:
    def answer(request: Request) -> Answer:
        if request.path == "/token":
            return Answer({"access_token": "fetched", "expires_in": 3600, "expires_at": 2**33, "token_type": "bearer"})
        return well(request)

    registry = connect(
        server.url,
        bearer_auth_credentials_source="OAUTHBEARER",
        bearer_auth_issuer_endpoint_url=f"{server.url}/token",
        bearer_auth_client_id="anna",
        bearer_auth_client_secret="hunter2",
        bearer_auth_scope="registry",
    )
    server.answer = refused(400, 400)
    with pytest.raises(RegistryError, match="there is no token for the schema registry") as raised:
        registry.schema(7)
    assert "hunter2" not in str(raised.value)
    server.answer = answer
    assert registry.schema(7) == ORDER
    assert server.requests[-1].headers["Authorization"] == "Bearer fetched"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"basic_auth_user_info": "a:b", "bearer_auth_token": "t"}, "there is both basic and bearer authentication"),
        ({"bearer_auth_client_secret": "hunter2"}, r"bearer\.auth\.client\.secret has no effect without a source"),
        ({"bearer_auth_credentials_source": "OAUTHBEARER"}, "Missing required OAuth configuration properties"),
        ({"bearer_auth_credentials_source": "STATIC_TOKEN"}, r"Missing bearer\.auth\.token"),
        ({"ssl_ca_location": "/nowhere/ca.pem"}, "/nowhere/ca.pem cannot be used: No such file"),
        ({"ssl_key_location": "/nowhere/key.pem"}, r"ssl\.certificate\.location required"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, str], message: str, connect: Open) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        connect("https://localhost:1", **settings)
    assert "hunter2" not in str(raised.value)


# ----- TLS -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    command = [
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem",
    ]  # fmt: skip
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def test_tls_with_a_certificate_of_an_own_authority(certificate: Path, connect: Open) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    with serving(well, tls=context) as server:
        assert connect(server.url, ssl_ca_location=str(certificate / "cert.pem")).schema(7) == ORDER
        assert connect(server.url, enable_ssl_certificate_verification=False).schema(7) == ORDER
        with pytest.raises(RegistryError, match=r"is not trusted: .*CERTIFICATE_VERIFY_FAILED") as raised:
            connect(server.url).schema(7)
        assert "schema.registry.ssl.ca.location" in str(raised.value.hint)
    with serving(well) as plain, pytest.raises(RegistryError, match="there is no TLS connection"):
        connect(plain.url.replace("http:", "https:")).schema(7)


def test_tls_with_a_certificate_of_the_client(certificate: Path, connect: Open) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    context.load_verify_locations(certificate / "cert.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    with serving(well, tls=context) as server:
        registry = connect(
            server.url,
            ssl_ca_location=str(certificate / "cert.pem"),
            ssl_certificate_location=str(certificate / "cert.pem"),
            ssl_key_location=str(certificate / "key.pem"),
        )
        assert registry.schema(7) == ORDER


# ----- processes and libraries ---------------------------------------------------------------------------------------


def test_a_fork_opens_its_own_connections(server: Server, connect: Open) -> None:
    registry = connect(server.url)
    registry.schema(7)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if registry.schema(8) == ORDER else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert registry.schema(9) == ORDER


def test_a_missing_client_is_an_error_with_its_command(connect: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(SetupError, match="is not installed") as raised:
        connect("http://localhost:1")
    assert raised.value.hint == 'pip install "millstream[registry]"'


def test_the_embedded_registry_needs_no_client(tmp_path: Path) -> None:
    code = (
        "import sys\nsys.modules['confluent_kafka'] = sys.modules['fastavro'] = None\n"
        "from millstream.registry import Schema, open_registry\nfrom pathlib import Path\n"
        f"print(open_registry({{}}, Path({str(tmp_path)!r}) / 'data').register('a', Schema('\"int\"')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_all_modules_are_imported_without_the_libraries() -> None:
    code = (
        "import sys, pkgutil, importlib\n"
        "for name in ('confluent_kafka', 'fastavro', 'grpc_tools', 'jsonschema_rs', 'httpx2', 'httpx'):\n"
        "    sys.modules[name] = None\n"
        "import millstream.registry\n"
        "for module in pkgutil.walk_packages(millstream.registry.__path__, 'millstream.registry.'):\n"
        "    importlib.import_module(module.name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_whole_configuration_is_accepted() -> None:
    assert Config({"schema_registry_url": "http://a"})["schema.registry.url"] == "http://a"
