"""Publications of applications: one transaction per batch, fenced by the epoch of the instance that writes."""

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


@dataclass(frozen=True, slots=True)
class Publication:
    """All changes of one batch of an application.

    Attributes:
        application: The application.
        epoch: The epoch that `Applications.acquire` returned to this instance.
        batch: The number of the batch. Numbers only grow.
        appends: Blocks to append to topics.
        offsets: The input offsets of the batch. They are committed to the consumer group of the application's name.
        views: Changes of the views of its stores.
        fingerprints: Counts and digests of the results, to compare a replay with.
        state: Entries of the application's recorded state, by name.
    """

    application: str
    epoch: int
    batch: int
    appends: Sequence[Append] = ()
    offsets: Offsets = field(default_factory=dict)
    views: Sequence[ViewChange] = ()
    fingerprints: Fingerprints = field(default_factory=dict)
    state: Mapping[str, bytes] = field(default_factory=dict)


class Published(NamedTuple):
    """The last batch that an application published.

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

    def acquire(self, application: str) -> int:
        """Makes the caller the only instance of an application that can write, and fences all earlier ones.

        Returns:
            The epoch of the instance, which is greater than all earlier epochs of the application.
        """
        ...

    def publish(self, publication: Publication) -> bool:
        """Writes all changes of a batch in one transaction, once.

        Returns:
            False if this batch or a later one was published before; nothing is written then.

        Raises:
            FencedError: Another instance has acquired the application since.
            NonDeterministicError: The batch is the last one published, but its fingerprints differ.
        """
        ...

    def published(self, application: str) -> Published | None:
        """Returns the last batch that an application published, if any."""
        ...

    def state(self, application: str) -> dict[str, bytes]:
        """Returns the recorded state of an application, by name."""
        ...

    def set_state(self, application: str, state: Mapping[str, bytes], epoch: int) -> None:
        """Records entries of the state outside of any batch. Entries of other names stay.

        Raises:
            FencedError: Another instance has acquired the application since.
        """
        ...

    def delete(self, application: str) -> None:
        """Deletes the epoch, published batch, state, group, holds and views of an application. Its topics stay."""
        ...
