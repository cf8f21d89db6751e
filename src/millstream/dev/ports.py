"""Ports of the loopback interface."""

from __future__ import annotations

import errno
import socket


def bind_error(port: int) -> str | None:
    """Returns why a port cannot be bound, or None if it can."""
    with socket.socket() as listener:
        # As Java does: connections in TIME_WAIT do not keep a port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            return "is taken by another program" if taken else f"cannot be used: {error.strerror}"
    return None


def free_ports(count: int) -> list[int]:
    """Returns different ports that are free now."""
    listeners = [socket.socket() for _ in range(count)]
    try:
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()
