"""Calls of a client in a thread of their own, because some never return after a broker was down."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

_LOOK_EVERY = 1.0

_Answer: TypeAlias = "SimpleQueue[tuple[Any, BaseException | None]]"
_Request: TypeAlias = "tuple[Callable[[], Any], _Answer]"


class Calls:
    """Makes one call after the other in one thread. A call that takes too long is given up, with its thread."""

    def __init__(self) -> None:
        self._requests: SimpleQueue[_Request | None] | None = None

    def start(self, call: Callable[[], Any]) -> _Answer:
        """Starts a call. `result` waits for it."""
        if self._requests is None:
            requests: SimpleQueue[_Request | None] = SimpleQueue()
            self._requests = requests
            threading.Thread(target=_serve, args=(requests,), name="millstream-kafka-call", daemon=True).start()
            weakref.finalize(self, requests.put, None).atexit = False
        answer: _Answer = SimpleQueue()
        self._requests.put((call, answer))
        return answer

    def result(self, answer: _Answer, seconds: float, is_lost: Callable[[], bool] | None = None) -> Any:
        """Returns the result of a call, or raises its exception.

        Args:
            answer: The call.
            seconds: The time after which it is given up.
            is_lost: Asked every second; the call is given up at once if it is true.

        Raises:
            TimeoutError: The call was given up.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                result, error = answer.get(timeout=max(0.0, min(_LOOK_EVERY, deadline - time.monotonic())))
                break
            except Empty:
                if time.monotonic() < deadline and not (is_lost is not None and is_lost()):
                    continue
                if self._requests is not None:
                    self._requests.put(None)
                    self._requests = None
                raise TimeoutError from None
        if error is not None:
            raise error
        return result


def _serve(requests: SimpleQueue[_Request | None]) -> None:
    while (request := requests.get()) is not None:
        call, answer = request
        try:
            answer.put((call(), None))
        except BaseException as error:  # noqa: BLE001  (`result` raises it)
            answer.put((None, error))
        del request, call, answer  # a client is closed when its last reference is gone
