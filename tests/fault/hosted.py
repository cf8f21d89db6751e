"""A run without Spark whose tasks run in real task hosts: a `TaskProxy` with a dict as Spark's state."""

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
from millstream.runtime.host.client import connect, exchange, stop_all
from millstream.runtime.host.crash_recovery import run_traced
from millstream.runtime.host.protocol import Done, Fetch, Fetched, HostMessage, ProgramData, Run
from millstream.runtime.host.wire import HostWire
from millstream.runtime.in_process.batches import InProcessRun
from millstream.runtime.messages import TaskInput, TaskResult, pack, unpack
from millstream.runtime.program.program import digest, pack_program
from millstream.runtime.tasks.warm import TOKEN_KEY
from millstream.runtime.wire import PeerGone

cloudpickle: Any = untyped_cloudpickle
State = dict[bytes, bytes]


class HostedRun(InProcessRun):
    """An application whose tasks run in hosts. They end with the run, or with its *executor*, a process of its own.

    Args:
        app: The application.
        records: The maximum number of records of a batch.
        seed: Of the random choice of attempts.
        lost: The share of attempts that lose their connection before the host answers.
        repeated: The share of attempts that run again although the host has answered.
        hosts: The number of hosts; by default one per task.

    Attributes:
        name: The name of the run.
        failures: The number of attempts whose host had ended.
        reported: The messages about processes that ended in a later attempt.
        hosts: The host of each task.
        reloads: The number of requests for the manifest, which a host makes when the task is not in memory.
        repeats: The number of attempts that ran again.
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
        self.hosts = {task: task % (hosts or count) for task in range(count)}
        self.failures = 0
        self.reloads = 0
        self.repeats = 0
        self.reported: list[str] = []

    def close(self) -> None:
        stop_all(self.name)
        self.executor.kill()
        self.executor.wait()
        assert self.executor.stdin is not None
        self.executor.stdin.close()
        super().close()

    def connect(self, task: int = 0) -> HostWire:
        return connect(self.name, self.executor.pid, self.hosts[task])

    def _run_task(self, task: int, inputs: list[TaskInput], state: State, now: int) -> bytes:
        data = [pack(task_input) for task_input in inputs]
        if self._dice.random() < self._lost:
            wire = self.connect(task)
            wire.send(Run(digest(self._program), task, state.get(TOKEN_KEY, b""), data))
            wire.close()
        done = self._attempt(task, data, state)
        if self._dice.random() < self._repeated:
            again = self._attempt(task, data, state)
            assert comparable(again) == comparable(done)
            self.repeats += 1
            done = again
        for key in done.deletes:
            state.pop(key, None)
        state.update(done.puts)
        return done.results

    def _attempt(self, task: int, data: list[bytes], state: State) -> Done:
        """Runs a batch in the task's host; if the host ends, in a process with a call trace, as `TaskProxy` does."""

        def answer(message: HostMessage) -> HostMessage:
            if isinstance(message, Fetch):
                self.reloads += message.keys == [b"m"]
                return Fetched([state.get(key) for key in message.keys])
            return ProgramData(self._program)

        request = Run(digest(self._program), task, state.get(TOKEN_KEY, b""), data)
        try:
            with contextlib.closing(self.connect(task)) as wire:
                outcome = exchange(wire, request, answer)
        except PeerGone:
            self.failures += 1
            outcome = run_traced(f"task {task}", request, answer, self.reported.append)
        assert isinstance(outcome, Done)
        return outcome


def packed(program: Any) -> bytes:
    """Packs a program for a host, with the functions of the tests' application by value."""
    cloudpickle.register_pickle_by_value(smoke)
    try:
        return pack_program(program)
    finally:
        cloudpickle.unregister_pickle_by_value(smoke)


def comparable(done: Done) -> Any:
    """The results that two attempts of one batch must have in common: topics and stores, in order."""
    (result,) = unpack(done.results, list[TaskResult])
    assert result.failure is None
    topics: dict[tuple[str, int], list[bytes]] = {}
    for block in result.blocks:
        topics.setdefault((block.topic, block.partition), []).append(block.data)
    stores = {change.store: change for change in result.changes if change.keys}
    return topics, stores, result.offsets, result.due, result.waiting


def process_of(wire: HostWire) -> int:
    """The process at the other end."""
    size = struct.calcsize("3i")
    pid: int = struct.unpack("3i", wire._connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0]
    return pid
