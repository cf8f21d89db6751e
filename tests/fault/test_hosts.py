"""Task hosts hold nothing that cannot be lost: killed, disconnected or asked again, they give the same results."""

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

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]

PER_KEY = 24
RECORDS = 150
SEED = 11
SECONDS = 15.0
"""The time in which a host must end after its parent."""


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
    """A directory for temporary files, with a path short enough for sockets."""
    with tempfile.TemporaryDirectory() as path:
        monkeypatch.setattr(tempfile, "tempdir", path)
        yield Path(path)


def check(directory: Path) -> None:
    findings = model.verify(directory, SEED, PER_KEY)
    assert not findings, str(findings)


def wait_for_end(pid: int) -> bool:
    """Waits for a child to end; returns whether it did in time."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.05)
    return False


def test_hosts_give_the_expected_results_and_keep_tasks_warm(directory: Path) -> None:
    with HostedRun(smoke.build(directory), records=RECORDS) as run:
        batches = run.run()
    assert batches > 5
    assert run.failures == run.reloads == 0
    check(directory)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the libraries of a process")
def test_a_host_does_not_load_pandas(directory: Path) -> None:
    """Some calls of Arrow import pandas, which takes a third of a second in each host."""
    with HostedRun(smoke.build(directory), records=RECORDS) as run:
        run.run()
        with contextlib.closing(run.connect()) as wire:
            host = process_of(wire)
        loaded = Path(f"/proc/{host}/maps").read_text(encoding="utf-8")
    assert "libarrow" in loaded
    assert "pandas" not in loaded


@pytest.mark.parametrize("point", HOST)
def test_a_host_that_ends_in_a_batch_is_replaced(point: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_FAILPOINT", f"{point}:6")
    with HostedRun(smoke.build(directory), records=RECORDS) as run:
        run.run()
    assert run.failures > 0, "no host reaches this failpoint"
    assert run.reloads > 0
    check(directory)


def test_a_repeated_attempt_gives_the_same_results(directory: Path) -> None:
    with HostedRun(smoke.build(directory), records=RECORDS, seed=1, repeated=0.4) as run:
        run.run()
    assert run.repeats > 3
    check(directory)


def test_an_abandoned_attempt_has_no_effect(directory: Path) -> None:
    with HostedRun(smoke.build(directory), records=RECORDS, seed=2, lost=0.4) as run:
        run.run()
    check(directory)


def test_lost_and_repeated_attempts_and_a_crash_together(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_FAILPOINT", "host.batch.after-run:7")
    with HostedRun(smoke.build(directory), records=RECORDS, seed=3, lost=0.3, repeated=0.3) as run:
        run.run()
    assert run.failures > 0
    check(directory)


def test_a_host_ends_with_its_parent(directory: Path) -> None:
    with HostedRun(smoke.build(directory), records=RECORDS) as run:
        run.batch()
        run.batch()
        wire = run.connect()
        host = process_of(wire)
        wire.close()
        run.executor.kill()
        run.executor.wait()
        assert wait_for_end(host)


def test_a_host_ends_if_its_parent_has_ended_before_it_starts(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    identity = process_identity(gone.pid)
    assert identity is not None
    gone.communicate()
    assert process_identity(gone.pid) is None
    host = subprocess.Popen(
        [sys.executable, "-m", "millstream.runtime.host", str(tmp_path / "h0"), str(gone.pid), identity]
    )
    assert host.wait(SECONDS) == 0


def test_no_host_is_started_for_a_parent_that_has_ended() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with pytest.raises(RunError, match="is gone"):
        connect(f"gone-{os.getpid()}", gone.pid, 0)


def test_hosts_work_with_a_long_path_of_temporary_files(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path of a socket is limited to about a hundred bytes."""
    long = tmp_path / ("t" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with HostedRun(smoke.build(directory), records=RECORDS) as run:
        run.batch()
        run.batch()
    assert run.failures == 0
    assert not list(long.iterdir())


def test_directories_of_ended_runs_are_removed_and_others_are_kept(directory: Path, short: Path) -> None:
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
        assert not list((base / run.name).glob("*/h*")), "the hosts have removed their sockets"


def test_a_host_ends_when_it_is_stopped(directory: Path) -> None:
    with HostedRun(smoke.build(directory), records=RECORDS) as run:
        run.batch()
        run.batch()
        wire = run.connect()
        host = process_of(wire)
        wire.close()
    assert wait_for_end(host)


LIMIT = 1024**2


def counting(directory: Path, keys: int, rounds: int) -> App:
    """Counts keys in an order that changes with each round, so that evicted pages are loaded again."""
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
    """The memory that the state of each task takes."""
    results = [result for result in run.results if "state.memory" in result.figures]
    return {result.origin[2]: result.figures["state.memory"] for result in results}


def test_the_tasks_of_a_host_share_its_memory(tmp_path: Path) -> None:
    keys, rounds = 8_000, 3
    app = counting(tmp_path, keys, rounds)
    with HostedRun(app, records=3_000, hosts=1) as run:
        batches = 0
        while run.batch():
            batches += 1
            used = memory(run)
            assert len(used) == 4
            if batches > 1:  # the first batch loads tasks one by one
                assert sum(used.values()) <= LIMIT
    figures = [result.figures for result in run.results if "state.memory" in result.figures]
    assert all(task["state.pages-evicted"] > 0 and task["state.pages-loaded"] > 0 for task in figures)
    assert all(task["state.memory"] > LIMIT / 8 for task in figures), "the memory is not used"
    assert {app.store("counts").get(f"key-{n:06d}") for n in range(0, keys, 97)} == {rounds}


def test_a_task_that_has_moved_to_another_host_frees_its_memory(tmp_path: Path) -> None:
    app = counting(tmp_path, 8_000, 4)
    with HostedRun(app, records=3_000, hosts=1) as run:
        for _ in range(4):
            assert run.batch()
        assert max(memory(run).values()) <= LIMIT / 4
        run.hosts |= {1: 1, 2: 1, 3: 1}
        assert run.batch()  # the first batch without them: the host does not know yet that they have moved
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


def test_the_error_names_a_function_that_does_not_return(tmp_path: Path) -> None:
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


def report(value: str) -> str:
    print("printed", value)
    logging.getLogger("shop").info("info %s", value)
    logging.getLogger("shop").debug("debug %s", value)
    logging.getLogger("shop.detail").debug("detail %s", value)
    logging.getLogger("quiet").warning("warning %s", value)
    return value


def test_output_and_log_records_of_functions_reach_the_driver_in_its_own_format(
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
    app = App("reporting", config={"state.dir": str(tmp_path), "status": "none"})
    app.stream("in", value=str).group_by_key().reduce(lambda a, _b: a).map_values(report).to_stream().to("out")
    with HostedRun(app, records=10) as run:
        run.run()
        printed = [line for result in run.results for line in result.printed]
    assert printed == ["printed v", "INFO of shop: info v", "DEBUG of shop.detail: detail v"]
