"""Runs a batch again after its process has ended, and identifies the function that ended it.

The first run has no call trace. The batch therefore runs again in a process that records each record and each call. A
single end is transient: the process was killed, for instance. If the process ends twice in the same way at the same
call, the function is not called there again: the call counts as an error that the function raised.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from millstream.engine.call_trace import CallPosition
from millstream.errors import ProcessingError, QueryError
from millstream.runtime.host.client import environment, exchange
from millstream.runtime.host.crash_trace import read_position
from millstream.runtime.host.protocol import Done, HostMessage, ReadRanges, RowsRead, Run, RunTraced
from millstream.runtime.host.wire import HostWire
from millstream.runtime.wire import PeerGone

_MAX_RUNS = 4
"""The number of runs that may end, each at another place than the one before."""

Answer = Callable[[HostMessage], HostMessage]
"""Answers a request that a process makes while it runs: for state, or for the program."""


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How and where a process ended."""

    status: int
    position: CallPosition | None

    @property
    def how(self) -> str:
        """The exit code or the signal."""
        if self.status >= 0:
            return f"exit code {self.status}"
        name = signal.Signals(-self.status).name
        return f"{name}, as when memory runs out" if name == "SIGKILL" else name


def run_traced(what: str, request: Run | ReadRanges, answer: Answer, report: Callable[[str], None]) -> Done | RowsRead:
    """Runs a request whose process has ended, with a call trace, and returns its response.

    Args:
        what: The work, for messages: ``task 3``.
        request: The request.
        answer: Answers requests of the process.
        report: Called with a message each time that the process ends.

    Raises:
        ProcessingError: The process ended twice at the same place, outside user functions.
        QueryError: The process ended too often, each time at another place.
    """
    refused: list[tuple[CallPosition, str]] = []
    last: ProcessEnd | None = None
    ended = 0
    while True:
        outcome = _run(RunTraced(request, refused), answer)
        if not isinstance(outcome, ProcessEnd):
            return outcome
        ended += 1
        where = f"while {outcome.position}" if outcome.position is not None else "before it began"
        if outcome.position is not None and outcome == last:
            if outcome.position.function is None:
                raise ProcessingError(
                    f"{what}: its process ended ({outcome.how}) {where}, twice at this place",
                    hint="a crash or a lack of memory outside user functions cannot be skipped: check the serde or "
                    "library that handles the record",
                )
            reason = f"the function ended its process ({outcome.how}), each time it was called at this place"
            refused.append((outcome.position, reason))
            last, ended = None, 0
            report(f"{what}: its process ended again ({outcome.how}) {where}; the function is not called there again")
            continue
        if ended >= _MAX_RUNS:
            raise QueryError(
                f"{what}: its process ended {ended} times, the last time ({outcome.how}) {where}",
                hint="if memory ran out, lower max.batch.bytes or host.memory.max.bytes",
            )
        report(f"{what}: its process ended ({outcome.how}) {where}; running the batch again")
        last = outcome


def _run(message: RunTraced, answer: Answer) -> Done | RowsRead | ProcessEnd:
    own, theirs = socket.socketpair()
    with tempfile.TemporaryFile() as trace, theirs:
        descriptors = (theirs.fileno(), trace.fileno())
        process = subprocess.Popen(  # noqa: S603  (our own program)
            [sys.executable, "-m", "millstream.runtime.host.crash_trace", *map(str, descriptors)],
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=sys.__stderr__,
            start_new_session=True,
            env=environment(),
        )
        theirs.close()
        wire = HostWire(own)
        try:
            outcome = exchange(wire, message, answer)
        except PeerGone:
            return ProcessEnd(process.wait(), read_position(trace.fileno()))
        finally:
            wire.close()
            process.kill()
            process.wait()
    assert isinstance(outcome, Done | RowsRead)
    return outcome
