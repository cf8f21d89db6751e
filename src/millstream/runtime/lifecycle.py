"""The states of a running application, and who is told of them."""

from __future__ import annotations

import enum
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from millstream.core.asynchronous import ASYNC_HINT, is_async
from millstream.errors import SetupError
from millstream.text.escaping import trace_text


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
        self._untold: deque[tuple[State, State]] = deque()
        self._telling = threading.Lock()

    @property
    def state(self) -> State:
        """The state now."""
        return self._state

    def listen(self, listener: Listener) -> None:
        """Adds somebody to be told of each change.

        Raises:
            SetupError: It is asynchronous.
        """
        if is_async(listener):
            raise SetupError(f"the listener {listener!r} is asynchronous", hint=ASYNC_HINT)
        self._listeners.append(listener)

    def change(self, state: State) -> bool:
        """Changes the state, if it can follow the one before; returns whether it did."""
        with self._changed:
            before = self._state
            if state not in _NEXT[before]:
                return False
            self._state = state
            self._untold.append((state, before))
            self._changed.notify_all()
        self._tell()
        return True

    def _tell(self) -> None:
        """Tells of changes one after the other, whichever threads made them; whoever tells of one tells of all."""
        while self._untold and self._telling.acquire(blocking=False):
            try:
                while self._untold:
                    change = self._untold.popleft()
                    for listener in list(self._listeners):
                        _call(listener, *change)
            finally:
                self._telling.release()

    def wait(self, wanted: Callable[[State], bool], timeout: float | None = None) -> bool:
        """Waits until the state is as wanted; returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: wanted(self._state), timeout)


def _call(listener: Listener, state: State, before: State) -> None:
    """Tells one listener. One that fails must not keep an application from ending."""
    try:
        listener(state, before)
    except BaseException as error:  # noqa: BLE001  (a listener may mean to end the program, and is not in its main thread)
        told = f"millstream: a listener failed when it was told of {state.value}:"
        print(told, trace_text(error), sep="\n", file=sys.stderr, flush=True)  # noqa: T201
