"""The messages between the server and its SQL process: MessagePack, each behind its length.

The server sends ``{"id", "method", "arguments"}`` to begin a call, ``{"id", "more": true}`` when it has passed on what
came, and ``{"id", "cancel": true}``. The process answers with ``{"id", "items"}`` any number of times, and ends with
``{"id", "result"}`` or ``{"id", "error"}``. ``{"state", "reason"}`` tells whether it can execute statements.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import msgspec

_LENGTH = 4
_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder()


def packed(message: dict[str, Any]) -> bytes:
    """Returns the bytes of a message."""
    data = _encoder.encode(message)
    return len(data).to_bytes(_LENGTH, "big") + data


def receive(connection: socket.socket) -> dict[str, Any] | None:
    """Waits for a message; None at the end of the connection."""
    head = _exactly(connection, _LENGTH)
    data = None if head is None else _exactly(connection, int.from_bytes(head, "big"))
    return None if data is None else _message(data)


async def receive_async(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Waits for a message in an event loop; None at the end of the connection."""
    try:
        head = await reader.readexactly(_LENGTH)
        return _message(await reader.readexactly(int.from_bytes(head, "big")))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def _message(data: bytes | bytearray) -> dict[str, Any]:
    message: dict[str, Any] = _decoder.decode(data)
    return message


def _exactly(connection: socket.socket, size: int) -> bytearray | None:
    data = bytearray()
    while len(data) < size:
        try:
            piece = connection.recv(min(size - len(data), 1 << 20))
        except ConnectionError:
            return None
        if not piece:
            return None
        data += piece
    return data
