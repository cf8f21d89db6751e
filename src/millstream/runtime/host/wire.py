"""A connection between a Spark worker and a task host."""

from __future__ import annotations

import socket

from millstream.runtime.host.protocol import HostMessage
from millstream.runtime.wire import Wire


class HostWire(Wire[HostMessage]):
    """One end of the connection."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection, HostMessage)
