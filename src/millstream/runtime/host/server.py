"""The task host: a process that runs tasks for Spark's workers, and keeps their state warm between batches.

A host holds nothing that cannot be lost: the truth is Spark's state. It ends when the parent of Spark's workers ends,
when it is stopped, or after a long time without a request.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from pathlib import Path

import pyarrow as pa

from millstream.core.failpoints import declare, reach
from millstream.engine.call_trace import installed_trace
from millstream.errors import MillstreamError, RunError
from millstream.log.opening import open_location
from millstream.runtime.host.client import remove_directory
from millstream.runtime.host.process_identity import process_identity
from millstream.runtime.host.protocol import (
    Done,
    Fetch,
    Fetched,
    NeedProgram,
    ProgramData,
    ReadRanges,
    RowsRead,
    Run,
    Stop,
)
from millstream.runtime.host.wire import HostWire
from millstream.runtime.messages import TaskInput, TaskResult, failure_of, pack, unpack
from millstream.runtime.program.program import Program, digest, unpack_program
from millstream.runtime.read.inputs import Range
from millstream.runtime.read.reader import Reader
from millstream.runtime.tasks.warm import WarmTasks
from millstream.runtime.user_code.garbage import collect_rarely
from millstream.runtime.user_code.timeouts import stuck_error
from millstream.runtime.user_code.user_output import capture_output, log_like
from millstream.text.escaping import error_text

BEFORE_RUN = declare("host.batch.before-run")
AFTER_RUN = declare("host.batch.after-run")

_IDLE_SECONDS = 600.0


class Host:
    """Runs tasks, one batch at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._program: tuple[bytes, Program] | None = None
        self._warm = WarmTasks()
        self.last_used = time.monotonic()

    def serve(self, wire: HostWire) -> bool:
        """Serves one connection; returns False if it requested the end of the host."""
        message = wire.receive()
        if isinstance(message, Stop):
            return False
        assert isinstance(message, Run)
        with self._lock:
            try:
                wire.send(self.answer(message, wire))
            except (EOFError, OSError):  # the worker has ended: the result is void
                self._warm.discard(message.task)
            finally:
                self.last_used = time.monotonic()
        return True

    def answer(self, request: Run | ReadRanges, wire: HostWire) -> Done | RowsRead:
        """Runs a request."""
        return self._run(request, wire) if isinstance(request, Run) else self._read(request, wire)

    def _read(self, request: ReadRanges, wire: HostWire) -> RowsRead:
        """Runs a read stage, for a worker whose predecessor ended in it."""
        program = self._load(request.program, wire)
        reader = Reader(program, open_location(program.log, create=False))
        records = None if request.records is None else pa.ipc.open_stream(request.records).read_all()
        rows = reader.read(
            request.now, [Range(*span) for span in request.ranges], records, request.tasks, request.order
        )
        return RowsRead([(row.task, row.kind, row.payload) for row in rows])

    def _run(self, run: Run, wire: HostWire) -> Done:
        def fetch(keys: list[bytes]) -> list[bytes | None]:
            wire.send(Fetch(keys))
            answer = wire.receive()
            assert isinstance(answer, Fetched)
            return answer.values

        printed: list[str] = []
        try:
            program = self._load(run.program, wire)
            inputs = [unpack(data, TaskInput) for data in run.inputs]
            now = max((task_input.now for task_input in inputs), default=0)
            all_tasks = any(task_input.all_tasks for task_input in inputs)
            timeout = program.config["task.timeout.ms"]
            with capture_output(printed), _BatchWatchdog(timeout, wire, run.task, printed):
                group = self._warm.acquire(program, run.task, run.token, fetch, now, all_tasks=all_tasks)
                reach(BEFORE_RUN)
                commit = group.run(inputs, printed)
                reach(AFTER_RUN)
        except (EOFError, OSError):
            raise
        except BaseException as error:  # noqa: BLE001  (any error must reach the driver)
            self._warm.discard(run.task)
            return _failed(run.task, error, printed)
        commit = self._warm.settle(run.task, group, commit, now)
        return Done(commit.puts, commit.deletes, commit.results)

    def _load(self, name: bytes, wire: HostWire) -> Program:
        """The program with a digest, which the worker sends if this host has another one."""
        if self._program is None or self._program[0] != name:
            wire.send(NeedProgram())
            answer = wire.receive()
            assert isinstance(answer, ProgramData)
            assert digest(answer.data) == name
            self._warm.clear()
            program = unpack_program(answer.data)
            log_like(program.logging)
            trace = installed_trace()
            if trace is not None:
                topologies = (*program.placement.readers, *program.placement.tasks)
                trace.trace_functions(node for topology in topologies for node in topology.plan.nodes)
            self._program = (name, program)
        return self._program[1]


def _failed(task: int, error: BaseException, printed: list[str]) -> Done:
    if not isinstance(error, MillstreamError):
        wrapped = RunError(f"task {task} failed: {error_text(error)}")
        wrapped.__cause__ = error
        error = wrapped
    result = TaskResult((1, "", task), printed=printed, failure=failure_of(error))
    return Done([], [], pack([result]))


class _BatchWatchdog:
    """Ends the host when a batch exceeds `task.timeout.ms`, after it has reported the function that is stuck.

    A thread that is stuck in a function cannot be ended otherwise.
    """

    def __init__(self, timeout_ms: int, wire: HostWire, task: int, printed: list[str]) -> None:
        self._wire = wire
        self._task = task
        self._printed = printed
        self._thread = threading.get_ident()
        self._timeout = timeout_ms
        self._timer = threading.Timer(timeout_ms / 1000, self._expired)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_error: object) -> None:
        self._timer.cancel()

    def _expired(self) -> None:
        error = stuck_error(self._thread, f"task {self._task}", self._timeout)
        with contextlib.suppress(OSError):
            self._wire.send(_failed(self._task, error, self._printed))
        os._exit(1)


def serve(path: str, parent: int, identity: str) -> None:
    """Serves requests at a Unix socket until the parent ends, the host is stopped, or it has been idle for long.

    Args:
        path: The path of the socket.
        parent: The process that the host ends with.
        identity: The `process_identity` of the parent at the start of the host; the parent may have ended since.
    """
    collect_rarely()
    host = Host()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    part = f"{path}.{os.getpid()}"
    listener.bind(part)
    Path(part).chmod(0o600)
    listener.listen(64)
    Path(part).replace(path)
    stopped = threading.Event()

    def handle(connection: socket.socket) -> None:
        wire = HostWire(connection)
        try:
            if not host.serve(wire):
                stopped.set()
        except EOFError:
            pass
        finally:
            wire.close()

    def accept() -> None:
        while True:
            connection, _address = listener.accept()
            threading.Thread(target=handle, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    while process_identity(parent) == identity and time.monotonic() - host.last_used <= _IDLE_SECONDS:
        if stopped.wait(1.0):
            break
    if process_identity(parent) == identity:
        Path(path).unlink(missing_ok=True)
    else:
        remove_directory(Path(path).parent)  # no worker of this parent is left
    os._exit(0)
