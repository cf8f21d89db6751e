"""The objects that the parts of a worker share."""

from __future__ import annotations

from typing import Any, NamedTuple

from millstream.log.api import Log, Scope
from millstream.runtime.clock import Clock
from millstream.runtime.program.program import Program
from millstream.runtime.real_time.link import Link
from millstream.runtime.real_time.messages import Assignment, Report
from millstream.runtime.threads.api import Threads
from millstream.runtime.threads.own import OWN_THREADS


class WorkerContext(NamedTuple):
    """The objects that the parts of a worker share.

    Attributes:
        program: The application.
        assignment: The work of the worker.
        log: The log.
        link: The connection with the coordinator.
        clock: The clock.
        threads: Runs the parts of the worker.
    """

    program: Program
    assignment: Assignment
    log: Log
    link: Link
    clock: Clock
    threads: Threads = OWN_THREADS

    @property
    def scope(self) -> Scope:
        """The scope of the worker's publications."""
        return Scope(self.program.topology.application_id, self.assignment.name)

    def count_of(self, topic: str) -> int:
        """The number of partitions of a topic. A topic that does not exist is created."""
        count = self.program.counts.get(topic)
        if count is None:
            count = self.log.create_topic(topic, self.program.tasks, exist_ok=True).partitions
            self.program.counts[topic] = count
        return count

    def send(self, request: int, **fields: Any) -> None:
        """Sends a report to the coordinator.

        Args:
            request: The number of the worker's last request for a round.
            fields: The other fields of the report.
        """
        self.link.send(Report(self.assignment.worker, self.assignment.start, request=request, **fields))
