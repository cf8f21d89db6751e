"""Runs commands, in this process or in a separate one, and prepares the data directory of an application."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from millstream import App, Materialized, session, tumbling
from millstream.cli.main import main
from millstream.log import ProducerRecord, open_log
from millstream.runtime.in_process.batches import InProcessRun

MILLSTREAM = Path(sys.executable).with_name("millstream")


class Result(NamedTuple):
    """The outcome of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """Its output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Result]


def environment(data: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MILLSTREAM_", "FORCE_COLOR"))}
    return {**kept, "MILLSTREAM_DATA": str(data), "COLUMNS": "80"}


def run_in(data: Path) -> Run:
    def run(
        *arguments: str,
        given: str | bytes = b"",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        program: Sequence[str] = (str(MILLSTREAM),),
    ) -> Result:
        ended = subprocess.run(
            [*program, *arguments],
            input=given.encode() if isinstance(given, str) else given,
            capture_output=True,
            cwd=cwd or data.parent,
            env={**environment(data), **(env or {})},
            check=False,
        )
        return checked(Result(ended.returncode, ended.stdout.decode(), ended.stderr.decode()))

    return run


def checked(result: Result) -> Result:
    assert "Traceback" not in result.err
    assert "should not happen" not in result.err
    return result


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def process(data: Path) -> Run:
    """Runs a command in a separate process, with a data directory that does not exist yet."""
    return run_in(data)


@pytest.fixture
def embedded_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes settings of clusters and registries, so that commands use the registry of the data directory."""
    for name in ("PROFILE", "CONFIG", "BOOTSTRAP_SERVERS", "SCHEMA_REGISTRY_URL"):
        monkeypatch.delenv(f"MILLSTREAM_{name}", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


Inside = Callable[[Path], Run]


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    """Runs commands by calling `main`. A process for each of hundreds of commands would take minutes."""

    def use(data: Path) -> Run:
        monkeypatch.setenv("MILLSTREAM_DATA", str(data))
        monkeypatch.delenv("MILLSTREAM_DEBUG", raising=False)

        def run(*arguments: str, given: str | bytes = b"") -> Result:
            stdin = tmp_path / "stdin"
            stdin.write_bytes(given.encode() if isinstance(given, str) else given)
            with stdin.open() as opened, monkeypatch.context() as patch:
                patch.setattr(sys, "stdin", opened)
                code = main(arguments)
            return checked(Result(code, *capsys.readouterr()))

        return run

    return use


@pytest.fixture
def millstream(inside: Inside, data: Path) -> Run:
    """Runs a command with a data directory that does not exist yet."""
    return inside(data)


SHOP = """
from millstream import App, Materialized, session, tumbling

app = App("shop")
orders = app.stream("orders", value=dict)
by_shop = orders.group_by(lambda order: order["shop"])
by_shop.count(store="orders-of-shop").to_stream().to("counts")
by_shop.windowed_by(tumbling("1m")).count(store="minutes")
by_shop.windowed_by(session("10s")).count(store="visits")
app.table("prices", key=str, value=int, store=Materialized("history", history="1h"))
app.stream("numbers", key=int, value=str).group_by_key().count(store="by-number")
"""


@pytest.fixture(scope="session")
def shop_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory in which the application `shop` has run. Tests only read it."""
    return make_shop(tmp_path_factory.mktemp("shop") / "data")


@pytest.fixture
def shop(inside: Inside, shop_data: Path) -> Run:
    return inside(shop_data)


def make_shop(data: Path) -> Path:
    data.parent.mkdir(exist_ok=True)
    (data.parent / "shop.py").write_text(SHOP, encoding="utf-8")
    with open_log(data) as log:
        log.create_topic("orders", 2)
        log.create_topic("prices")
        log.create_topic("numbers")
        orders = [("north", 1_000), ("south", 5_000), ("north", 30_000), ("north", 70_000)]
        log.produce("orders", [ProducerRecord(b"c", b'{"shop": "%s"}' % s.encode(), t) for s, t in orders])
        log.produce("prices", [ProducerRecord(b"tea", n.to_bytes(8), t) for n, t in ((3, 1_000), (4, 2_000))])
        log.produce("numbers", [ProducerRecord((7).to_bytes(8), b"x", 1_000)])
    names: dict[str, Any] = {}
    exec(SHOP, {"App": App, "Materialized": Materialized, "session": session, "tumbling": tumbling}, names)
    app = App("shop", config={"state.dir": str(data)})
    names["app"].config = app.config
    with InProcessRun(names["app"]) as run:
        run.run()
    return data
