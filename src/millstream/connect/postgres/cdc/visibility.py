"""Which transactions a snapshot of the database sees."""

from __future__ import annotations

from typing import NamedTuple

_WRAP = 2**32


class PgSnapshot(NamedTuple):
    """A snapshot, as ``pg_current_snapshot()`` shows it.

    Attributes:
        xmin: All transactions below it had ended.
        xmax: No transaction from here on had ended.
        running: The transactions between them that had not ended.
    """

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> PgSnapshot:
        """Returns a snapshot from its text.

        >>> PgSnapshot.parse("10:20:10,14")
        PgSnapshot(xmin=10, xmax=20, running=frozenset({10, 14}))
        """
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(xid) for xid in running.split(",") if xid))

    def sees(self, xid: int) -> bool:
        """Returns whether the snapshot sees a transaction that has committed.

        The ids of the stream have 32 bits, and those of snapshots have 64. All ids in use are within 2**31 of each
        other, so the one nearest to the snapshot is meant.

        >>> snapshot = PgSnapshot.parse("10:20:10,14")
        >>> [xid for xid in range(8, 22) if not snapshot.sees(xid)]
        [10, 14, 20, 21]
        >>> PgSnapshot.parse("4294967301:4294967301:").sees(2**32 - 1)
        True
        """
        return self.ended(self.full(xid))

    def ended(self, full: int) -> bool:
        """Returns whether a transaction, given by its id with the epoch, had ended."""
        return full < self.xmin or (full < self.xmax and full not in self.running)

    def full(self, xid: int) -> int:
        """Returns an id of 32 bits with its epoch."""
        distance = (xid - self.xmax) % _WRAP
        return self.xmax + (distance if distance < _WRAP // 2 else distance - _WRAP)
