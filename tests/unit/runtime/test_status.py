"""The status of a running application: the live line, JSON lines or nothing, and the output of functions."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millstream import App
from millstream.errors import LogError, RunError
from millstream.log import ProducerRecord, open_log
from millstream.runtime.execution import Progress
from millstream.runtime.in_process.batches import InProcessRun
from millstream.runtime.lifecycle import State
from millstream.runtime.messages import Drop, TaskResult
from millstream.runtime.observe import status as module
from millstream.runtime.observe.metrics import Metrics
from millstream.runtime.observe.status import Status

ORIGIN = (0, "in", 0)


class Clock:
    """The clock of the module, which a test advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def run(tmp_path: Path) -> Iterator[InProcessRun]:
    with open_log(tmp_path) as log:
        log.create_topic("in")
        log.produce("in", [ProducerRecord(b"k", b"v")] * 1500)
    app = App("shop", config={"state.dir": str(tmp_path)})
    app.stream("in", value=str).to("out")
    with InProcessRun(app, records=1200) as run:
        yield run


def status_of(run: InProcessRun, how: str = "none") -> tuple[Status, Metrics]:
    metrics = Metrics(run.application)
    return Status("shop", how, metrics), metrics


def batch(run: InProcessRun, metrics: Metrics, *more: TaskResult) -> None:
    run.batch()
    metrics.add(Progress(metrics.last_batch + 1, [*run.results, *more], 0.2, 0.05, 2))


def test_a_notebook_shows_problems_only(
    run: InProcessRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    status, metrics = status_of(run, "auto")
    with status:
        status.state_changed(State.STARTING, State.CREATED)
        with status.waiting("starting Spark"):
            pass
        status.state_changed(State.RUNNING, State.STARTING)
        batch(run, metrics)
        status.batch(run.results)
        status.retrying("task 0: its process ended")
        status.trouble("the broker does not answer")
        status.trouble(None)
        status.failed(LogError("the log is gone"), 2.0)
    assert capsys.readouterr().err.splitlines() == [
        "shop: task 0: its process ended",
        "shop: the broker does not answer",
        "shop: the log is gone",
        "  starting again in 2 s",
    ]


# ----- the line --------------------------------------------------------------------------------------------------


def test_the_line_shows_the_step_of_the_start_and_its_duration(run: InProcessRun, clock: Clock) -> None:
    status, metrics = status_of(run)
    status.state_changed(State.STARTING, State.CREATED)
    with status.waiting("starting Spark"):
        assert status.line() == "shop  starting Spark … 0 s"
        clock.now += 7.2
        assert status.line() == "shop  starting Spark … 7 s"
    with status.waiting("starting the query"):
        assert status.line() == "shop  starting the query … 0 s"
    status.state_changed(State.RUNNING, State.STARTING)
    clock.now += 2
    assert status.line() == "shop  RUNNING  the first batch … 2 s"
    batch(run, metrics)
    assert status.line().startswith("shop  in ")


def test_the_line_shows_the_metrics_of_a_running_application(
    run: InProcessRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, metrics = status_of(run)
    status.state_changed(State.STARTING, State.CREATED)
    status.state_changed(State.RUNNING, State.STARTING)
    size = {"state.stored-bytes": 1_500_000.0, "state.log-weight": 500_000.0}
    task = TaskResult((1, "", 0), drops=[Drop("window", "late", 3), Drop("once", "duplicate", 5)], figures=size)
    batch(run, metrics, task)
    metrics.last_seconds = 0.25
    monkeypatch.setattr(metrics, "rates", lambda: (1_234.5, 45_600_000.0))
    assert status.line() == "shop  in 1.2k/s  out 46M/s  lag 300  batch 250 ms  state 1.9 MB  dropped 3"
    status.state_changed(State.PENDING_SHUTDOWN, State.RUNNING)
    assert status.line().startswith("shop  PENDING_SHUTDOWN  in 1.2k/s")


def test_the_line_of_workers_shows_commits_restarts_and_restorations(
    run: InProcessRun, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run.application, "mode", "real_time")
    status, metrics = status_of(run)
    status.state_changed(State.STARTING, State.CREATED)
    status.state_changed(State.RUNNING, State.STARTING)
    assert status.line() == "shop  RUNNING  the first commit … 0 s"
    metrics.restoring = "restoring task 0_1: 20 of 90 records"
    clock.now += 3
    assert status.line() == "shop  RUNNING  restoring task 0_1: 20 of 90 records … 3 s"
    worker = TaskResult((1, "", 0), figures={"state.stored-bytes": 1e6, "state.memory": 2e6})
    batch(run, metrics)
    metrics.measure([worker])
    batch(run, metrics)
    metrics.restarted()
    metrics.restarted()
    monkeypatch.setattr(metrics, "rates", lambda: (10.0, 20.0))
    assert status.line() == (
        "shop  in 10/s  out 20/s  lag 0  commit 50 ms  state 1.9 MB  dropped 0  restarts 2"
        "  restoring task 0_1: 20 of 90 records"
    )
    metrics.restoring = ""
    assert status.line().endswith("  restarts 2")


def test_a_long_restoration_is_printed_at_intervals(
    run: InProcessRun, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    status, metrics = status_of(run, "text")
    status.state_changed(State.RUNNING, State.STARTING)
    capsys.readouterr()
    for count in range(12):
        metrics.restoring = f"restoring task 0_1: {count} of 90 records"
        status.restoring()
        clock.now += 1
    lines = [line.partition("  ")[2] for line in capsys.readouterr().err.splitlines()]
    assert lines == ["restoring task 0_1: 5 of 90 records", "restoring task 0_1: 10 of 90 records"]


def test_the_line_shows_the_stop_before_the_first_batch(run: InProcessRun, clock: Clock) -> None:
    status, _metrics = status_of(run)
    status.state_changed(State.STARTING, State.CREATED)
    with status.waiting("starting Spark"):
        clock.now += 5
        status.state_changed(State.PENDING_SHUTDOWN, State.STARTING)
        clock.now += 1
        assert status.line() == "shop  stopping … 1 s"


def test_the_line_shows_a_problem_for_as_long_as_it_lasts(run: InProcessRun, clock: Clock) -> None:
    status, metrics = status_of(run)
    status.state_changed(State.STARTING, State.CREATED)
    status.state_changed(State.RUNNING, State.STARTING)
    batch(run, metrics)
    clock.now += 60
    status.trouble("the broker does not answer")
    clock.now += 3
    status.trouble("the broker does not answer")
    assert status.line() == "shop  the broker does not answer … 3 s"
    status.trouble(None)
    assert status.line().startswith("shop  in ")


# ----- a line, JSON or nothing -----------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("how", "terminal", "shown"),
    [
        ("auto", True, "line"),
        ("auto", False, "text"),
        ("text", True, "text"),
        ("line", False, "line"),
        ("json", True, "json"),
        ("none", True, "none"),
        ("none", False, "none"),
    ],
)
def test_each_form_of_the_status_writes_to_its_stream(
    run: InProcessRun, monkeypatch: pytest.MonkeyPatch, how: str, terminal: bool, shown: str
) -> None:
    said, printed = Terminal() if terminal else io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.setattr(sys, "stdout", printed)
    monkeypatch.setenv("TERM", "xterm")
    status, metrics = status_of(run, how)
    with status:
        status.state_changed(State.STARTING, State.CREATED)
        with status.waiting("starting Spark"):
            pass
        batch(run, metrics)
        status.batch([TaskResult(ORIGIN, printed=["said by a [bold]function[/bold]"])])
    text = said.getvalue()
    if shown == "json":
        lines = [json.loads(line) for line in text.splitlines()]
        assert [{key: line[key] for key in line if key in {"state", "waiting"}} for line in lines] == [
            {"state": "STARTING"},
            {"waiting": "starting Spark"},
            {"state": "STARTING", "waiting": 0},  # in metrics: the number of waiting records
        ]
        assert {line["application"] for line in lines} == {"shop"}
        assert lines[-1]["sources"] == {"in": {"read": 1200, "lag": 300}}
    elif shown == "text":
        first, second, third = (line.split(" ", 1)[1] for line in text.splitlines())
        assert first.startswith("shop  STARTING  (figures every 30 s at most; status=json ")
        assert second == "shop  starting Spark"
        assert third.startswith("shop  in ")
    elif shown == "line":
        assert "{" not in text
        assert "said by a [bold]function[/bold]" in text  # above the live line
    else:
        assert text == ""
    if shown != "line":
        assert printed.getvalue() == "said by a [bold]function[/bold]\n"


def test_json_lines_contain_metrics_at_intervals_and_the_error_at_the_end(
    run: InProcessRun, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    status, metrics = status_of(run, "json")

    def lines() -> list[dict[str, Any]]:
        return [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    status.state_changed(State.STARTING, State.CREATED)
    status.state_changed(State.RUNNING, State.STARTING)
    assert [line["state"] for line in lines()] == ["STARTING", "RUNNING"]
    batch(run, metrics)
    for _ in range(3):  # within one second
        status.batch([])
    (figures,) = lines()
    assert figures["sinks"] == {"out": 1200}
    clock.now += 1
    status.batch([])
    assert len(lines()) == 1
    status.trouble("the broker does not answer")
    status.trouble("the broker does not answer")
    status.trouble(None)
    assert [line["trouble"] for line in lines()] == ["the broker does not answer", None]
    status.failed(RunError("a worker was lost"), 0.5)
    (failed,) = lines()
    assert (failed["error"], failed["code"], failed["restart_in_seconds"]) == ("a worker was lost", "run", 0.5)
    status.lost(["counts"])
    assert lines()[0]["lost_stores"] == ["counts"]
    status.error = RunError("a function failed")
    status.state_changed(State.PENDING_ERROR, State.RUNNING)
    status.state_changed(State.ERROR, State.PENDING_ERROR)
    last = lines()[-1]
    assert (last["state"], last["error"], last["code"]) == ("ERROR", "a function failed", "run")
    assert last["sources"] == {"in": {"read": 1200, "lag": 300}}


def test_text_lines_are_few_and_show_each_change(
    run: InProcessRun, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    status, metrics = status_of(run, "text")

    def lines() -> list[str]:
        return [line.removeprefix("1970-01-01T00:") for line in capsys.readouterr().err.splitlines()]

    status.state_changed(State.STARTING, State.CREATED)
    status.state_changed(State.RUNNING, State.STARTING)
    assert [line[:21] for line in lines()] == ["16:40Z shop  STARTING", "16:40Z shop  RUNNING"]
    batch(run, metrics)
    for _ in range(30):
        status.batch([])
        clock.now += 0.99
    (figures,) = lines()
    assert figures.startswith("16:40Z shop  in ")
    clock.now += 0.5
    status.batch([])
    assert len(lines()) == 1
    status.trouble("the broker \x1b[31m does not answer")
    status.trouble("the broker \x1b[31m does not answer")
    status.trouble(None)
    assert [line[7:] for line in lines()] == ["shop  the broker \\x1b[31m does not answer", "shop  goes on"]
    status.failed(RunError("a worker was lost:\nerror: \x1b]0;gone"), 0.5)
    first, *rest = lines()
    assert first.endswith("shop  a worker was lost:")
    assert rest == ["    error: \\x1b]0;gone", "  starting again in 0.5 s"]
    status.lost(["counts"])
    assert lines()[0].endswith("what is in them is lost: counts")
    status.state_changed(State.PENDING_SHUTDOWN, State.RUNNING)
    status.state_changed(State.NOT_RUNNING, State.PENDING_SHUTDOWN)
    assert lines()[-1].endswith("shop  NOT_RUNNING  batches 1  read 1200  written 1200  dropped 0")


def test_text_lines_have_the_error_at_the_end(run: InProcessRun, capsys: pytest.CaptureFixture[str]) -> None:
    status, _metrics = status_of(run, "text")
    status.error = RunError("a function failed")
    status.state_changed(State.PENDING_ERROR, State.RUNNING)
    status.state_changed(State.ERROR, State.PENDING_ERROR)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(" shop  ERROR  a function failed")


# ----- on a terminal ---------------------------------------------------------------------------------------------

SCRIPT = """
import sys
import time

from millstream import App
from millstream.errors import SetupError
from millstream.runtime import facade
from millstream.runtime.spark import micro_batch


def open_session(*_arguments):
    print("from the script", flush=True)
    time.sleep(2)
    raise SetupError("there is no cluster")


facade.check_startable = lambda _config: None
micro_batch.open_session = open_session
app = App("shop", config={"state.dir": sys.argv[1]})
app.stream("in", value=str).to("out")
try:
    app.run()
except SetupError as error:
    print("the script was told:", error.message)
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """A script whose Spark takes a while to start, and fails."""
    with open_log(tmp_path) as log:
        log.create_topic("in")
    return [sys.executable, "-c", SCRIPT, str(tmp_path)]


def test_a_start_shows_its_progress_on_a_terminal(command: list[str]) -> None:
    ours, its = pty.openpty()
    process = subprocess.Popen(
        command, stdin=its, stdout=its, stderr=its, env={**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    )
    os.close(its)
    text = "".join(_until_closed(ours))
    assert process.wait(60) == 0
    shown = [line.strip() for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", text))]
    assert {line for line in shown if re.fullmatch("shop  starting Spark … [0-9] s", line)}
    assert "from the script" in shown
    assert "the script was told: there is no cluster" in shown
    assert "{" not in text
    assert text.rindex("\x1b[2K") < text.index("the script was told"), "the line is left behind"


def _until_closed(end: int) -> Iterator[str]:
    with os.fdopen(end, "r", encoding="utf-8", errors="replace", newline="") as terminal:
        while True:
            try:
                piece = terminal.read(1)
            except OSError:  # reported when the other end of a terminal is closed
                return
            if not piece:
                return
            yield piece


def test_a_start_shows_its_progress_in_a_few_lines_in_a_pipe(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "from the script\nthe script was told: there is no cluster\n"
    lines = [line.split("  ")[1:] for line in done.stderr.splitlines()]
    assert lines[0][0] == "STARTING"
    assert lines[1:] == [["starting Spark"], ["ERROR", "there is no cluster"]]


def test_metrics_of_the_last_batch_before_a_quiet_time_are_printed(
    run: InProcessRun, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    status, metrics = status_of(run, "json")
    for _ in range(2):
        batch(run, metrics)
        status.batch(run.results)
        status.refresh()
    assert [json.loads(line)["sources"]["in"]["lag"] for line in capsys.readouterr().err.splitlines()] == [300]
    clock.now += 1
    for _ in range(2):
        status.refresh()
    assert [json.loads(line)["sources"]["in"]["lag"] for line in capsys.readouterr().err.splitlines()] == [0]
