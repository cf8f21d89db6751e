"""Storage of the views of stores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from millstream.log.api.topics import Offsets

if TYPE_CHECKING:
    from millstream.views.changes import ViewChange

ChangesOf: TypeAlias = "Callable[[Collection[str] | None], Iterable[ViewChange]]"
"""Returns the content of the changelogs of these stores, or of all stores for None, as changes of their views."""


class ViewStorage(Protocol):
    """Drops and repairs the views of stores. `Applications.publish` writes their changes."""

    def drop(self, application: str, stores: Iterable[str]) -> None:
        """Deletes the views of stores of an application, if there are any."""
        ...

    def repair(self, application: str, changes: ChangesOf, *, again: bool) -> None:
        """Rebuilds views that are damaged or lack batches that the application has published.

        Args:
            application: The application.
            changes: Returns the content of its stores; it is called only if a view is damaged or incomplete.
            again: The last batch will be replayed, so its changes of views may be missing.
        """
        ...

    @property
    def following(self) -> FollowingViews | None:
        """Views that follow changelogs; None if workers publish changes of views with their results."""
        ...


class FollowingViews(Protocol):
    """Views that are derived from changelogs, each change with the offsets up to which it follows them."""

    def offsets(self, application: str) -> Offsets:
        """Returns the offsets up to which the views of an application follow its changelogs; none if there are none."""
        ...

    def times(self, application: str) -> dict[tuple[str, int], int]:
        """Returns the times of the stores of an application, by name and partition."""
        ...

    def follow(self, application: str, changes: Sequence[ViewChange], offsets: Offsets) -> None:
        """Applies changes, and records the offsets, in one transaction."""
        ...

    def forget(self, application: str) -> None:
        """Deletes the views and the offsets of an application."""
        ...
