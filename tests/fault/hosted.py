"""A run without Spark whose tasks are run by real task hosts: what `TaskProxy` does, with a dict as Spark's state."""

from __future__ import annotations

import contextlib
import random
import secrets
import socket
import struct
import subprocess
import sys
from typing import Any

from pyspark import cloudpickle as untyped_cloudpickle
from tests.fault import smoke

from millstream import App
from millstream.runtime.host.client import ask, connect, stop_all
from millstream.runtime.host.crash_recovery import run_traced
from millstream.runtime.host.protocol import Done, Fetch, Fetched, HostMessage, ProgramData, Run
from millstream.runtime.host.wire import HostGone, Wire
from millstream.runtime.in_process.batches import InProcessRun
from millstream.runtime.messages import TaskInput, TaskResult, pack, unpack
from millstream.runtime.program.program import digest, pack_program
from millstream.runtime.tasks.warm import TOKEN_KEY

cloudpickle: Any = untyped_cloudpickle
State = dict[bytes, bytes]


class HostedRun(InProcessRun):
    """An application whose tasks run in hosts. They end with the run, or with its *executor*, a process of its own.

    Args:
        app: The application.
        records: How many records a batch may have.
        seed: Decides which attempts are thrown away.
        lost: How many of the attempts lose their connection before the host has answered.
        repeated: How many of the attempts are made again although the host has computed them.
        hosts: How many hosts the tasks are dealt to; by default each has one of its own.

    Attributes:
        name: Of the run.
        failures: How many attempts failed because their host was gone.
        told: What was said of processes that ended after that.
        places: The host of each task.
        reloads: How often a host has asked for the manifest, as it does when it has nothing in memory.
    """

    def __init__(
        self,
        app: App,
        *,
        records: int,
        seed: int = 0,
        lost: float = 0.0,
        repeated: float = 0.0,
        hosts: int | None = None,
    ) -> None:
        super().__init__(app, records=records)
        self.name = f"test-{secrets.token_hex(6)}"
        self.executor = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
        self._program = packed(self.application.program)
        self._dice = random.Random(seed)
        self._lost = lost
        self._repeated = repeated
        count = self.application.program.tasks
        self.places = {task: task % (hosts or count) for task in range(count)}
        self.failures = 0
        self.reloads = 0
        self.repeats = 0
        self.told: list[str] = []

    def close(self) -> None:
        stop_all(self.name)
        self.executor.kill()
        self.executor.wait()
        assert self.executor.stdin is not None
        self.executor.stdin.close()
        super().close()

    def connect(self, task: int = 0) -> Wire:
        return connect(self.name, self.executor.pid, self.places[task])

    def _run_task(self, task: int, given: list[TaskInput], state: State, now: int) -> bytes:
        deliveries = [pack(delivery) for delivery in given]
        if self._dice.random() < self._lost:
            wire = self.connect(task)
            wire.send(Run(digest(self._program), task, state.get(TOKEN_KEY, b""), deliveries))
            wire.close()
        done = self._attempts(task, deliveries, state)
        if self._dice.random() < self._repeated:
            again = self._attempts(task, deliveries, state)
            assert comparable(again) == comparable(done)
            self.repeats += 1
            done = again
        for key in done.deletes:
            state.pop(key, None)
        state.update(done.puts)
        return done.results

    def _attempts(self, task: int, deliveries: list[bytes], state: State) -> Done:
        """Runs a batch in the host of its task, and, if that ends, as `TaskProxy` does then."""

        def answer(message: HostMessage) -> HostMessage:
            if isinstance(message, Fetch):
                self.reloads += message.keys == [b"m"]
                return Fetched([state.get(key) for key in message.keys])
            return ProgramData(self._program)

        request = Run(digest(self._program), task, state.get(TOKEN_KEY, b""), deliveries)
        try:
            with contextlib.closing(self.connect(task)) as wire:
                outcome = ask(wire, request, answer)
        except HostGone:
            self.failures += 1
            outcome = run_traced(f"task {task}", request, answer, self.told.append)
        assert isinstance(outcome, Done)
        return outcome


def packed(program: Any) -> bytes:
    """A program as hosts get it; the functions of the tests' application go along by value."""
    cloudpickle.register_pickle_by_value(smoke)
    try:
        return pack_program(program)
    finally:
        cloudpickle.unregister_pickle_by_value(smoke)


def comparable(done: Done) -> Any:
    """What two attempts of one batch must have in common: what they write to topics and stores, in order."""
    (written,) = unpack(done.results, list[TaskResult])
    assert written.failure is None
    topics: dict[tuple[str, int], list[bytes]] = {}
    for block in written.blocks:
        topics.setdefault((block.topic, block.partition), []).append(block.data)
    stores = {change.store: change for change in written.changes if change.keys}
    return topics, stores, written.offsets, written.due, written.waiting


def process_of(wire: Wire) -> int:
    """The process at the other end."""
    size = struct.calcsize("3i")
    pid: int = struct.unpack("3i", wire._connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0]
    return pid
