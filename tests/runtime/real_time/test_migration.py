"""Migrations of applications that run in workers, and between the forms of state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import run_in
from tests.runtime.real_time.shops import numbers_of, wait_for

from millstream import App, col, tumbling
from millstream.errors import IncompatibleTopologyError, SetupError
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.admin import migrate
from millstream.runtime.in_process.batches import InProcessRun

KEYS = [f"k{number}".encode() for number in range(10)]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path)
    log.create_topic("in", 2)
    return log


def produce(log: Log, value: bytes = b"x") -> None:
    log.produce("in", [ProducerRecord(key, value, 5) for key in KEYS])


def application(directory: Path, **config: Any) -> App:
    config = {"execution.mode": "local", "status": "none", **config}
    return App("shop", config={"state.dir": str(directory), **config})


def windowed(directory: Path, size: int, **config: Any) -> App:
    app = application(directory, **config)
    grouped = app.stream("in", key=str, value=str).group_by_key()
    grouped.count(store="counts").to_stream().to("counted", value=int)
    windows = grouped.windowed_by(tumbling(size)).count()
    windows.to_stream(lambda key, _count: key.key).to("out", key=str, value=int)
    return app


def summing(directory: Path, column: str) -> App:
    app = application(directory)
    sums = app.stream("in", key=str, value=dict).group_by_key().sum(col(column), value=int, store="sums")
    sums.to_stream().to("out")
    return app


def test_a_store_without_a_name_that_cannot_be_used_begins_empty_and_others_are_rebuilt(
    tmp_path: Path, log: Log
) -> None:
    produce(log)
    windowed(tmp_path, 10).run(until_caught_up=True)
    with pytest.raises(IncompatibleTopologyError, match="millstream migrate"):
        windowed(tmp_path, 20).run(until_caught_up=True)
    planned = migrate(windowed(tmp_path, 20), dry_run=True)
    local = tmp_path / "applications" / "shop" / "workers"
    assert planned == [
        "rebuild store counts from shop-counts-changelog",
        "begin with an empty store in-count-store",
        f"delete the local stores of workers {local}",
    ]
    assert local.exists()
    steps = migrate(windowed(tmp_path, 20))
    assert steps[1] == "the next start begins with an empty store in-count-store"
    assert not local.exists()
    produce(log)
    windowed(tmp_path, 20).run(until_caught_up=True)
    assert numbers_of(log, "counted") == {key: [1, 2] for key in KEYS}
    assert numbers_of(log, "out") == {key: [1, 1] for key in KEYS}


def test_rows_of_another_meaning_are_kept_on_purpose(tmp_path: Path, log: Log) -> None:
    produce(log, b'{"a": 1, "b": 10}')
    summing(tmp_path, "a").run(until_caught_up=True)
    with pytest.raises(IncompatibleTopologyError, match="millstream migrate --keep sums"):
        summing(tmp_path, "b").run(until_caught_up=True)
    with pytest.raises(IncompatibleTopologyError, match=r"sum\(b\)"):
        migrate(summing(tmp_path, "b"))
    migrate(summing(tmp_path, "b"), keep=["sums"])
    produce(log, b'{"a": 1, "b": 10}')
    app = summing(tmp_path, "b")
    app.run(until_caught_up=True)
    assert app.store("sums").get("k3") == 11


def test_a_store_that_comes_back_begins_empty_also_without_a_name(tmp_path: Path, log: Log) -> None:
    """Its changelog still had the rows of the first time."""
    produce(log)
    windowed(tmp_path, 10).run(until_caught_up=True)
    app = application(tmp_path)
    app.stream("in", key=str, value=str).group_by_key().count(store="counts").to_stream().to("counted", value=int)
    app.run(until_caught_up=True)
    produce(log)
    windowed(tmp_path, 10).run(until_caught_up=True)
    assert numbers_of(log, "counted") == {key: [1, 2] for key in KEYS}
    assert numbers_of(log, "out") == {key: [1, 1] for key in KEYS}


def test_a_running_application_is_not_migrated(tmp_path: Path, log: Log) -> None:
    produce(log)
    with windowed(tmp_path, 10).start():
        wait_for(lambda: numbers_of(log, "counted") == {key: [1] for key in KEYS})
        with pytest.raises(SetupError, match="running"):
            migrate(windowed(tmp_path, 20))


@pytest.mark.parametrize("former", ["micro_batch", "local"])
def test_the_state_of_another_mode_is_refused_by_the_start(tmp_path: Path, log: Log, former: str) -> None:
    """A migration carries it over: see `test_mode_change`."""
    produce(log)
    if former == "micro_batch":
        with InProcessRun(windowed(tmp_path, 10, **{"execution.mode": "micro_batch"})) as run:
            run.run()
    else:
        windowed(tmp_path, 10).run(until_caught_up=True)
    other = windowed(tmp_path, 10, **{"execution.mode": "local" if former == "micro_batch" else "micro_batch"})
    ran = "micro_batch" if former == "micro_batch" else "real_time"
    with pytest.raises(SetupError, match=f"has run with execution.mode={ran}") as refused:
        other.run(until_caught_up=True)
    assert "millstream migrate" in (refused.value.hint or "")
    assert "millstream reset" in (refused.value.hint or "")


def test_the_command_follows_the_mode_in_which_the_application_has_run(tmp_path: Path, log: Log) -> None:
    """``run --local`` sets no key of the configuration."""
    produce(log)
    script = tmp_path / "shop.py"
    text = (
        "from millstream import App, tumbling\n"
        "app = App('shop', config={{'status': 'none'}})\n"
        "grouped = app.stream('in', key=str, value=str).group_by_key()\n"
        "windows = grouped.windowed_by(tumbling({size})).count()\n"
        "windows.to_stream(lambda key, _count: key.key).to('out', key=str, value=int)\n"
    )
    run = run_in(tmp_path)
    script.write_text(text.format(size=10))
    assert run("run", str(script), "--local", "--until-caught-up").code == 0
    script.write_text(text.format(size=20))
    assert run("run", str(script), "--local", "--until-caught-up").code == 3
    assert "begin with an empty store" in run("migrate", str(script)).out
    assert run("migrate", str(script), "--execute", "--yes").code == 0
    produce(log)
    assert run("run", str(script), "--local", "--until-caught-up").code == 0
    assert numbers_of(log, "out") == {key: [1, 1] for key in KEYS}
