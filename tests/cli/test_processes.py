"""Each command in a separate process, valid and invalid: the program as users and scripts call it."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import MILLSTREAM, SHOP, Run, environment, run_in

from millstream.log import open_log
from millstream.runtime.start.instance_lock import lock_application

pytestmark = pytest.mark.slow  # each test starts a process

GOOD = [
    ("topics list", "counts"),
    ("topics describe orders", "PARTITION"),
    ("produce orders --value-serde string --file input.txt", ""),
    ("consume orders --from-beginning --max-records 1", '{"shop": "north"}'),
    ("groups list", "shop"),
    ("groups describe shop", "application shop, last batch 0"),
    ("describe shop.py", "Sub-topology: 0"),
    ("plan-diff shop.py", "Compatible: "),
    ("stores list shop", "orders-of-shop"),
    ("stores get shop orders-of-shop north", "3"),
    ("stores scan shop minutes", "south"),
    ("reset shop", "delete the internal topic shop-minutes-changelog"),
    ("migrate shop.py", "rebuild store minutes"),
    ("topics create new --partitions 2", ""),
    ("topics delete counts --yes", ""),
    ("bench --records 1000", "produce to the log"),
    ("version", "millstream "),
]

BAD = [
    ("topics create orders", 1, "topic 'orders' exists already"),
    ("topics list --outptu json", 2, "No such option: --outptu"),
    ("topics describe ordrs", 1, "there is no topic 'ordrs'"),
    ("topics delete ordrs --yes", 1, "there is no topic 'ordrs'"),
    ("topics compact ordrs", 1, "there is no topic 'ordrs'"),
    ("produce ordrs", 1, "there is no topic 'ordrs'"),
    ("consume ordrs", 1, "there is no topic 'ordrs'"),
    ("groups list --all", 2, "No such option: --all"),
    ("groups describe shp", 1, "there is no group 'shp'"),
    ("run nowhere.py", 1, "there is no file nowhere.py"),
    ("describe nowhere.py", 1, "there is no file nowhere.py"),
    ("plan-diff nowhere.py", 1, "there is no file nowhere.py"),
    ("migrate nowhere.py", 1, "there is no file nowhere.py"),
    ("stores list shp", 1, "there is no application 'shp'"),
    ("stores get shop nothing north", 1, "application 'shop' has no store 'nothing'"),
    ("stores scan shop nothing", 1, "application 'shop' has no store 'nothing'"),
    ("reset shp", 1, "there is no application 'shp'"),
    ("bench --records none", 2, "Invalid value for '--records'"),
    ("doctor --fix", 2, "No such option: --fix"),
    ("version now", 2, "Got unexpected extra argument"),
]


@pytest.fixture
def own(shop_data: Path, tmp_path: Path) -> Run:
    """Runs commands on a copy of the data that a test may change."""
    shutil.copytree(shop_data, tmp_path / "data")
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "input.txt").write_text("one\n")
    return run_in(tmp_path / "data")


@pytest.mark.parametrize(("command", "shown"), GOOD)
def test_a_valid_command_succeeds(own: Run, command: str, shown: str) -> None:
    result = own(*command.split())
    assert result.code == 0, result.err
    assert shown in result.out


def test_doctor_reports_each_check(own: Run) -> None:
    result = own("doctor", "-o", "json")
    assert {"Python", "Java", "log"} <= {check["name"] for check in result.lines}
    assert result.code == (1 if any(check["status"] == "fail" for check in result.lines) else 0)


def test_compact_succeeds(own: Run) -> None:
    assert own("topics", "compact", "shop-minutes-changelog").code == 0


@pytest.mark.parametrize(("command", "code", "message"), BAD)
def test_an_invalid_command_is_reported_in_two_lines_at_most(own: Run, command: str, code: int, message: str) -> None:
    result = own(*command.split())
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith(f"error: {message}")
    assert len(result.err.splitlines()) <= 2


@pytest.mark.parametrize("command", ["run shop.py", "reset shop --execute --yes", "migrate shop.py --execute --yes"])
def test_a_running_application_is_not_changed(own: Run, data: Path, command: str) -> None:
    with lock_application(data / "applications" / "shop", "shop"):
        result = own(*command.split())
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("error: application 'shop' is running already (process ")


@pytest.mark.parametrize("command", ["topics list", "consume orders", "groups list", "stores list shop", "run shop.py"])
def test_data_of_a_later_version_is_not_touched(own: Run, data: Path, command: str) -> None:
    path = data / "log.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 9999")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.read_bytes()
    result = own(*command.split())
    assert (result.code, result.out) == (1, "")
    assert "9999" in result.err.splitlines()[0]
    assert path.read_bytes() == before


def test_an_interrupted_produce_reports_the_number_of_written_records(own: Run, data: Path) -> None:
    command = [str(MILLSTREAM), "produce", "numbers", "--rate", "50"]
    with (
        open_log(data) as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(data)) as producing,
    ):
        assert producing.stdin is not None
        assert producing.stderr is not None
        before = sum(log.ends(["numbers"])["numbers"])
        producing.stdin.write(b"x\n" * 10_000)
        producing.stdin.flush()
        while sum(log.ends(["numbers"])["numbers"]) == before:
            assert producing.poll() is None
            time.sleep(0.01)
        producing.send_signal(signal.SIGINT)
        assert producing.wait() == 130
        messages = producing.stderr.read().decode()
        written = sum(log.ends(["numbers"])["numbers"]) - before
    assert 0 < written < 10_000
    assert messages.startswith(f"{written} records written to numbers in ")
