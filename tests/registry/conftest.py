"""The registries under test: the embedded one, and those with Confluent's API."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.registry.lacks import LACKS

from millstream.config import Config
from millstream.dev.registry import RegistryServer
from millstream.errors import SetupError
from millstream.registry import SchemaRegistry
from millstream.registry.confluent.registry import ConfluentRegistry
from millstream.registry.embedded import EmbeddedRegistry

_numbers = itertools.count()


@pytest.fixture
def embedded(tmp_path: Path) -> EmbeddedRegistry:
    return EmbeddedRegistry(tmp_path / "data")


@pytest.fixture
def mock() -> ConfluentRegistry:
    """The registry that confluent-kafka has for tests."""
    from confluent_kafka.schema_registry._sync.mock_schema_registry_client import MockSchemaRegistryClient

    config = Config({"schema.registry.url": "http://mock", "schema.registry.api.timeout.ms": 0})
    settings = {"url": "mock://", "max.retries": 0}
    return ConfluentRegistry(config, make=lambda _config: MockSchemaRegistryClient(settings))


@pytest.fixture(scope="session")
def apicurio_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """A running registry. Where it cannot be downloaded, tests are skipped, except on CI."""
    server = RegistryServer(tmp_path_factory.mktemp("apicurio"))
    try:
        server.start()
    except SetupError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"there is no schema registry here: {error.message}")
    yield server
    server.delete()


@pytest.fixture
def apicurio(apicurio_server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConfluentRegistry]:
    """A real registry with Confluent's API."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    registry = ConfluentRegistry(Config({"schema.registry.url": apicurio_server.url}))
    yield registry
    registry.close()


APICURIO = pytest.param("apicurio", marks=[pytest.mark.kafka, pytest.mark.timeout(240)])


@pytest.fixture(params=["embedded", "mock", APICURIO])
def registry(request: pytest.FixtureRequest) -> Iterator[SchemaRegistry]:
    """A registry whose global level is BACKWARD."""
    yield from _opened(request)


@pytest.fixture(params=["embedded", APICURIO])
def comparing(request: pytest.FixtureRequest) -> Iterator[SchemaRegistry]:
    """A registry that compares schemas. That of confluent-kafka for tests does not."""
    yield from _opened(request)


def _opened(request: pytest.FixtureRequest) -> Iterator[SchemaRegistry]:
    """Opens a registry. A test that it cannot pass must fail, so that the list of what it lacks stays true."""
    test, _bracket, parameters = request.node.name.partition("[")
    case = parameters.removesuffix("]").removeprefix(request.param).removeprefix("-")
    lacks = LACKS[request.param]
    reason = lacks.get(test) or lacks.get(f"{test}[{case}]")
    if reason is not None:
        request.applymarker(pytest.mark.xfail(reason=f"{request.param}: {reason}", strict=True))
    registry: SchemaRegistry = request.getfixturevalue(request.param)
    yield registry
    registry.close()


@pytest.fixture
def subject() -> str:
    """A subject that no other test uses: some registries serve the whole session."""
    return f"orders-{next(_numbers)}-value"
