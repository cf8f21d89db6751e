"""Ports of the loopback interface."""

from __future__ import annotations

import errno
import random
import socket

_RANDOM = random.SystemRandom()  # tests seed the shared generator, and several processes choose ports at once


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
    """Returns different ports that are free now.

    They are below the ports that systems assign to outgoing connections: a server that takes seconds to bind its port
    would find one of those taken by a connection of another program.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = _RANDOM.randrange(10_000, 32_000)
        if port not in ports and bind_error(port) is None:
            ports.append(port)
    return ports
