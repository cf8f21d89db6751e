"""Task hosts hold nothing that cannot be lost: killed, cut off or asked again, they give the same results."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.fault import model, smoke
from tests.fault.hosted import HostedRun, process_of
from tests.fault.points import HOST

from millstream import App
from millstream.errors import RunError
from millstream.log import ProducerRecord, open_log
from millstream.runtime.host.birth import birth
from millstream.runtime.host.client import connect

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
    born = birth(gone.pid)
    assert born is not None
    gone.communicate()
    assert birth(gone.pid) is None
    host = subprocess.Popen(
        [sys.executable, "-m", "millstream.runtime.host", str(tmp_path / "h0"), str(gone.pid), born]
    )
    assert host.wait(SECONDS) == 0


def test_no_host_is_started_for_a_process_that_is_gone() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with pytest.raises(RunError, match="is gone"):
        connect(f"gone-{os.getpid()}", gone.pid, 0)


def test_a_host_ends_when_it_is_told(directory: Path) -> None:
    with HostedRun(smoke.build(directory), records=RECORDS) as run:
        run.batch()
        run.batch()
        wire = run.connect()
        host = process_of(wire)
        wire.close()
    assert wait_for_end(host)


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
