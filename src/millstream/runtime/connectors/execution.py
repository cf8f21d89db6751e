"""Execution of an application with connectors: they run in this process, beside the execution of the topology."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from millstream.connect import SinkConnector, SourceConnector
from millstream.errors import MillstreamError
from millstream.runtime.connectors.host import ConnectorHost
from millstream.runtime.execution import Execution, Observer

_POLL = 0.05
_GRACE = 8.0
"""Seconds that tasks may take to commit and to end. The whole stop may take ten seconds."""


class ConnectingExecution:
    """Runs connectors beside the execution of a topology. Implements `Execution`.

    An application that is to catch up reads the sources to their present end, then runs the topology until it has
    caught up, then lets the sinks write everything.

    Args:
        make_host: Creates the host of the connectors, given a function that shows messages.
        make: Creates the execution of the topology; None: the application has connectors only.
        until_caught_up: The application stops when it has caught up.
    """

    def __init__(
        self,
        make_host: Callable[[Callable[[str], None]], ConnectorHost],
        make: Callable[[], Execution] | None,
        *,
        until_caught_up: bool = False,
    ) -> None:
        self._make = make
        self._until_caught_up = until_caught_up
        self._inner: Execution | None = None if make is None or until_caught_up else make()
        self._observer: Observer | None = None
        self._stopping = threading.Event()
        self._is_paused = False
        self._sinks_expected = False
        self._is_drained = False
        self.host = make_host(self._tell)

    def _tell(self, message: str) -> None:
        if self._observer is not None:
            self._observer.retried(message)

    def start(self, observer: Observer, stopping: threading.Event) -> bool:
        """Starts the topology, then the connectors."""
        self._observer, self._stopping = observer, stopping
        self._sinks_expected = self._is_drained = False
        if self._inner is not None and not self._inner.start(observer, stopping):
            return False
        self.host.start()
        self.host.expect_idle(SourceConnector)
        return True

    def poll(self) -> None:
        """Watches the topology and the connectors."""
        if self._inner is not None:
            self._inner.poll()
        else:
            self._stopping.wait(_POLL)
        fenced = self.host.fenced()
        if fenced is not None:
            raise fenced
        if self._make is None:
            failure = self.host.failure()
            if failure is not None:
                raise failure

    def is_caught_up(self) -> bool:
        """Whether sources, topology and sinks, one after the other, have processed everything."""
        if self._is_paused or not self.host.were_idle(SourceConnector):
            return False
        if self._make is not None:
            if self._inner is None:  # it ends at the records that exist now, those of the sources among them
                assert self._observer is not None
                self._inner = self._make()
                self._inner.start(self._observer, self._stopping)
            if not self._inner.is_caught_up():
                return False
        if not self._sinks_expected:
            self._sinks_expected = True
            self.host.expect_idle(SinkConnector)
        return self.host.were_idle(SinkConnector)

    def pause(self) -> None:
        """Pauses the topology and the connectors."""
        self._is_paused = True
        self.host.pause()
        if self._inner is not None:
            self._inner.pause()

    def resume(self) -> None:
        """Continues after `pause`."""
        self._is_paused = False
        self.host.resume()
        if self._inner is not None:
            self._inner.resume()

    def drain(self) -> None:
        """Finishes what sources have read, what the topology processes, and what sinks write."""
        self._is_drained = True
        ended = threading.Thread(target=partial(self.host.stop, _GRACE), daemon=True)
        ended.start()
        try:
            if self._inner is not None:
                self._inner.drain()
        finally:
            ended.join()

    def close(self) -> None:
        """Ends the connectors and the topology."""
        self.host.stop(0 if self._is_drained else _GRACE)  # the next start must not meet their tasks
        if self._inner is not None:
            self._inner.close()
        if self._until_caught_up:
            self._inner = None

    def explain(self, error: Exception) -> MillstreamError | None:
        """Translates errors of the environment of the topology."""
        return None if self._inner is None else self._inner.explain(error)
