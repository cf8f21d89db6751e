"""Compares times with text: in WHERE, ROWTIME and window bounds may be compared with the text of a timestamp."""

from __future__ import annotations

from millstream.errors import SqlStatementError
from millstream.sql.binder.rewrite import rewrite
from millstream.sql.catalog.sources import ROWTIME, WINDOW_BOUNDS
from millstream.sql.functions.casts import parse_timestamp
from millstream.sql.syntax import tree

_TIMES = frozenset({ROWTIME, *WINDOW_BOUNDS})


def rewrite_timestamps(condition: tree.Expression) -> tree.Expression:
    """Returns the condition with the text of timestamps as milliseconds."""
    return rewrite(condition, _replace)


def _replace(part: tree.Expression) -> tree.Expression | None:
    if isinstance(part, tree.Comparison) and (_is_time(part.left) or _is_time(part.right)):
        return tree.Comparison(at=part.at, operator=part.operator, left=_millis(part.left), right=_millis(part.right))
    if isinstance(part, tree.Between) and _is_time(part.operand):
        return tree.Between(
            at=part.at, operand=part.operand, low=_millis(part.low), high=_millis(part.high), negated=part.negated
        )
    return None


def _is_time(expression: tree.Expression) -> bool:
    return isinstance(expression, tree.ColumnRef) and expression.name in _TIMES


def _millis(expression: tree.Expression) -> tree.Expression:
    if not isinstance(expression, tree.Literal) or not isinstance(expression.value, str):
        return expression
    try:
        millis = parse_timestamp(expression.value)
    except Exception as error:
        raise SqlStatementError(
            f"Failed to parse timestamp '{expression.value}': {error}",
            hint="write yyyy-MM-ddTHH:mm:ss.SSS, or a beginning of it",
            at=expression.at,
        ) from error
    return tree.Literal(at=expression.at, value=millis)
