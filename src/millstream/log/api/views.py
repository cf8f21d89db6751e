"""Storage of the views of stores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias

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
