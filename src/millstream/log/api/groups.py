"""Consumer groups of a log."""

from __future__ import annotations

from typing import Protocol

from millstream.log.api.topics import Offsets


class Groups(Protocol):
    """Commits, returns and deletes the offsets of consumer groups."""

    def commit_offsets(self, group: str, offsets: Offsets) -> None:
        """Commits offsets of a consumer group."""
        ...

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Returns the committed offsets of a consumer group: none if there is no such group."""
        ...

    def groups(self) -> list[str]:
        """Returns the names of all consumer groups."""
        ...

    def delete_group(self, group: str) -> None:
        """Deletes a consumer group and its offsets.

        Raises:
            UnknownGroupError: There is none of that name.
        """
        ...
