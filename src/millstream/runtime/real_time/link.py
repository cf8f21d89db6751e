"""The connection of a worker with the coordinator, and the protocol of a group of workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from millstream.errors import MillstreamError
from millstream.log.api import Offsets
from millstream.runtime.real_time.coordinator import Coordinator
from millstream.runtime.real_time.messages import Assignment, Orders, Report


class Link(Protocol):
    """A worker's end of the connection with the coordinator. It is used by the threads of one worker."""

    def begin(self, ends: Offsets) -> None:
        """Registers the worker before its first report.

        Args:
            ends: The end offsets of the internal topics that its tasks write.
        """
        ...

    def send(self, report: Report) -> None:
        """Sends a report. Returns at once; reports arrive in the order in which they were sent."""
        ...

    def orders(self) -> Orders:
        """Returns the last orders that have arrived, at once. Orders to stop if the coordinator is gone."""
        ...


class LocalLink:
    """The link of a worker in the process of the coordinator.

    Args:
        coordinator: The coordinator.
        assignment: The assignment of the worker.
        receive: Receives each report that the coordinator has accepted.
    """

    def __init__(self, coordinator: Coordinator, assignment: Assignment, receive: ReportReceiver) -> None:
        self._coordinator = coordinator
        self._assignment = assignment
        self._receive = receive

    def begin(self, ends: Offsets) -> None:
        """Registers the worker."""
        self._coordinator.begin(self._assignment.worker, self._assignment.start, ends)

    def send(self, report: Report) -> None:
        """Passes a report on."""
        if self._coordinator.report(report):
            self._receive(report)

    def orders(self) -> Orders:
        """Returns the current orders."""
        return self._coordinator.orders(self._assignment.worker)


class ReportReceiver(Protocol):
    """Receives the reports of all workers, from any thread."""

    def __call__(self, report: Report, /) -> None:
        """Receives a report."""
        ...


class Workers(Protocol):
    """The workers of an application: threads of this process, or partitions of a Spark job."""

    step: str
    """What `open` does, for the status."""

    def open(self) -> int:
        """Acquires what the workers need, such as a session of Spark; returns the greatest number of workers."""
        ...

    def start(self, assignments: Sequence[Assignment], coordinator: Coordinator, receive: ReportReceiver) -> None:
        """Starts a worker for each assignment. Their reports go to the coordinator, and then to *receive*."""
        ...

    def orders_changed(self) -> None:
        """Has the current orders of the coordinator sent to all workers."""
        ...

    def poll(self, seconds: float) -> None:
        """Watches the workers for a moment, and starts those again that were lost.

        Raises:
            MillstreamError: Workers were lost too often, or cannot be started.
        """
        ...

    def stop(self, seconds: float) -> None:
        """Waits until all workers have ended, after the coordinator has ordered them to stop; then ends the others.

        Args:
            seconds: The longest time to wait.
        """
        ...

    def close(self) -> None:
        """Ends all workers at once, and releases all resources."""
        ...

    def explain(self, error: Exception) -> MillstreamError | None:
        """Translates an unexpected error, such as a lost process; None if there is no better explanation."""
        ...
