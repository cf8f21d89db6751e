"""Messages over a socket between a Spark worker and a task host: a length, then the packed message."""

from __future__ import annotations

import socket
import struct

from millstream.runtime.host.protocol import HostMessage
from millstream.runtime.messages import pack, unpack

_LENGTH = struct.Struct(">Q")


class HostGone(EOFError):  # noqa: N818  (not a defect: hosts end now and then)
    """The process at the other end of a connection has ended, or has closed its end."""


class Wire:
    """One end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, message: HostMessage) -> None:
        """Sends a message.

        Raises:
            HostGone: The other end is gone.
        """
        data = pack(message)
        try:
            self._connection.sendall(_LENGTH.pack(len(data)))
            self._connection.sendall(data)
        except OSError as error:
            raise HostGone(str(error)) from error

    def receive(self) -> HostMessage:
        """Receives a message.

        Raises:
            HostGone: The other end is gone.
        """
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        return unpack(self._read(length), HostMessage)  # type: ignore[arg-type]

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def _read(self, length: int) -> bytearray:
        data = bytearray(length)
        view = memoryview(data)
        while view:
            try:
                count = self._connection.recv_into(view)
            except OSError as error:
                raise HostGone(str(error)) from error
            if not count:
                raise HostGone("the other end of the connection is gone")
            view = view[count:]
        return data
