"""Waits until all transactions of a moment have ended, so that later ones cannot commit anything older.

Numbers that transactions take, from a sequence for example, become visible in the order of commits. Once all
transactions that ran when a number was seen have ended, nothing below that number can appear any more.
"""

from __future__ import annotations

from typing import Any


def next_transaction(cursor: Any) -> int:
    """Returns a transaction id above those of all transactions that run or have ended.

    The connection must not have written anything in its transaction.
    """
    # The end of a snapshot is above the transactions that have ended: those that run may be beyond it. `age` counts
    # from the next id, without taking one. It knows the low 32 bits only, and 3 is the first id of a transaction.
    cursor.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, age('3'::xid)")
    ended, age = map(int, cursor.fetchone())
    return ended + (age + 3 - ended) % 2**32


def have_ended(cursor: Any, transaction: int) -> bool:
    """Whether all transactions with lower ids have ended."""
    cursor.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
    return int(cursor.fetchone()[0]) >= transaction
