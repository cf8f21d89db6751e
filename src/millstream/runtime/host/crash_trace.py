"""A process that runs one batch of a task, or one read stage, with a call trace: see `millstream.engine.call_trace`.

``python -m millstream.runtime.host.crash_trace SOCKET TRAIL``, both of them file descriptors that the process inherits.
"""

from __future__ import annotations

import faulthandler
import os
import select
import socket
import sys
import threading

import msgspec

from millstream.engine.call_trace import CallPosition, CallTrace, install
from millstream.runtime.host.server import Host
from millstream.runtime.host.wire import HostGone, Wire
from millstream.runtime.messages import RunNoting

_LENGTH_BYTES = 4


def write_place(descriptor: int, place: CallPosition) -> None:
    """Writes a place over the one before. What is written so is there when the process has ended."""
    data = msgspec.msgpack.encode(place)
    os.pwrite(descriptor, len(data).to_bytes(_LENGTH_BYTES, "big") + data, 0)


def read_place(descriptor: int) -> CallPosition | None:
    """The place that was written last; None if there is none."""
    length = int.from_bytes(os.pread(descriptor, _LENGTH_BYTES, 0), "big")
    try:
        return msgspec.msgpack.decode(os.pread(descriptor, length, _LENGTH_BYTES), type=CallPosition)
    except msgspec.DecodeError:
        return None


def _serve(wire: Wire, descriptor: int) -> None:
    try:
        message = wire.receive()
        assert isinstance(message, RunNoting)
        install(CallTrace(lambda place: write_place(descriptor, place), dict(message.refused)))
        wire.send(Host().answer(message.request, wire))
    except HostGone:
        pass  # the worker that asked has ended
    os._exit(0)


def _wait_for_hangup(connection: socket.socket) -> None:
    """Waits until the worker that asked is gone: a function may take long, and nobody waits for it any more."""
    watched = select.poll()
    watched.register(connection, select.POLLHUP | getattr(select, "POLLRDHUP", 0))
    watched.poll()


if __name__ == "__main__":
    faulthandler.enable()
    connection = socket.socket(fileno=int(sys.argv[1]))
    # The functions of the user's run in another thread than the main one, as they do in a task host.
    threading.Thread(target=_serve, args=(Wire(connection), int(sys.argv[2])), daemon=True).start()
    _wait_for_hangup(connection)
    os._exit(1)
