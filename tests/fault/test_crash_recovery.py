"""A function that ends its process is named in the error, with its record; a transient end is recovered from."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fault.hosted import HostedRun, packed

from millstream import App, Processor, Record
from millstream.errors import ProcessingError, RunError
from millstream.log import ProducerRecord, open_log
from millstream.runtime.host.client import is_stopped
from millstream.runtime.host.crash_recovery import run_traced
from millstream.runtime.host.protocol import NeedProgram, ProgramData, ReadRanges, RowsRead, RunTraced
from millstream.runtime.host.wire import HostWire
from millstream.runtime.messages import TaskResult, unpack
from millstream.runtime.order.batch_order import NO_ORDER
from millstream.runtime.program.program import digest
from millstream.runtime.read.inputs import Range
from millstream.runtime.read.reader import RESULT
from millstream.runtime.spark.source import stream_of
from millstream.runtime.start.prepared_application import PreparedApplication
from millstream.serde import Serde

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]

BAD = "bad"
OFFSET = 3
"""The offset of the record whose processing ends the process."""


def crash() -> None:
    ctypes.string_at(0)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt() -> None:
    raise KeyboardInterrupt


def exit_at_once() -> None:
    os._exit(3)


def leave() -> None:
    sys.exit("enough")


ENDS = {
    "os._exit": (exit_at_once, r"the function ended its process \(exit code 3\)"),
    "a segmentation fault": (crash, r"the function ended its process \(SIGSEGV\)"),
    "a kill": (kill, r"the function ended its process \(SIGKILL, as when memory runs out\)"),
    "sys.exit": (leave, "SystemExit: enough"),
    "KeyboardInterrupt": (interrupt, "KeyboardInterrupt"),
}


def make(directory: Path, **config: Any) -> App:
    with open_log(directory) as log:
        log.create_topic("in")
        values = ["one", "two", "three", BAD, "four"]
        log.produce("in", [ProducerRecord(b"k%d" % n, value.encode(), n) for n, value in enumerate(values)])
    return App("ending", config={"state.dir": str(directory), "status": "none", **config})


def values(directory: Path, topic: str) -> list[bytes]:
    with open_log(directory) as log:
        return [row["value"] for row in log.read(topic, 0, 0, log.ends([topic])[topic][0]).to_pylist()]


@pytest.mark.parametrize("how", ENDS)
def test_the_error_names_the_function_and_the_record_that_ended_a_host(tmp_path: Path, how: str) -> None:
    end, cause = ENDS[how]

    def fatal(value: str) -> str:
        if value == BAD:
            end()
        return value

    app = make(tmp_path)
    latest = app.stream("in", value=str).group_by_key().reduce(lambda _old, new: new, store="latest")
    latest.to_stream().map_values(fatal, value=str, name="shout").to("out")
    with HostedRun(app, records=10) as run, pytest.raises(ProcessingError, match=cause) as raised:
        run.run()
    message = raised.value.message
    assert f"operator 'shout' (topic in, partition 0, offset {OFFSET}, function test_crash_recovery.py:" in message
    assert "in fatal)" in message
    assert len(run.reported) == (0 if how in {"sys.exit", "KeyboardInterrupt"} else 2)
    assert values(tmp_path, "out") == []


def read_stage(app: App, count: int, *, prefetched: bool = False) -> TaskResult:
    """Runs the read stage as a worker does after another worker has ended in it; returns its result.

    Args:
        app: The application.
        count: The number of records to read.
        prefetched: Spark has read the records, as its own connector for Kafka does.
    """
    application = PreparedApplication(app.topology(), app.config)
    records = stream_of(application.log.read("in", 0, 0, count)) if prefetched else None
    application.close()
    program = packed(application.program)
    request = ReadRanges(digest(program), 0, [(*Range("in", 0, 0, count, more=False),)], None, records, NO_ORDER)
    outcome = run_traced("the read stage", request, lambda _message: ProgramData(program), messages.append)
    assert isinstance(outcome, RowsRead)
    return next(unpack(payload, list[TaskResult])[0] for _task, kind, payload in outcome.rows if kind == RESULT)


messages: list[str] = []


def test_the_error_names_the_function_and_the_record_that_ended_a_read_stage(tmp_path: Path) -> None:
    def fatal(value: str) -> str:
        if value == BAD:
            os._exit(3)
        return value

    app = make(tmp_path)
    app.stream("in", value=str).map_values(fatal, value=str, name="shout").to("out")
    failure = read_stage(app, 5).failure
    assert failure is not None
    assert failure.code == "processing"
    assert (
        f"operator 'shout' (topic in, partition 0, offset {OFFSET}, function test_crash_recovery.py:" in failure.message
    )
    assert "exit code 3" in failure.message
    assert read_stage(app, OFFSET).failure is None
    assert read_stage(app, OFFSET, prefetched=True).blocks == read_stage(app, OFFSET).blocks


def test_an_error_handler_can_skip_the_record_that_ends_its_process(tmp_path: Path) -> None:
    def fatal(value: str) -> Iterator[str]:
        yield value
        if value == BAD:
            os._exit(3)
        yield value.upper()

    dead = {"processing.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "letters"}
    app = make(tmp_path, **dead)
    latest = app.stream("in", value=str).group_by_key().reduce(lambda _old, new: new, store="latest")
    latest.to_stream().flat_map_values(fatal, value=str).to("out")
    with HostedRun(app, records=2) as run:
        run.run()
    assert sorted(values(tmp_path, "out")) == sorted(
        value for word in (b"one", b"two", b"three", b"four") for value in (word, word.upper())
    )
    assert values(tmp_path, "letters") == [BAD.encode()]


def test_a_transient_end_of_a_process_is_recovered_from(tmp_path: Path) -> None:
    def once(value: str) -> str:
        if value == BAD and len(list(tmp_path.glob("ended*"))) < 2:
            (tmp_path / f"ended{os.getpid()}").touch()
            os._exit(3)
        return value

    app = make(tmp_path)
    latest = app.stream("in", value=str).group_by_key().reduce(lambda _old, new: new, store="latest")
    latest.to_stream().map_values(once, value=str).to("out")
    with HostedRun(app, records=10) as run:
        run.run()
    assert run.failures == 1
    assert len(run.reported) == 1
    assert sorted(values(tmp_path, "out")) == [b"bad", b"four", b"one", b"three", b"two"]


class Fatal(Processor[str, str, str, str]):
    def init(self) -> None:
        self.context.schedule("1ms", "stream", self.tick)

    def tick(self, now: int) -> None:
        if now == OFFSET:
            os._exit(4)

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


def test_the_error_names_a_punctuator_that_ends_its_process(tmp_path: Path) -> None:
    app = make(tmp_path)
    app.stream("in", value=str).process(Fatal, key=str, value=str, name="ticking").to("out")
    with HostedRun(app, records=10) as run, pytest.raises(ProcessingError, match="exit code 4") as raised:
        run.run()
    assert "operator 'ticking' (task 0_0, function test_crash_recovery.py:" in raised.value.message
    assert "in tick)" in raised.value.message


class FatalText(Serde[str]):
    name = "fatal-text"

    def serialize(self, value: str | None) -> bytes | None:
        return None if value is None else value.encode()

    def deserialize(self, data: bytes | None) -> str | None:
        if data == BAD.encode():
            os._exit(5)
        return None if data is None else data.decode()


def test_the_error_names_the_record_if_no_function_of_an_operator_ended_the_process(tmp_path: Path) -> None:
    app = make(tmp_path)
    app.stream("in", value=FatalText()).group_by_key().reduce(lambda _old, new: new, store="latest")
    with HostedRun(app, records=10) as run, pytest.raises(RunError, match="exit code 5") as raised:
        run.run()
    assert f"topic in, partition 0, offset {OFFSET}, twice at this place" in raised.value.message


def test_the_process_that_runs_a_batch_again_ends_with_its_worker(tmp_path: Path) -> None:
    started = tmp_path / "started"

    def hang(value: str) -> str:
        started.touch()
        threading.Event().wait()
        return value

    app = make(tmp_path)
    app.stream("in", value=str).map_values(hang, value=str).to("out")
    application = PreparedApplication(app.topology(), app.config)
    application.close()
    program = packed(application.program)
    own, theirs = socket.socketpair()
    with own, theirs, (tmp_path / "trace").open("wb+") as trace:
        descriptors = (theirs.fileno(), trace.fileno())
        process = subprocess.Popen(
            [sys.executable, "-m", "millstream.runtime.host.crash_trace", *map(str, descriptors)], pass_fds=descriptors
        )
        theirs.close()
        wire = HostWire(own)
        wire.send(
            RunTraced(ReadRanges(digest(program), 0, [(*Range("in", 0, 0, 1, more=False),)], None, None, NO_ORDER), [])
        )
        assert isinstance(wire.receive(), NeedProgram)
        wire.send(ProgramData(program))
        while not started.exists():
            assert process.poll() is None
            time.sleep(0.01)
        own.close()
        assert process.wait(60) == 1


def test_stopped_hosts_are_distinguished_from_crashed_ones(tmp_path: Path) -> None:
    app = make(tmp_path)
    app.stream("in", value=str).group_by_key().count()
    with HostedRun(app, records=10) as run:
        run.connect().close()
        assert not is_stopped(run.name)
    assert is_stopped(run.name)
