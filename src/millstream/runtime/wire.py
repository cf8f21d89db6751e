"""Messages over a socket between two processes: a length, then the packed message."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Any, Generic, TypeVar

from millstream.runtime.messages import Message, pack, unpack

_LENGTH = struct.Struct(">Q")
_JOINED = 64 * 1024
"""The size up to which a message is sent together with its length."""

M = TypeVar("M")


class PeerGone(EOFError):  # noqa: N818  (not a defect: processes end now and then)
    """The process at the other end of a connection has ended, or has closed its end."""


class Wire(Generic[M]):
    """One end of a connection. One thread at a time may send, and one receive.

    Args:
        connection: The socket.
        kind: The type of the messages that it receives.
    """

    def __init__(self, connection: socket.socket, kind: Any) -> None:
        self._connection = connection
        self._kind = kind

    def send(self, message: Message) -> None:
        """Sends a message.

        Raises:
            PeerGone: The other end is gone.
        """
        data = pack(message)
        length = _LENGTH.pack(len(data))
        try:
            if len(data) <= _JOINED:
                self._connection.sendall(length + data)
            else:
                self._connection.sendall(length)
                self._connection.sendall(data)
        except OSError as error:
            raise PeerGone(str(error)) from error

    def receive(self, *, at_most: int | None = None) -> M:
        """Receives a message.

        Args:
            at_most: The length that a message may have, for a peer that is not trusted; None: any.

        Raises:
            PeerGone: The other end is gone, or its message is too long.
        """
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if at_most is not None and length > at_most:
            raise PeerGone(f"a message of {length} bytes is too long")
        message: M = unpack(memoryview(self._read(length)), self._kind)
        return message

    def finish(self) -> None:
        """Ends the messages of this end. The other end receives all of them before it notices, if it still reads.

        A connection that is closed instead is reset by what arrives later: the other end would lose messages.
        """
        with contextlib.suppress(OSError):  # it has ended
            self._connection.shutdown(socket.SHUT_WR)

    def shutdown(self) -> None:
        """Ends the connection, also for a thread that waits for a message."""
        with contextlib.suppress(OSError):  # it has ended
            self._connection.shutdown(socket.SHUT_RDWR)

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
                raise PeerGone(str(error)) from error
            if not count:
                raise PeerGone("the other end of the connection is gone")
            view = view[count:]
        return data
