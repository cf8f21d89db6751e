"""The protocol of the channel between the driver and the processes of its workers.

The driver begins with a challenge. Each end proves that it knows the token of the channel, which Spark has sent to the
worker with its code. Messages are MessagePack; nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TypeAlias

from millstream.runtime.messages import Message
from millstream.runtime.real_time.messages import Assignment, Orders, Report


class Challenge(Message, tag=True, array_like=True, frozen=True):
    """The first message of the driver: random bytes that the worker must sign."""

    nonce: bytes


class Hello(Message, tag=True, array_like=True, frozen=True):
    """The first message of a process.

    Attributes:
        proof: Proves that the process knows the token.
        nonce: Random bytes that the driver must sign.
        worker: The number of the worker that it wants to be.
        host: The name of its machine.
        pid: Its process id.
        process: Its `owner_record`.
    """

    proof: bytes
    nonce: bytes
    worker: int
    host: str
    pid: int
    process: str


class Welcome(Message, tag=True, array_like=True, frozen=True):
    """The answer of the driver: the assignment and the first orders; no assignment: the process is not needed."""

    proof: bytes
    assignment: Assignment | None
    orders: Orders


class Begin(Message, tag=True, array_like=True, frozen=True):
    """The worker begins: see `Link.begin`. ``ends`` has (topic, partition, offset)."""

    ends: list[tuple[str, int, int]]


class Begun(Message, tag=True, array_like=True, frozen=True):
    """The coordinator has registered the worker. The orders are the first ones for this start."""

    orders: Orders


class Reported(Message, tag=True, array_like=True, frozen=True):
    """A report of the worker."""

    report: Report


class Heartbeat(Message, tag=True, array_like=True, frozen=True):
    """The worker is alive, and has nothing to report."""


class Ordered(Message, tag=True, array_like=True, frozen=True):
    """New orders of the coordinator."""

    orders: Orders


ToDriver: TypeAlias = Hello | Begin | Reported | Heartbeat
ToWorker: TypeAlias = Challenge | Welcome | Begun | Ordered

TOKEN_BYTES = 32


def proof(token: bytes, nonce: bytes, sender: str) -> bytes:
    """The proof that the sender, ``worker`` or ``driver``, knows the token."""
    return hmac.digest(token, sender.encode() + nonce, hashlib.sha256)


def is_proof(given: bytes, token: bytes, nonce: bytes, sender: str) -> bool:
    """Whether a proof is valid."""
    return hmac.compare_digest(given, proof(token, nonce, sender))
