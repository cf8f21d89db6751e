"""The worker's end of the channel to the driver."""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from millstream.log.api import Offsets
from millstream.runtime.host.process_identity import owner_record
from millstream.runtime.messages import Failure, Message
from millstream.runtime.real_time.messages import Assignment, Orders, Phase, Report
from millstream.runtime.real_time.protocol import (
    TOKEN_BYTES,
    Begin,
    Begun,
    Challenge,
    Heartbeat,
    Hello,
    Ordered,
    Reported,
    ToWorker,
    Welcome,
    is_proof,
    proof,
)
from millstream.runtime.wire import PeerGone, Wire

HEARTBEAT_SECONDS = 1.0
_TICK = 0.2
"""Seconds after which lines that user functions have printed are sent, at the latest."""

_CONNECT_SECONDS = 10.0
_FLUSH_SECONDS = 5.0
UNACKNOWLEDGED_MS = 20_000
"""After this time without an acknowledgement of the other machine, a connection counts as lost."""


@dataclass(frozen=True, slots=True)
class ChannelAddress:
    """Where the driver listens, and the token that each connection must know."""

    host: str
    port: int
    token: bytes = field(repr=False)


def configure(connection: socket.socket) -> None:
    """Sets the options of a connection: messages are sent at once, and an unreachable machine is noticed."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)


def no_lines() -> list[str]:
    """Takes no printed lines."""
    return []


class ChannelLink:
    """The link of a worker in another process. Implements `Link`.

    Args:
        wire: The connection, after `join`.
        assignment: The assignment of the worker.
        orders: Its first orders.
        printed: Takes the lines that user functions have printed since the last call.

    Attributes:
        assignment: The assignment of the worker.
        gone: Set when the driver is gone.
    """

    def __init__(
        self,
        wire: Wire[ToWorker],
        assignment: Assignment,
        orders: Orders,
        printed: Callable[[], list[str]] = no_lines,
    ) -> None:
        self.assignment = assignment
        self.gone = threading.Event()
        self._wire = wire
        self._orders = orders
        self._printed = printed
        self._phase: Phase = "starting"
        self._begun = threading.Event()
        self._outgoing: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._sender = threading.Thread(target=self._send_all, name="millstream-channel-send", daemon=True)
        self._receiver = threading.Thread(target=self._receive_all, name="millstream-channel-receive", daemon=True)
        self._sender.start()
        self._receiver.start()

    # ----- Link ------------------------------------------------------------------------------------------------

    def begin(self, ends: Offsets) -> None:
        """Registers the worker. Returns when its orders are those of this start, or the driver is gone."""
        self._outgoing.put(Begin([(topic, partition, offset) for (topic, partition), offset in ends.items()]))
        self._begun.wait()

    def send(self, report: Report) -> None:
        """Sends a report."""
        self._phase = report.phase
        self._outgoing.put(Reported(report))

    def orders(self) -> Orders:
        """Returns the last orders that have arrived; orders to stop if the driver is gone."""
        return self._orders

    # ----- the end ---------------------------------------------------------------------------------------------

    def end(self, failure: Failure | None = None) -> None:
        """Reports the end of the worker, sends everything that is left, and closes the connection.

        Args:
            failure: The error that has ended it.
        """
        self._phase = "ended"
        self._outgoing.put(Reported(self._report(printed=self._printed(), failure=failure)))
        self._outgoing.put(None)
        self._sender.join(_FLUSH_SECONDS)
        self._wire.finish()
        self._receiver.join(_FLUSH_SECONDS)  # the driver closes its end when it has received everything
        self._wire.close()

    def _report(self, *, printed: list[str], failure: Failure | None = None) -> Report:
        number, start = self.assignment.worker, self.assignment.start
        return Report(number, start, self._phase, printed=printed, failure=failure)

    # ----- threads ---------------------------------------------------------------------------------------------

    def _send_all(self) -> None:
        sent = printed = time.monotonic()
        with contextlib.suppress(PeerGone):  # the receiver notices it, too
            while True:
                with contextlib.suppress(queue.Empty):
                    message = self._outgoing.get(timeout=_TICK)
                    if message is None:
                        return
                    self._wire.send(message)
                    sent = time.monotonic()
                now = time.monotonic()
                if now - printed >= _TICK:
                    printed = now
                    if lines := self._printed():
                        self._wire.send(Reported(self._report(printed=lines)))
                        sent = now
                if now - sent >= HEARTBEAT_SECONDS:
                    self._wire.send(Heartbeat())
                    sent = now

    def _receive_all(self) -> None:
        try:
            while True:
                message = self._wire.receive()
                assert isinstance(message, Ordered | Begun)
                self._orders = message.orders
                if isinstance(message, Begun):
                    self._begun.set()
        except (PeerGone, msgspec.DecodeError):
            self._orders = msgspec.structs.replace(self._orders, is_stopping=True)
        finally:
            self.gone.set()
            self._begun.set()


def join(address: ChannelAddress, worker: int, printed: Callable[[], list[str]] = no_lines) -> ChannelLink | None:
    """Connects a process to the driver as a worker; None if the driver does not need it.

    Args:
        address: The address of the channel.
        worker: The number of the worker.
        printed: See `ChannelLink`.

    Raises:
        PeerGone: The driver is gone, or does not know the token.
    """
    try:
        connection = socket.create_connection((address.host, address.port), _CONNECT_SECONDS)
    except OSError as error:
        raise PeerGone(f"there is no driver at {address.host}:{address.port}: {error}") from error
    wire: Wire[ToWorker] = Wire(connection, ToWorker)
    try:
        challenge = wire.receive()
        configure(connection)  # the answer may take as long as the delay before a restart
        welcome = _greet(wire, challenge, address.token, worker)
    except BaseException:
        wire.close()
        raise
    if welcome.assignment is None:
        wire.close()
        return None
    return ChannelLink(wire, welcome.assignment, welcome.orders, printed)


def _greet(wire: Wire[ToWorker], challenge: ToWorker, token: bytes, worker: int) -> Welcome:
    if not isinstance(challenge, Challenge):
        raise PeerGone("the other end is not a driver")
    nonce, pid = secrets.token_bytes(TOKEN_BYTES), os.getpid()
    signed = proof(token, challenge.nonce, "worker")
    wire.send(Hello(signed, nonce, worker, socket.gethostname(), pid, owner_record(pid)))
    welcome = wire.receive()
    if not isinstance(welcome, Welcome) or not is_proof(welcome.proof, token, nonce, "driver"):
        raise PeerGone("the other end does not know the token of the channel")
    return welcome
