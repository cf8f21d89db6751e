"""`millstream dev registry`, each command in a separate process."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run, run_in
from tests.kafka.test_dev_kafka import listening

from millstream.dev.ports import free_ports
from millstream.dev.processes import command_of
from millstream.dev.registry import RegistryServer

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    if (tmp_path / "data" / "registry").exists():
        RegistryServer(tmp_path / "data" / "registry").delete()


@pytest.fixture
def millstream(data: Path, apicurio_server: RegistryServer) -> Run:
    """Runs a command; where no registry can run, tests are skipped."""
    return run_in(data)


def test_a_registry_is_started_used_and_stopped(millstream: Run, data: Path) -> None:
    assert millstream("dev", "registry", "status").out == "not running\n"
    (port,) = free_ports(1)
    started = millstream("dev", "registry", "start", "--port", str(port))
    assert started.code == 0
    assert started.out == f"http://127.0.0.1:{port}/apis/ccompat/v7\n"
    assert "its schemas are in memory only" in started.err

    again = millstream("dev", "registry", "start")
    assert (again.code, again.out) == (0, started.out)
    assert "already running" in again.err
    other = millstream("dev", "registry", "start", "--port", "1")
    assert (other.code, other.out) == (1, "")
    assert "stop it first: millstream dev registry stop" in other.err

    (status,) = millstream("dev", "registry", "status", "--output", "json").lines
    assert status["running"] is status["answers"] is True
    assert status["url"] == started.out.strip()
    if sys.platform == "linux":
        assert listening(status["pid"]) <= {"0100007F", "0000000000000000FFFF00000100007F"}
    assert f"running at {started.out.strip()}" in millstream("dev", "registry", "status").out

    environment = {"MILLSTREAM_SCHEMA_REGISTRY_URL": started.out.strip()}
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    (data.parent / "order.avsc").write_text(json.dumps(schema), encoding="utf-8")
    registered = millstream("schemas", "register", "orders-value", "order.avsc", env=environment)
    assert registered.code == 0, registered.err
    (listed,) = millstream("schemas", "list", "-o", "json", env=environment).lines
    assert listed["subject"] == "orders-value"
    assert not (data / "schemas.db").exists()

    assert millstream("dev", "registry", "stop", "--delete").err.splitlines()[0] == "the registry was stopped"
    assert command_of(status["pid"]) == b""
    assert not (data / "registry").exists()
    assert millstream("dev", "registry", "stop").err == "the registry is not running\n"


def test_a_taken_port_is_an_error(millstream: Run, apicurio_server: RegistryServer) -> None:
    taken = millstream("dev", "registry", "start", "--port", str(apicurio_server.port))
    assert taken.code == 1
    assert f"port {apicurio_server.port} of 127.0.0.1 is taken by another program" in taken.err
    assert "choose another one, such as --port 18081" in taken.err
