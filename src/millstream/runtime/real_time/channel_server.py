"""The driver's end of the channel to its workers: accepts their connections, and pushes orders to them."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from typing import Protocol

import msgspec

from millstream.runtime.real_time.channel import ChannelAddress, configure
from millstream.runtime.real_time.coordinator import Coordinator
from millstream.runtime.real_time.messages import Assignment, Orders, Report
from millstream.runtime.real_time.protocol import (
    TOKEN_BYTES,
    Begin,
    Begun,
    Challenge,
    Heartbeat,
    Hello,
    Ordered,
    Reported,
    ToDriver,
    Welcome,
    is_proof,
    proof,
)
from millstream.runtime.wire import PeerGone, Wire

_GREETING_SECONDS = 10.0
_GREETING_BYTES = 4096


class Connection:
    """A connection of a process that has proved that it knows the token.

    Attributes:
        hello: What the process has said about itself.
        assignment: The work that it was given, if any.
    """

    def __init__(self, wire: Wire[ToDriver], hello: Hello) -> None:
        self.hello = hello
        self.assignment: Assignment | None = None
        self._wire = wire
        self._sending = threading.Lock()
        self._changed = threading.Event()
        self._is_closed = False

    def close(self) -> None:
        """Closes the connection: the process ends when it notices."""
        self._is_closed = True
        self._changed.set()
        self._wire.shutdown()

    def notify(self) -> None:
        """Has the current orders sent, at once."""
        self._changed.set()

    def serve(self, channel: Channel, coordinator: Coordinator, token: bytes) -> None:
        """Gives the process its assignment, and receives its messages until it is gone."""
        self.assignment = assignment = channel.admit(self)
        signed = proof(token, self.hello.nonce, "driver")
        if assignment is None:
            self._wire.send(Welcome(signed, None, Orders()))
            return
        try:
            with self._sending:
                self._wire.send(Welcome(signed, assignment, coordinator.orders(assignment.worker)))
            threading.Thread(
                target=self._push, args=(coordinator, assignment), name="millstream-orders", daemon=True
            ).start()
            while True:
                message = self._wire.receive()
                if isinstance(message, Begin):
                    self._begin(channel, coordinator, assignment, message)
                elif isinstance(message, Reported):
                    channel.report(self, message.report)
                else:
                    assert isinstance(message, Heartbeat)
                    channel.heard(self)
        finally:
            self.close()
            channel.gone(self)

    def _begin(self, channel: Channel, coordinator: Coordinator, assignment: Assignment, message: Begin) -> None:
        channel.heard(self)
        ends = {(topic, partition): offset for topic, partition, offset in message.ends}
        coordinator.begin(assignment.worker, assignment.start, ends)
        with self._sending:
            self._wire.send(Begun(coordinator.orders(assignment.worker)))

    def _push(self, coordinator: Coordinator, assignment: Assignment) -> None:
        """Sends the orders after each change. Several changes in a short time are one message."""
        with contextlib.suppress(PeerGone):
            while True:
                self._changed.wait()
                self._changed.clear()
                if self._is_closed:
                    return
                with self._sending:
                    self._wire.send(Ordered(coordinator.orders(assignment.worker)))


class Channel(Protocol):
    """Receives what the connections report, each from its own thread."""

    def admit(self, connection: Connection) -> Assignment | None:
        """Returns the assignment of a new process; None if it is not needed. May wait."""
        ...

    def report(self, connection: Connection, report: Report) -> None:
        """Receives a report."""
        ...

    def heard(self, connection: Connection) -> None:
        """Notes that a process is alive."""
        ...

    def gone(self, connection: Connection) -> None:
        """Notes that a connection has ended. It is the last call for the connection."""
        ...

    def failed(self, error: BaseException) -> None:
        """Receives an unexpected error in the driver."""
        ...


class ChannelServer:
    """Listens for the processes of workers.

    Args:
        channel: Receives their messages.
        coordinator: Makes their orders.
        bind: The address on which it listens.
        host: The address under which the workers reach it.

    Attributes:
        address: The address of the channel, with its token.
    """

    def __init__(
        self, channel: Channel, coordinator: Coordinator, *, bind: str = "127.0.0.1", host: str = "127.0.0.1"
    ) -> None:
        self._channel = channel
        self._coordinator = coordinator
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self._is_closed = False
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        self._listener = socket.create_server((bind, 0), family=family, backlog=128)
        self.address = ChannelAddress(host, self._listener.getsockname()[1], secrets.token_bytes(TOKEN_BYTES))
        threading.Thread(target=self._accept, name="millstream-channel", daemon=True).start()

    def notify(self) -> None:
        """Has all workers get their current orders, at once."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.notify()

    def close(self) -> None:
        """Closes all connections, and accepts no other."""
        with self._lock:
            self._is_closed = True
            connections = list(self._connections)
        with contextlib.suppress(OSError):  # wakes the thread that accepts
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in connections:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _address = self._listener.accept()
            except OSError:
                if self._is_closed:
                    return
                continue
            threading.Thread(target=self._serve, args=(accepted,), name="millstream-worker", daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        connection = None
        try:
            with accepted:
                connection = self._authenticate(accepted)
                if connection is not None:
                    connection.serve(self._channel, self._coordinator, self.address.token)
        except (PeerGone, msgspec.DecodeError, OSError):
            pass  # the channel knows
        except BaseException as error:  # noqa: BLE001  (it is raised where the workers are watched)
            self._channel.failed(error)
        finally:
            if connection is not None:
                with self._lock:
                    self._connections.discard(connection)

    def _authenticate(self, accepted: socket.socket) -> Connection | None:
        """Returns the connection of a process that knows the token; None for others."""
        wire: Wire[ToDriver] = Wire(accepted, ToDriver)
        accepted.settimeout(_GREETING_SECONDS)
        nonce = secrets.token_bytes(TOKEN_BYTES)
        wire.send(Challenge(nonce))
        hello = wire.receive(at_most=_GREETING_BYTES)
        if not isinstance(hello, Hello) or not is_proof(hello.proof, self.address.token, nonce, "worker"):
            return None
        configure(accepted)
        connection = Connection(wire, hello)
        with self._lock:
            if self._is_closed:
                return None
            self._connections.add(connection)
        return connection
