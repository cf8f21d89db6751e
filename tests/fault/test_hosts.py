"""Task hosts hold nothing that cannot be lost: killed, cut off or asked again, they give the same results."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fault import model, smoke
from tests.fault.hosted import HostedRun, process_of
from tests.fault.points import HOST

from millstream import App
from millstream.errors import RunError
from millstream.log import ProducerRecord, open_log
from millstream.runtime.host.client import connect, run_directory
from millstream.runtime.host.process_identity import owner_record, process_identity
from millstream.runtime.tasks.warm import WarmTasks, _Warm

pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")

PER_KEY = 24
RECORDS = 150
SEED = 11
SECONDS = 15.0
"""How long a host may outlive what it was started for."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("filled") / "data"
    smoke.fill(directory, SEED, PER_KEY)
    return directory


@pytest.fixture
def directory(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "data"))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for temporary files, with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory() as found:
        monkeypatch.setattr(tempfile, "tempdir", found)
        yield Path(found)


def check(directory: Path) -> None:
    findings = model.verify(directory, SEED, PER_KEY)
    assert not findings, str(findings)


def wait_for_end(pid: int) -> bool:
    """Waits for the end of a child; returns whether it came in time."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.05)
    return False


def test_hosts_give_the_results_of_the_model_and_keep_their_state_warm(directory: Path) -> None:
    with HostedRun(smoke.build(directory), records=RECORDS) as run:
        batches = run.run()
    assert batches > 5
    assert run.failures == run.reloads == 0
    check(directory)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has loaded")
def test_a_host_does_its_work_without_pandas(directory: Path) -> None:
    """It would take a third of a second to load, in each host. Arrow does so if it is asked carelessly."""
    with HostedRun(smoke.build(directory), records=RECORDS) as run:
        run.run()
        with contextlib.closing(run.connect()) as wire:
            host = process_of(wire)
        loaded = Path(f"/proc/{host}/maps").read_text(encoding="utf-8")
    assert "libarrow" in loaded
    assert "pandas" not in loaded


@pytest.mark.parametrize("point", HOST)
def test_a_host_that_dies_in_a_batch_is_replaced(point: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_FAILPOINT", f"{point}:6")
    with HostedRun(smoke.build(directory), records=RECORDS) as run:
        run.run()
    assert run.failures > 0, "nothing passes this point"
    assert run.reloads > 0
    check(directory)


def test_an_attempt_that_is_made_again_gives_the_same(directory: Path) -> None:
    with HostedRun(smoke.build(directory), records=RECORDS, seed=1, repeated=0.4) as run:
        run.run()
    assert run.repeats > 3
    check(directory)


def test_an_attempt_that_is_given_up_leaves_nothing_behind(directory: Path) -> None:
    with HostedRun(smoke.build(directory), records=RECORDS, seed=2, lost=0.4) as run:
        run.run()
    check(directory)


def test_all_of_it_at_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_FAILPOINT", "host.batch.after-run:7")
    with HostedRun(smoke.build(directory), records=RECORDS, seed=3, lost=0.3, repeated=0.3) as run:
        run.run()
    assert run.failures > 0
    check(directory)


def test_a_host_ends_with_the_process_that_it_was_started_for(directory: Path) -> None:
    with HostedRun(smoke.build(directory), records=RECORDS) as run:
        run.batch()
        run.batch()
        wire = run.connect()
        host = process_of(wire)
        wire.close()
        run.executor.kill()
        run.executor.wait()
        assert wait_for_end(host)


def test_a_host_that_was_started_for_a_process_that_has_gone_meanwhile_ends(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    born = process_identity(gone.pid)
    assert born is not None
    gone.communicate()
    assert process_identity(gone.pid) is None
    host = subprocess.Popen(
        [sys.executable, "-m", "millstream.runtime.host", str(tmp_path / "h0"), str(gone.pid), born]
    )
    assert host.wait(SECONDS) == 0


def test_no_host_is_started_for_a_process_that_is_gone() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with pytest.raises(RunError, match="is gone"):
        connect(f"gone-{os.getpid()}", gone.pid, 0)


def test_hosts_are_found_however_long_the_path_of_temporary_files_is(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket's path has a hundred bytes at the most."""
    long = tmp_path / ("t" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with HostedRun(smoke.build(directory), records=RECORDS) as run:
        run.batch()
        run.batch()
    assert run.failures == 0
    assert not list(long.iterdir())


def test_directories_of_killed_runs_are_removed_and_those_of_live_ones_are_not(directory: Path, short: Path) -> None:
    base = run_directory("x").parent
    assert base.parent == short
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    alive = owner_record(os.getpid())
    owners = {
        f"killed/{gone.pid}": alive,
        f"reused/{os.getpid()}": alive + "0",
        f"alive/{os.getpid()}": alive,
        f"elsewhere/{gone.pid}": "pid:[1] 5",
    }
    for name, owner in owners.items():
        (base / name).mkdir(parents=True)
        (base / name / "owner").write_text(owner)
        (base / name / "l0").touch()
    with HostedRun(smoke.build(directory), records=RECORDS) as run:
        run.batch()
        run.batch()
        with contextlib.closing(run.connect()) as wire:
            host = process_of(wire)
        assert sorted(path.name for path in base.iterdir()) == sorted(["alive", "elsewhere", run.name])
        run.executor.kill()
        run.executor.wait()
        assert wait_for_end(host)
        assert not list((base / run.name).glob("*/h*")), "the hosts have gone, with what they had"


def test_a_host_ends_when_it_is_told(directory: Path) -> None:
    with HostedRun(smoke.build(directory), records=RECORDS) as run:
        run.batch()
        run.batch()
        wire = run.connect()
        host = process_of(wire)
        wire.close()
    assert wait_for_end(host)


LIMIT = 1024**2


def counting(directory: Path, keys: int, rounds: int) -> App:
    """Counts keys that come in another order each time, so that whatever is not in memory is asked for."""
    with open_log(directory) as log:
        log.create_topic("in")
        for number in range(rounds):
            order = [(n * 7919 + number) % keys for n in range(keys)]
            log.produce("in", [ProducerRecord(b"key-%06d" % n, b"x" * 20, number) for n in order])
    config = {"state.dir": str(directory), "status": "none", "num.tasks": 4, "host.memory.max.bytes": LIMIT}
    app = App("counting", config=config)
    app.stream("in", value=str).group_by_key().count(store="counts")
    return app


def memory(run: HostedRun) -> dict[int, float]:
    """What the state of each task takes in memory."""
    return {one.origin[2]: one.figures["state.memory"] for one in run.results if "state.memory" in one.figures}


def test_the_tasks_of_a_host_share_its_memory(tmp_path: Path) -> None:
    keys, rounds = 8_000, 3
    app = counting(tmp_path, keys, rounds)
    with HostedRun(app, records=3_000, hosts=1) as run:
        batches = 0
        while run.batch():
            batches += 1
            used = memory(run)
            assert len(used) == 4
            if batches > 1:  # in the first, tasks come one by one
                assert sum(used.values()) <= LIMIT
    figures = [one.figures for one in run.results if "state.memory" in one.figures]
    assert all(one["state.pages-evicted"] > 0 and one["state.pages-loaded"] > 0 for one in figures)
    assert all(one["state.memory"] > LIMIT / 8 for one in figures), "what there is is used"
    assert {app.store("counts").get(f"key-{n:06d}") for n in range(0, keys, 97)} == {rounds}


def test_a_task_that_has_moved_to_another_host_takes_no_memory_from_those_that_have_not(tmp_path: Path) -> None:
    app = counting(tmp_path, 8_000, 4)
    with HostedRun(app, records=3_000, hosts=1) as run:
        for _ in range(4):
            assert run.batch()
        assert max(memory(run).values()) <= LIMIT / 4
        run.places |= {1: 1, 2: 1, 3: 1}
        assert run.batch()  # the first that does not ask for them: nobody can know yet
        assert memory(run)[0] <= LIMIT / 4
        run.run()
        assert LIMIT / 3 < memory(run)[0] <= LIMIT
    assert {app.store("counts").get(f"key-{n:06d}") for n in range(0, 8_000, 97)} == {4}


def two_warm_groups() -> tuple[Any, list[Any]]:
    groups: list[Any] = [SimpleNamespace(state=SimpleNamespace(memory_limit=1), fetch=None) for _ in range(2)]
    warm = WarmTasks()
    warm._groups = {number: _Warm(group, b"token", 1) for number, group in enumerate(groups)}
    warm._now = 1
    return warm, groups


def test_a_group_that_ran_elsewhere_without_a_change_of_state_stays_warm() -> None:
    program = SimpleNamespace(config={"host.memory.max.bytes": 1_000})
    warm, groups = two_warm_groups()
    for now, number in ((2, 0), (3, 1)):
        assert warm.acquire(program, number, b"token", None, now, all_tasks=True) is groups[number]
        assert number in warm._groups
    assert groups[1].state.memory_limit == 500


def test_a_group_without_input_in_some_batches_stays_warm() -> None:
    program = SimpleNamespace(config={"host.memory.max.bytes": 1_000})
    warm, groups = two_warm_groups()
    for now in range(2, 6):
        warm.acquire(program, 0, b"token", None, now, all_tasks=False)
    assert warm.acquire(program, 1, b"token", None, 6, all_tasks=False) is groups[1]


def hang(value: str) -> str:
    threading.Event().wait()  # the line that is stuck
    return value


def test_a_function_that_does_not_return_is_named(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_topic("in")
        log.produce("in", [ProducerRecord(b"k", b"v")])
    app = App("stuck", config={"state.dir": str(tmp_path), "status": "none", "task.timeout.ms": 300})
    app.stream("in", value=str).group_by_key().reduce(lambda a, b: a).map_values(hang).to_stream().to("out")
    lines, first = inspect.getsourcelines(hang)
    stuck = first + next(n for n, line in enumerate(lines) if "is stuck" in line)
    with HostedRun(app, records=10) as run, pytest.raises(RunError) as raised:
        run.run()
    assert "hang" in raised.value.message
    assert f"line {stuck}" in raised.value.message
    assert "300 ms" in raised.value.message


def tell(value: str) -> str:
    print("printed", value)
    logging.getLogger("shop").info("info %s", value)
    logging.getLogger("shop").debug("debug %s", value)
    logging.getLogger("shop.detail").debug("detail %s", value)
    logging.getLogger("quiet").warning("warning %s", value)
    return value


def test_what_functions_print_and_log_is_passed_on_as_the_driver_would_show_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = logging.StreamHandler()
    shown.setFormatter(logging.Formatter("%(levelname)s of %(name)s: %(message)s"))
    monkeypatch.setattr(logging.root, "handlers", [logging.FileHandler(tmp_path / "log", delay=True), shown])
    for name, level in {"root": logging.INFO, "shop.detail": logging.DEBUG, "quiet": logging.ERROR}.items():
        monkeypatch.setattr(logging.getLogger(name), "level", level)
    with open_log(tmp_path) as log:
        log.create_topic("in")
        log.produce("in", [ProducerRecord(b"k", b"v")])
    app = App("telling", config={"state.dir": str(tmp_path), "status": "none"})
    app.stream("in", value=str).group_by_key().reduce(lambda a, _b: a).map_values(tell).to_stream().to("out")
    with HostedRun(app, records=10) as run:
        run.run()
        printed = [line for written in run.results for line in written.printed]
    assert printed == ["printed v", "INFO of shop: info v", "DEBUG of shop.detail: detail v"]
