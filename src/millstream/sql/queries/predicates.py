"""Brings a condition into the form that lookups are taken from: alternatives, each of conditions that all hold."""

from __future__ import annotations

from millstream.sql.syntax import tree

_MOST = 1000
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPPOSITE = {"AND": "OR", "OR": "AND"}

Alternative = tuple[tree.Expression, ...]


def alternatives(condition: tree.Expression) -> list[Alternative] | None:
    """Returns the alternatives of a condition; None if there are too many to be worth it.

    BETWEEN and IN become comparisons; NOT is moved inwards over AND and OR.
    """
    return _alternatives(condition, negated=False)


def _alternatives(part: tree.Expression, *, negated: bool) -> list[Alternative] | None:
    match part:
        case tree.Not():
            return _alternatives(part.operand, negated=not negated)
        case tree.Logical():
            operator = _OPPOSITE[part.operator] if negated else part.operator
            left = _alternatives(part.left, negated=negated)
            right = _alternatives(part.right, negated=negated)
            if left is None or right is None:
                return None
            size = len(left) + len(right) if operator == "OR" else len(left) * len(right)
            if size > _MOST:
                return None
            return [*left, *right] if operator == "OR" else [(*a, *b) for a in left for b in right]
        case tree.Between() if not negated and not part.negated:
            low = tree.Comparison(at=part.at, operator=">=", left=part.operand, right=part.low)
            high = tree.Comparison(at=part.at, operator="<=", left=part.operand, right=part.high)
            return [(low, high)]
        case tree.InList() if not negated and not part.negated:
            if len(part.items) > _MOST:
                return None
            return [(tree.Comparison(at=part.at, operator="=", left=part.operand, right=item),) for item in part.items]
    return [(tree.Not(at=part.at, operand=part) if negated else part,)]


def column_and_other(comparison: tree.Comparison) -> tuple[tree.ColumnRef | None, str, tree.Expression]:
    """Returns the column of a comparison, the operator as if the column were on the left, and the other side."""
    if isinstance(comparison.right, tree.ColumnRef):
        operator = _SWAPPED.get(comparison.operator, comparison.operator)
        return comparison.right, operator, comparison.left
    column = comparison.left if isinstance(comparison.left, tree.ColumnRef) else None
    return column, comparison.operator, comparison.right
