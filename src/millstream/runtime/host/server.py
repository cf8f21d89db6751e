"""The task host: a process that runs tasks for Spark's workers, and keeps their state warm between batches.

It holds nothing that cannot be lost: Spark's state is the truth, and a token tells whether what the host has is still
that. The host ends when the process that Spark's workers come from ends, when it is told to, or when nobody has asked
it for anything for a long time.
"""

from __future__ import annotations

import contextlib
import gc
import os
import secrets
import socket
import threading
import time
from pathlib import Path

import pyarrow as pa

from millstream.core.failpoints import declare, reach
from millstream.engine.call_trace import installed_trace
from millstream.errors import MillstreamError, RunError
from millstream.log.opening import open_location
from millstream.runtime.host.client import remove
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
from millstream.runtime.host.wire import Wire
from millstream.runtime.messages import TaskInput, TaskResult, failure_of, pack, unpack
from millstream.runtime.program.program import Program, digest, unpack_program
from millstream.runtime.read.inputs import Range
from millstream.runtime.read.reader import Reader
from millstream.runtime.tasks.runner import FetchValues, TaskRunner
from millstream.runtime.tasks.timeouts import stuck_error
from millstream.runtime.tasks.user_output import capture_output, log_like
from millstream.state.paged import MANIFEST_KEY
from millstream.text.escaping import error_text

BEFORE_RUN = declare("host.batch.before-run")
AFTER_RUN = declare("host.batch.after-run")

TOKEN_KEY = b"t"
_IDLE = 600.0
_COLLECT_AFTER = (100_000, 20, 10)
"""How often cyclic garbage is looked for: a batch makes very many objects, which nearly all live on or have no cycles.
As often as usual, that would take up to a third of the time of a batch."""


class _Warm:
    """A task as the host has it in memory: its runner, the token of the state that it stands for, its last batch."""

    def __init__(self, runner: TaskRunner, token: bytes, now: int) -> None:
        self.runner = runner
        self.token = token
        self.now = now


class Host:
    """Runs tasks, one batch at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._program: tuple[bytes, Program] | None = None
        self._tasks: dict[int, _Warm] = {}
        self._made: set[int] = set()
        self._now = 0
        self._busy: tuple[float, int, str] | None = None
        self.last_used = time.monotonic()

    def converse(self, wire: Wire) -> bool:
        """Serves one conversation; returns whether the host is to go on."""
        message = wire.receive()
        if isinstance(message, Stop):
            return False
        assert isinstance(message, Run)
        with self._lock:
            try:
                wire.send(self.answer(message, wire))
            except (EOFError, OSError):  # the worker that asked is gone: what was computed does not count
                self._tasks.pop(message.task, None)
            finally:
                self._busy = None
                self.last_used = time.monotonic()
        return True

    def answer(self, request: Run | ReadRanges, wire: Wire) -> Done | RowsRead:
        """Does what is asked for."""
        return self._run(request, wire) if isinstance(request, Run) else self._read(request, wire)

    def _read(self, request: ReadRanges, wire: Wire) -> RowsRead:
        """Runs a read stage, for a worker that does not dare to run it itself."""
        program = self._known(request.program, wire)
        reader = Reader(program, open_location(program.log, create=False))
        records = None if request.records is None else pa.ipc.open_stream(request.records).read_all()
        rows = reader.read(request.now, [Range(*one) for one in request.ranges], records, request.tasks)
        return RowsRead([(row.task, row.kind, row.payload) for row in rows])

    def _run(self, run: Run, wire: Wire) -> Done:
        def fetch(keys: list[bytes]) -> list[bytes | None]:
            wire.send(Fetch(keys))
            answer = wire.receive()
            assert isinstance(answer, Fetched)
            return answer.values

        printed: list[str] = []
        origin = (1, "", run.task)
        try:
            program = self._known(run.program, wire)
            deliveries = [unpack(data, TaskInput) for data in run.inputs]
            now = max((delivery.now for delivery in deliveries), default=0)
            timeout = program.config["task.timeout.ms"]
            with capture_output(printed), _Watch(timeout, wire, run.task, printed):
                everyone = any(delivery.all_tasks for delivery in deliveries)
                runner = self._warm(program, run, fetch, now, everyone=everyone)
                reach(BEFORE_RUN)
                batch = runner.run(deliveries, printed)
                reach(AFTER_RUN)
        except MillstreamError as error:
            self._tasks.pop(run.task, None)
            return Done([], [], pack([TaskResult(origin, printed=printed, failure=failure_of(error))]))
        except (EOFError, OSError):
            raise
        except BaseException as error:  # noqa: BLE001  (whatever it is, the driver must be told)
            self._tasks.pop(run.task, None)
            wrapped = RunError(f"task {run.task} failed: {error_text(error)}")
            wrapped.__cause__ = error
            return Done([], [], pack([TaskResult(origin, printed=printed, failure=failure_of(wrapped))]))
        if batch.failed:
            self._tasks.pop(run.task, None)
            return Done([], [], batch.results)
        if not batch.puts and not batch.deletes:
            return Done([], [], batch.results)
        token = secrets.token_bytes(16)
        self._tasks[run.task] = _Warm(runner, token, now)
        return Done([*batch.puts, (TOKEN_KEY, token)], batch.deletes, batch.results)

    def _known(self, name: bytes, wire: Wire) -> Program:
        if self._program is None or self._program[0] != name:
            wire.send(NeedProgram())
            answer = wire.receive()
            assert isinstance(answer, ProgramData)
            assert digest(answer.data) == name
            self._tasks.clear()
            program = unpack_program(answer.data)
            log_like(program.logging)
            trace = installed_trace()
            if trace is not None:
                parts = (*program.placement.readers, *program.placement.tasks)
                trace.trace_functions(node for topology in parts for node in topology.plan.nodes)
            self._program = (name, program)
        return self._program[1]

    def _warm(self, program: Program, run: Run, fetch: FetchValues, now: int, *, everyone: bool) -> TaskRunner:
        """The runner of a task: the one in memory if its state is still that of Spark, else one made from that."""
        found = self._tasks.get(run.task)
        if found is not None and found.token != run.token:
            del self._tasks[run.task]
            found = None
        if found is not None:
            found.now = now  # it may have been elsewhere for a while, and nothing has changed there
        if everyone:
            self._forget_moved(now)
        limit = self._share_memory(program, run.task)
        if found is not None:
            found.runner.fetch = fetch
            return found.runner
        if run.task in self._made:
            gc.collect()  # an earlier one was dropped, and has cycles
        self._made.add(run.task)
        manifest = fetch([MANIFEST_KEY])[0] if run.token else None
        runner = TaskRunner(program, run.task, fetch, manifest, now, limit)
        self._tasks[run.task] = _Warm(runner, run.token, now)
        return runner

    def _forget_moved(self, now: int) -> None:
        """Drops the tasks that run elsewhere now: their state here is of no use, and takes memory from the others.

        Called with each task of a batch that runs all tasks, once the batch before it that did so is over: a task that
        was not asked for since then has moved.
        """
        if now > self._now:
            gone = [number for number, warm in self._tasks.items() if warm.now < self._now]
            for number in gone:
                del self._tasks[number]
            if gone:
                gc.collect()  # they have cycles
            self._now = now

    def _share_memory(self, program: Program, task: int) -> int:
        """Gives each task its part of the memory that the host may use, one to be loaded among them; returns it."""
        limit: int = program.config["host.memory.max.bytes"] // len(self._tasks.keys() | {task})
        for warm in self._tasks.values():
            warm.runner.state.memory_limit = limit
        return limit


class _Watch:
    """Names the function that is stuck when a batch takes longer than it may, and ends the host: nothing else helps."""

    def __init__(self, timeout_ms: int, wire: Wire, task: int, printed: list[str]) -> None:
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
            written = TaskResult((1, "", self._task), printed=self._printed, failure=failure_of(error))
            self._wire.send(Done([], [], pack([written])))
        os._exit(1)


def serve(path: str, parent: int, born: str) -> None:
    """Serves at a Unix socket until there is nobody left to serve.

    Args:
        path: Of the socket.
        parent: The process that the host ends with.
        born: What `process_identity` said of that process when the host was started: it may be gone by now.
    """
    gc.set_threshold(*_COLLECT_AFTER)
    host = Host()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    part = f"{path}.{os.getpid()}"
    listener.bind(part)
    Path(part).chmod(0o600)
    listener.listen(64)
    Path(part).replace(path)
    done = threading.Event()

    def handle(connection: socket.socket) -> None:
        wire = Wire(connection)
        try:
            if not host.converse(wire):
                done.set()
        except EOFError:
            pass
        finally:
            wire.close()

    def accept() -> None:
        while True:
            connection, _address = listener.accept()
            threading.Thread(target=handle, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    while process_identity(parent) == born and time.monotonic() - host.last_used <= _IDLE:
        if done.wait(1.0):
            break
    if process_identity(parent) == born:
        Path(path).unlink(missing_ok=True)
    else:
        remove(Path(path).parent)  # nobody will look for a host there again
    os._exit(0)
