"""What follows when the process of a batch has ended: the batch is run again, and the function that ended it is named.

The first run notes nothing. So the batch is run again in a process that notes each record and each call. An end that
comes once is a passing one, as when somebody has killed the process. If the process ends twice in the same way at the
same call, the function is not called there any more: that call is an error like any other that a function raises.
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
from millstream.runtime.host.client import ask, environment
from millstream.runtime.host.crash_trace import read_place
from millstream.runtime.host.wire import HostGone, Wire
from millstream.runtime.messages import Done, HostMessage, ReadRanges, RowsRead, Run, RunNoting

_MOST = 4
"""How many runs may end without one that ends as the one before."""

Answer = Callable[[HostMessage], HostMessage]
"""Answers what a process asks while it runs: for state, or for the program."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How and where a process ended."""

    status: int
    place: CallPosition | None

    @property
    def how(self) -> str:
        """The exit code or the signal."""
        if self.status >= 0:
            return f"exit code {self.status}"
        name = signal.Signals(-self.status).name
        return f"{name}, as when memory runs out" if name == "SIGKILL" else name


def run_noting(what: str, request: Run | ReadRanges, answer: Answer, tell: Callable[[str], None]) -> Done | RowsRead:
    """Runs a request whose process has ended, and gives what it gives.

    Args:
        what: What is run, for messages: ``task 3``.
        request: The request.
        answer: Answers the process.
        tell: Is told each time that the process ends.

    Raises:
        ProcessingError: The process ends whenever it comes to the same place, in no function that could be left out.
        QueryError: The process ended too often, each time elsewhere.
    """
    refused: list[tuple[CallPosition, str]] = []
    last: Ending | None = None
    ended = 0
    while True:
        outcome = _run(RunNoting(request, refused), answer)
        if not isinstance(outcome, Ending):
            return outcome
        ended += 1
        where = f"while {outcome.place}" if outcome.place is not None else "before it began"
        if outcome.place is not None and outcome == last:
            if outcome.place.function is None:
                raise ProcessingError(
                    f"{what}: its process ended ({outcome.how}) {where}, twice at this place",
                    hint="code that ends its process, or runs out of memory, cannot be left out: see which serde or "
                    "library the record is given to",
                )
            reason = f"the function ended its process ({outcome.how}), each time that it was called at this place"
            refused.append((outcome.place, reason))
            last, ended = None, 0
            tell(f"{what}: its process ended again ({outcome.how}) {where}; the function is not called there again")
            continue
        if ended >= _MOST:
            raise QueryError(
                f"{what}: its process ended {ended} times, the last time ({outcome.how}) {where}",
                hint="if memory ran out, lower max.batch.bytes or host.memory.max.bytes",
            )
        tell(f"{what}: its process ended ({outcome.how}) {where}; running the batch again")
        last = outcome


def _run(message: RunNoting, answer: Answer) -> Done | RowsRead | Ending:
    own, theirs = socket.socketpair()
    with tempfile.TemporaryFile() as trail, theirs:
        descriptors = (theirs.fileno(), trail.fileno())
        process = subprocess.Popen(  # noqa: S603  (our own program)
            [sys.executable, "-m", "millstream.runtime.host.crash_trace", *map(str, descriptors)],
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=sys.__stderr__,
            start_new_session=True,
            env=environment(),
        )
        theirs.close()
        wire = Wire(own)
        try:
            outcome = ask(wire, message, answer)
        except HostGone:
            return Ending(process.wait(), read_place(trail.fileno()))
        finally:
            wire.close()
            process.kill()
            process.wait()
    assert isinstance(outcome, Done | RowsRead)
    return outcome
