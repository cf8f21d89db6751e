"""The states of a running application, and its state listeners."""

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
    """State of an application, with the names of Kafka Streams.

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
        """Whether it is a final state."""
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
"""Called with the new and the old state at each change."""


class Lifecycle:
    """Holds the state of an application. A transition that the diagram does not have is ignored."""

    def __init__(self) -> None:
        self._state = State.CREATED
        self._changed = threading.Condition()
        self._listeners: list[Listener] = []
        self._pending: deque[tuple[State, State]] = deque()
        self._notifying = threading.Lock()

    @property
    def state(self) -> State:
        """The current state."""
        return self._state

    def listen(self, listener: Listener) -> None:
        """Adds a listener.

        Raises:
            SetupError: It is asynchronous.
        """
        if is_async(listener):
            raise SetupError(f"the listener {listener!r} is asynchronous", hint=ASYNC_HINT)
        self._listeners.append(listener)

    def change(self, state: State) -> bool:
        """Changes the state, if it can follow the present one; returns whether it did."""
        with self._changed:
            before = self._state
            if state not in _NEXT[before]:
                return False
            self._state = state
            self._pending.append((state, before))
            self._changed.notify_all()
        self._notify()
        return True

    def _notify(self) -> None:
        """Calls the listeners for each change, in order. One thread at a time does so, for changes of all threads."""
        while self._pending and self._notifying.acquire(blocking=False):
            try:
                while self._pending:
                    change = self._pending.popleft()
                    for listener in list(self._listeners):
                        _call(listener, *change)
            finally:
                self._notifying.release()

    def wait(self, wanted: Callable[[State], bool], timeout: float | None = None) -> bool:
        """Waits until *wanted* holds for the state; returns whether it does."""
        with self._changed:
            return self._changed.wait_for(lambda: wanted(self._state), timeout)


def _call(listener: Listener, state: State, before: State) -> None:
    """Calls a listener. One that fails must not keep an application from ending."""
    try:
        listener(state, before)
    except BaseException as error:  # noqa: BLE001  (sys.exit() in a listener must not end this thread)
        message = f"millstream: a listener failed at the change to {state.value}:"
        print(message, trace_text(error), sep="\n", file=sys.stderr, flush=True)  # noqa: T201
