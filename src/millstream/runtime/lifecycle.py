"""The states of a running application, and who is told of them."""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from typing import TypeAlias


class State(enum.Enum):
    """Where an application is in its life, with Kafka Streams' names.

    .. code-block:: text

        CREATED ──> STARTING ──> RUNNING ──> PENDING_SHUTDOWN ──> NOT_RUNNING
                       ^  │         │
                       │  └────┐    │
                       └─(again)────┴──> PENDING_ERROR ──> ERROR
    """

    CREATED = "CREATED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"

    @property
    def is_over(self) -> bool:
        """Whether nothing comes after it."""
        return self in {State.NOT_RUNNING, State.ERROR}


_NEXT: dict[State, set[State]] = {
    State.CREATED: {State.STARTING, State.NOT_RUNNING},
    State.STARTING: {State.RUNNING, State.PENDING_SHUTDOWN, State.PENDING_ERROR},
    State.RUNNING: {State.STARTING, State.PENDING_SHUTDOWN, State.PENDING_ERROR},
    State.PENDING_SHUTDOWN: {State.NOT_RUNNING, State.PENDING_ERROR},
    State.PENDING_ERROR: {State.ERROR},
    State.NOT_RUNNING: set(),
    State.ERROR: set(),
}

Listener: TypeAlias = Callable[[State, State], None]
"""Told of a change: the new state, the old one."""


class Lifecycle:
    """The state of an application; a change that makes no sense is ignored."""

    def __init__(self) -> None:
        self._state = State.CREATED
        self._changed = threading.Condition()
        self._listeners: list[Listener] = []

    @property
    def state(self) -> State:
        """The state now."""
        return self._state

    def listen(self, listener: Listener) -> None:
        """Adds somebody to be told of each change."""
        self._listeners.append(listener)

    def change(self, state: State) -> bool:
        """Changes the state, if it can follow the one before; returns whether it did."""
        with self._changed:
            before = self._state
            if state not in _NEXT[before]:
                return False
            self._state = state
            self._changed.notify_all()
        for listener in list(self._listeners):
            listener(state, before)
        return True

    def wait(self, wanted: Callable[[State], bool], timeout: float | None = None) -> bool:
        """Waits until the state is as wanted; returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: wanted(self._state), timeout)
