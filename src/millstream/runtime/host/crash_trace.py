"""A process that runs one batch of a task, or one read stage, with a call trace: see `millstream.engine.call_trace`.

``python -m millstream.runtime.host.crash_trace SOCKET TRACE``, both of them file descriptors that the process inherits.
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
from millstream.runtime.host.protocol import RunTraced
from millstream.runtime.host.server import Host
from millstream.runtime.host.wire import HostWire
from millstream.runtime.wire import PeerGone

_LENGTH_BYTES = 4


def write_position(descriptor: int, position: CallPosition) -> None:
    """Overwrites the recorded position. The file keeps it when the process ends."""
    data = msgspec.msgpack.encode(position)
    os.pwrite(descriptor, len(data).to_bytes(_LENGTH_BYTES, "big") + data, 0)


def read_position(descriptor: int) -> CallPosition | None:
    """The position recorded last; None if there is none."""
    length = int.from_bytes(os.pread(descriptor, _LENGTH_BYTES, 0), "big")
    try:
        return msgspec.msgpack.decode(os.pread(descriptor, length, _LENGTH_BYTES), type=CallPosition)
    except msgspec.DecodeError:
        return None


def _serve(wire: HostWire, descriptor: int) -> None:
    try:
        message = wire.receive()
        assert isinstance(message, RunTraced)
        install(CallTrace(lambda position: write_position(descriptor, position), dict(message.refused)))
        wire.send(Host().answer(message.request, wire))
    except PeerGone:
        pass  # the worker has ended
    os._exit(0)


def _wait_for_hangup(connection: socket.socket) -> None:
    """Waits until the worker has ended: the result of a function that still runs has no receiver then."""
    watched = select.poll()
    watched.register(connection, select.POLLHUP | getattr(select, "POLLRDHUP", 0))
    watched.poll()


if __name__ == "__main__":
    faulthandler.enable()
    connection = socket.socket(fileno=int(sys.argv[1]))
    # User functions do not run in the main thread, as in a task host.
    threading.Thread(target=_serve, args=(HostWire(connection), int(sys.argv[2])), daemon=True).start()
    _wait_for_hangup(connection)
    os._exit(1)
