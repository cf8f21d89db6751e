"""An application whose registry is away, or answers with errors, at the start and in the middle."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from millstream import App, avro
from millstream.dev.ports import free_ports
from millstream.errors import MillstreamError, RunError
from millstream.log import ProducerRecord, open_log
from millstream.runtime.in_process.batches import InProcessRun
from millstream.schemas import registries
from tests.registry.http_server import Answer, Request, Server

OLD = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
NEW = OLD.replace("[", '[{"name": "note", "type": "string"}, ')
SCHEMAS = {1: OLD, 2: NEW}
FIRST, SECOND = b"\x00\x00\x00\x00\x01\x0e", b"\x00\x00\x00\x00\x02\x02x\x10"


@dataclass
class Order:
    id: int


def well(request: Request) -> Answer:
    """Answers as a registry with two schemas."""
    return Answer({"schema": SCHEMAS[int(request.path.partition("?")[0].rpartition("/")[2])]})


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("PROFILE", "BOOTSTRAP_SERVERS", "SCHEMA_REGISTRY_URL"):
        monkeypatch.delenv(f"MILLSTREAM_{name}", raising=False)
    before = set(registries._opened)
    yield
    for opened in set(registries._opened) - before:  # a process keeps the registries of its applications
        registries._opened.pop(opened).close()


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    started: list[Server] = []
    yield started
    for server in started:
        server.stop()


def application(data: Path, port: int, timeout: int) -> App:
    settings: dict[str, Any] = {
        "schema.registry.url": f"http://127.0.0.1:{port}",
        "schema.registry.api.timeout.ms": timeout,
        "schema.registry.retries.wait.ms": 1,
        "schema.registry.retries.max.wait.ms": 2,
    }
    app = App("shop", config={"state.dir": str(data), "status": "none", **settings})
    app.stream("orders", value=avro(Order)).map_values(lambda order: order.id, value=int).to("ids")
    return app


def produce(data: Path, *values: bytes) -> None:
    with open_log(data) as log:
        log.create_topic("orders", 1, exist_ok=True)
        log.create_topic("ids", 1, exist_ok=True)
        log.produce("orders", [ProducerRecord(None, value) for value in values])


def results(data: Path) -> list[int]:
    with open_log(data) as log:
        return [int.from_bytes(row["value"], "big") for row in log.read("ids", 0, 0, 100).to_pylist()]


class WhenWaiting(logging.Handler):
    """Starts the registry when the application says that it waits for it."""

    def __init__(self, servers: list[Server], port: int) -> None:
        super().__init__()
        self.messages: list[str] = []
        self._servers, self._port = servers, port

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        if len(self.messages) == 1:
            self._servers.append(Server(well, self._port))


@pytest.fixture
def waiting(servers: list[Server], port: int) -> Iterator[WhenWaiting]:
    handler = WhenWaiting(servers, port)
    logger = logging.getLogger("millstream.registry")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def test_an_application_waits_for_a_registry_that_is_away_at_its_start_and_says_so(
    tmp_path: Path, port: int, waiting: WhenWaiting
) -> None:
    produce(tmp_path, FIRST)
    with InProcessRun(application(tmp_path, port, 60_000)) as run:
        run.run()
    assert results(tmp_path) == [7]
    assert waiting.messages[0].startswith(f"waiting for the schema registry at http://127.0.0.1:{port} ")


def test_known_schemas_go_on_in_the_middle_and_a_new_one_waits(
    tmp_path: Path, port: int, servers: list[Server], waiting: WhenWaiting
) -> None:
    produce(tmp_path, FIRST)
    servers.append(Server(well, port))
    with InProcessRun(application(tmp_path, port, 60_000)) as run:
        run.run()
        servers.pop().stop()
        produce(tmp_path, FIRST, FIRST)
        run.run()
        assert results(tmp_path) == [7, 7, 7]
        assert waiting.messages == []
        produce(tmp_path, FIRST, SECOND)
        run.run()
    assert results(tmp_path) == [7, 7, 7, 7, 8]
    assert waiting.messages[0].startswith("waiting for the schema registry")


NONSENSE = Answer("<html>hello</html>")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "has not answered for 0 s"),
        (Answer({"error_code": 401, "message": "no"}, 401), "does not know this user"),
        (Answer("<html>not here</html>", 404), "is no schema registry"),
        (Answer({"error_code": 50001, "message": "no"}, 500), "the log of the registry has the reason"),
        (NONSENSE, "makes no sense"),
    ],
    ids=["away", "401", "404", "500", "nonsense"],
)
def test_a_new_schema_fails_by_configuration_and_no_record_is_lost(
    answer: Answer | None, message: str, tmp_path: Path, port: int, servers: list[Server]
) -> None:
    produce(tmp_path, FIRST)
    servers.append(Server(well, port))
    with InProcessRun(application(tmp_path, port, 0)) as run:
        run.run()
        if answer is None:
            servers.pop().stop()
        else:
            servers[0].answer = lambda _request: answer
        produce(tmp_path, FIRST)
        run.run()
        produce(tmp_path, SECOND)
        with pytest.raises(RunError) as raised:
            run.run()
    assert message in str(raised.value)
    assert isinstance(raised.value, MillstreamError)
    assert results(tmp_path) == [7, 7]
    if answer is None:
        servers.append(Server(well, port))
    else:
        servers[0].answer = well
    with InProcessRun(application(tmp_path, port, 0)) as run:
        run.run()
    assert results(tmp_path) == [7, 7, 8]
