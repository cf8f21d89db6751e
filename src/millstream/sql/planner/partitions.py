"""Checks that the sides of a join have the same number of partitions, where the numbers are known."""

from __future__ import annotations

from collections.abc import Callable

from millstream.errors import SqlStatementError
from millstream.sql.planner.steps import Explode, Filter, JoinStep, Project, Read, Rekey, Step
from millstream.sql.syntax import tree

PartitionCount = Callable[[str], int | None]
"""Returns the number of partitions of a topic; None: it is not known."""


def unknown_count(_topic: str) -> None:
    """Knows no number of partitions."""
    return


def check_partitions(step: Step, count: PartitionCount, at: tree.Position) -> None:
    """Refuses joins of topics with different numbers of partitions.

    Raises:
        SqlStatementError: The numbers of a join differ, and no side is repartitioned.
    """
    _partitions(step, count, at)


def _partitions(step: Step, count: PartitionCount, at: tree.Position) -> int | None:
    match step:
        case Read():
            return count(step.source.topic) or step.source.partitions
        case Rekey():
            _partitions(step.parent, count, at)
            return None
        case Filter() | Project() | Explode():
            return _partitions(step.parent, count, at)
        case JoinStep():
            left, right = _partitions(step.left, count, at), _partitions(step.right, count, at)
            if step.foreign_key is not None:
                return left
            known = left is not None and right is not None
            if known and left != right and _key_format(step.left) == _key_format(step.right):
                one, other = _name(step.left), _name(step.right)
                raise SqlStatementError(
                    f"Can't join {one} with {other} since the number of partitions don't match. {one} partitions = "
                    f"{left}; {other} partitions = {right}. Please repartition either one so that the number of "
                    "partitions match.",
                    at=at,
                )
            return left if right is None else right
    return None


def _key_format(step: Step) -> str | None:
    """The format of the keys of a side; sides of different formats are repartitioned."""
    return step.source.key_format.name if isinstance(step, Read) else None


def _name(step: Step) -> str:
    while not isinstance(step, Read):
        step = step.left if isinstance(step, JoinStep) else step.parent  # type: ignore[attr-defined]
    return f"`{step.source.name}`"
