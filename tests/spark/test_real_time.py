"""Applications in real-time execution on Spark, through the public API."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from millstream import App
from millstream.errors import ProcessingError, RunError
from millstream.log import Log, ProducerRecord, open_log
from millstream.runtime.handle import Handle

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

KEYS = 10


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with open_log(tmp_path) as log:
        log.create_topic("in", 2)
        yield log


def counting(tmp_path: Path, function: Callable[[str], str], **config: Any) -> App:
    """Counts records by key; the topic ``who`` has the processes in which a function was called."""
    settings = {"state.dir": str(tmp_path), "status": "none", "execution.mode": "real_time", "num.workers": 2}
    app = App("counting", config={**settings, **config})
    records = app.stream("in", key=str, value=str).map_values(function)
    records.to("who")
    records.group_by_key().count(store="counts").to_stream().to("out")
    return app


def process_id(_value: str) -> str:
    return str(os.getpid())


def produce(log: Log, count: int, value: bytes = b"v") -> None:
    log.produce("in", [ProducerRecord(b"k%d" % (number % KEYS), value) for number in range(count)])


def rows(log: Log, topic: str) -> list[dict[str, Any]]:
    ends = log.ends([topic])[topic]
    return [row for number, end in enumerate(ends) for row in log.read(topic, number, 0, end).to_pylist()]


def has_written(log: Log, count: int) -> bool:
    return len(rows(log, "out")) == count


def wait_for(handle: Handle, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert not handle.state.is_over, "the application has ended"
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_each_record_is_counted_once_although_workers_are_killed(tmp_path: Path, log: Log) -> None:
    produce(log, 100)
    handle = counting(tmp_path, process_id).start()
    for number in range(1, 5):
        wait_for(handle, partial(has_written, log, 100 * number))
        os.kill(int(rows(log, "who")[-1]["value"]), signal.SIGKILL)
        produce(log, 100)
    wait_for(handle, partial(has_written, log, 500))
    assert handle.stop(timeout=30)
    counts: dict[bytes, list[int]] = {}
    for row in rows(log, "out"):
        counts.setdefault(row["key"], []).append(int.from_bytes(row["value"], "big"))
    assert counts == {b"k%d" % number: list(range(1, 51)) for number in range(KEYS)}


def stick(value: str) -> str:
    time.sleep(1000 if value == "stick" else 0)
    return value


def fail(value: str) -> str:
    return str(int(value, 36) // (value != "fail"))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (stick, RunError, r"task 0_\d: stick \(.* has not returned for 1000 ms"),
        (fail, ProcessingError, r"function .* in fail\): ZeroDivisionError"),
    ],
)
def test_an_error_of_a_function_ends_the_application_and_names_the_function(
    tmp_path: Path, log: Log, function: Callable[[str], str], error: type[RunError], message: str
) -> None:
    handle = counting(tmp_path, function, task_timeout_ms=1000).start()
    produce(log, 100)
    wait_for(handle, partial(has_written, log, 100))
    produce(log, 1, function.__name__.encode())
    with pytest.raises(error, match=message):
        handle.wait(120)


def test_what_functions_print_is_shown(tmp_path: Path, log: Log, capfd: pytest.CaptureFixture[str]) -> None:
    def speak(value: str) -> str:
        print("heard", value)
        return value

    produce(log, 1, b"this")
    counting(tmp_path, speak).run(until_caught_up=True)
    assert capfd.readouterr().out == "heard this\n"


@pytest.mark.parametrize(
    "cases",
    [
        [
            "stop:keep_quiet",
            "stop:_settled_slots",
            "stop-context:_slots",
            "stop:check_settings",
            "stop-context:ShippedProgram",
            "stop:poll",
            "kill:check_reachable",
        ],
        ["kill:_settled_slots"],
    ],
    ids=["stopped", "killed"],
)
def test_one_line_says_that_spark_has_ended_during_the_start(tmp_path: Path, cases: list[str]) -> None:
    """Each start after a stop has a new context. The cases: how Spark ends, and before which function is called."""
    script = Path(__file__).parent / "stopped_spark.py"
    done = subprocess.run([sys.executable, script, tmp_path, *cases], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    errors = dict(line.split(" ", 1) for line in lines[::2])
    stopped = "RunError: the application stopped: Spark was stopped, and its workers with it"
    ended = "RunError: the application stopped: Spark's Java process has ended"
    assert errors == {case: ended if case.startswith("kill") else stopped for case in cases}
    assert all("look at " in hint for hint in lines[1::2])
    assert "Traceback" not in done.stderr
    assert "py4j" not in done.stderr
