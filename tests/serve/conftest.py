"""Servers for tests: a real process on a free port, over the data of a small application.

- `shop_server` serves the data of the application `shop` (see `shop.py`), which has run. Tests only read it.
- `shop_in_process` is a server of a copy of this data, without a process of its own.
- `serving` starts a server over any data directory: ``with serving(data, is_open=True) as server``.
- `kinds_server` serves the data of the application `kinds` (see `store_application.py`), which has run, likewise.
- `running` is the application `shop`, running in this process, and a server of its data. Tests share it.
- `live_shop` is the application `shop`, running in this process, with a data directory of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.serve import shop, store_application
from tests.serve.client import Client
from tests.serve.in_process import InProcess, in_process
from tests.serve.servers import Server, start_server

from millstream.log import ProducerRecord, open_log
from millstream.runtime.facade import Handle
from millstream.runtime.lifecycle import State
from millstream.serve.access.limits import Rates

Serving = Callable[..., AbstractContextManager[Server]]


@dataclass(frozen=True)
class LiveShop:
    """The application `shop` while it runs.

    Attributes:
        data: Its data directory.
        handle: The running application.
    """

    data: Path
    handle: Handle

    def produce(self, topic: str, *records: ProducerRecord) -> None:
        """Writes records."""
        with open_log(self.data) as log:
            log.produce(topic, list(records))


@dataclass(frozen=True)
class Running:
    """The application `shop` while it runs, and a server of its data. Tests share it: each has keys of its own.

    Attributes:
        shop: The application.
        server: The server.
    """

    shop: LiveShop
    server: Server

    @property
    def viewer(self) -> Client:
        """A client that reads."""
        return self.server.viewer


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes settings of clusters and registries of the environment."""
    for name in ("DATA", "PROFILE", "CONFIG", "BOOTSTRAP_SERVERS", "SCHEMA_REGISTRY_URL"):
        monkeypatch.delenv(f"MILLSTREAM_{name}", raising=False)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory that does not exist yet."""
    return tmp_path / "data"


@pytest.fixture
def serving() -> Serving:
    """Starts a server process over a data directory: see `start_server`."""
    return start_server


@pytest.fixture(scope="session")
def shop_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory in which the application `shop` has run. Tests only read it."""
    data = tmp_path_factory.mktemp("shop") / "data"
    shop.run(data)
    return data


@pytest.fixture(scope="module")
def shop_in_process(shop_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    """A server in this process, over a copy of the data of `shop`, which may be changed. It has no limits of rates."""
    data = tmp_path_factory.mktemp("in-process") / "data"
    shutil.copytree(shop_data, data)
    with in_process(data) as server:
        server.access.rates = Rates(per_second=1e9, failures=1e9)
        yield server


@pytest.fixture(scope="session")
def shop_server(shop_data: Path) -> Iterator[Server]:
    """A server of the data of `shop`, which does not run. Tests only read."""
    with start_server(shop_data) as server:
        yield server


@pytest.fixture(scope="session")
def kinds_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the data of `kinds`, which does not run. Tests only read."""
    data = tmp_path_factory.mktemp("kinds") / "data"
    store_application.run(data)
    with start_server(data) as server:
        yield server


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The application `shop`, running in this process, and a server of its data, for all tests."""
    data = tmp_path_factory.mktemp("running") / "data"
    shop.create_topics(data)
    with (
        shop.build(data, report_interval_ms=50).start(mode="local") as handle,
        start_server(data) as server,
    ):
        assert handle.wait_for({State.RUNNING}, 30)
        yield Running(LiveShop(data, handle), server)


@pytest.fixture
def live_shop(data: Path) -> Iterator[LiveShop]:
    """The application `shop`, running in this process. It has processed no record yet."""
    shop.create_topics(data)
    with shop.build(data, report_interval_ms=50).start(mode="local") as handle:
        assert handle.wait_for({State.RUNNING}, 30)
        yield LiveShop(data, handle)
