"""Publications of applications: one transaction per batch, fenced by the epoch of the instance that writes.

An application publishes in one or several *scopes*: that of the application itself, and one for each of its workers.
Each scope has an epoch, a last published batch and recorded state of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from millstream.log.api.records import Append
from millstream.log.api.topics import Offsets

if TYPE_CHECKING:
    from millstream.views.changes import ViewChange

Fingerprints: TypeAlias = Mapping[str, tuple[int, bytes]]
"""The number of results of a batch and their digest, by topic or store."""


class Scope(NamedTuple):
    """The writer of publications: an application, or one of its workers.

    Attributes:
        application: The name of the application.
        worker: The name of the worker; None for the application itself.
    """

    application: str
    worker: str | None = None

    def __str__(self) -> str:
        own = f"application {self.application!r}"
        return own if self.worker is None else f"worker {self.worker!r} of {own}"


@dataclass(frozen=True, slots=True)
class Publication:
    """All changes of one batch.

    Attributes:
        scope: The application or worker that publishes.
        epoch: The epoch that `Applications.acquire` returned to this instance.
        batch: The number of the batch. Numbers of a scope only grow.
        appends: Blocks to append to topics.
        offsets: The input offsets of the batch. They are committed to the consumer group of the application's name.
        views: Changes of the views of its stores. On a Kafka cluster, a worker publishes none: views are a database of
            the driver's machine.
        fingerprints: Counts and digests of the results, to compare a replay with.
        state: Entries of the scope's recorded state, by name.
        marker: A partition of a topic to which only this scope writes, and to which this publication appends. The last
            record of that append has a value that no other publication has. It tells whether the publication was
            committed, so that a Kafka cluster need not record the batch: its number and fingerprints are ignored, and
            `published` does not return it. The embedded log records it all the same.
    """

    scope: Scope
    epoch: int
    batch: int
    appends: Sequence[Append] = ()
    offsets: Offsets = field(default_factory=dict)
    views: Sequence[ViewChange] = ()
    fingerprints: Fingerprints = field(default_factory=dict)
    state: Mapping[str, bytes] = field(default_factory=dict)
    marker: tuple[str, int] | None = None


class Published(NamedTuple):
    """The last batch that was published in a scope.

    Attributes:
        batch: Its number.
        fingerprints: Its fingerprints.
        offsets: The input offsets of this batch, and those of earlier batches for other partitions.
    """

    batch: int
    fingerprints: Fingerprints
    offsets: Offsets


class Applications(Protocol):
    """Publishes batches of applications and keeps their recorded state."""

    def acquire(self, scope: Scope, *, application_epoch: int | None = None) -> int:
        """Makes the caller the only instance of a scope that can write, and fences all earlier ones.

        To acquire the scope of an application fences all of its workers, too.

        Args:
            scope: The application or worker.
            application_epoch: The epoch of the application that started this worker.

        Returns:
            The epoch of the instance, which is greater than all earlier epochs of the scope.

        Raises:
            FencedError: The application has another epoch than `application_epoch`.
        """
        ...

    def publish(self, publication: Publication) -> bool:
        """Writes all changes of a batch in one transaction, once.

        Returns:
            False if this batch of the scope or a later one was published before; nothing is written then.

        Raises:
            FencedError: Another instance has acquired the scope, or the application of the worker, since.
            NonDeterministicError: The batch is the last one published, but its fingerprints differ.
        """
        ...

    def send(self, scope: Scope, epoch: int, appends: Sequence[Append]) -> None:
        """Writes records without a transaction: readers see them soon, and `flush` confirms them.

        Records of a partition are written in order. After a failure, some may be written, others not.

        Raises:
            FencedError: Another instance has acquired the scope, or the application of the worker, since. A Kafka
                cluster checks that in `flush` only.
        """
        ...

    def flush(self, scope: Scope, epoch: int, offsets: Offsets | None = None) -> None:
        """Waits until all records that `send` has taken are written, then commits offsets.

        Args:
            scope: The application or worker.
            epoch: Its epoch.
            offsets: Input offsets, which are committed to the consumer group of the application's name.

        Raises:
            FencedError: Another instance has acquired the scope, or the application of the worker, since.
            BrokerError: Some records are not written.
        """
        ...

    def wait_until_visible(self, scope: Scope, epoch: int) -> None:
        """Waits until readers see the last publication: a cluster commits the publication of a worker a moment before.

        Records of a topic to which others write may stay behind an open transaction of theirs.

        Raises:
            FencedError: Another instance has acquired the scope since.
            BrokerError: The publication does not become visible.
        """
        ...

    def published(self, scope: Scope) -> Published | None:
        """Returns the last batch that was published in a scope, if any."""
        ...

    def state(self, scope: Scope) -> dict[str, bytes]:
        """Returns the recorded state of a scope, by name."""
        ...

    def set_state(self, scope: Scope, state: Mapping[str, bytes], epoch: int) -> None:
        """Records entries of the state outside of any batch. Entries of other names stay.

        Raises:
            FencedError: Another instance has acquired the scope, or the application of the worker, since.
        """
        ...

    def delete(self, application: str) -> None:
        """Deletes all scopes of an application, its group, holds and views. Its topics stay."""
        ...
