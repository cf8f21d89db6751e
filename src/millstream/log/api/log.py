"""A log: topics, records and consumer groups, and the parts that the runtime uses."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from millstream.log.api.applications import Applications
from millstream.log.api.changes import Changes
from millstream.log.api.cleanup import Cleanup
from millstream.log.api.following import Follower
from millstream.log.api.groups import Groups
from millstream.log.api.records import Records
from millstream.log.api.topics import Topics
from millstream.log.api.views import ViewStorage


class Log(Topics, Records, Groups, Protocol):
    """Topics, records and consumer groups, and the publications of applications.

    Methods may be called from any thread. A method writes all of its changes or none, and they are durable on the disk,
    or acknowledged by the broker, when it returns. All methods raise `LogError` if the log cannot be used.
    """

    @property
    def applications(self) -> Applications:
        """Publications and recorded state of applications."""
        ...

    @property
    def views(self) -> ViewStorage:
        """The views of stores."""
        ...

    @property
    def cleanup(self) -> Cleanup | None:
        """Retention and compaction; None for a Kafka cluster, whose brokers do both."""
        ...

    @property
    def changes(self) -> Changes | None:
        """Tells of commits; None for a Kafka cluster: there, a reader must follow the partitions."""
        ...

    def follow(self) -> Follower:
        """Returns a reader of records as they are committed, which follows no partitions yet."""
        ...

    def connect(self, seconds: float, tell: Callable[[str], None]) -> None:
        """Waits until the log can be used.

        Args:
            seconds: The longest time to wait.
            tell: Called with a message if it takes a while.

        Raises:
            BrokerError: The log cannot be used after that time.
        """
        ...

    def close(self) -> None:
        """Closes files and connections."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
