"""The key of a result: which items of the select list are its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from millstream.core.frozen import Frozen
from millstream.errors import SqlStatementError
from millstream.sql.planner.names import Item
from millstream.sql.planner.steps import Rekey, Step
from millstream.sql.syntax import tree
from millstream.sql.syntax.text import key as expression_key, text_of as expression_text

_START = tree.Position(1, 1)


class ResultKey(Frozen):
    """The key columns of a result, by the expressions of the select list that stand for them.

    Attributes:
        columns: For each key column the expressions, of which the first that is selected is the key.
        role: What the expressions are: "key column", "join expression", and so on.
        synthetic: The key holds no column of a source.
        primary: The key is that of the left table of a foreign-key join.
    """

    columns: tuple[tuple[tree.Expression, ...], ...]
    role: str
    synthetic: bool = False
    primary: bool = False


def columns_named(names: Iterable[str]) -> tuple[tree.Expression, ...]:
    """Returns references to columns by their names in rows."""
    return tuple(tree.ColumnRef(at=_START, name=name) for name in names)


def chosen_keys(
    key: ResultKey,
    items: Sequence[Item],
    query: tree.Query,
    sink: str,
    shown: Callable[[tree.Expression], tree.Expression],
) -> list[Item]:
    """Returns the item of each key column.

    Args:
        key: The key.
        items: The select list.
        query: The query, for the place of an error.
        sink: What the query builds.
        shown: Gives an expression the names that a person wrote.

    Raises:
        SqlStatementError: A key column is not selected, or twice.
    """
    chosen: list[Item] = []
    for alternatives in key.columns:
        candidates: list[Item] = []
        for alternative in alternatives:
            wanted = expression_key(alternative)
            candidates = [item for item in items if expression_key(item.expression) == wanted]
            if candidates:
                break
        if not candidates:
            raise _missing(key, items, query, sink, shown)
        if len(candidates) > 1:
            text = expression_text(shown(candidates[0].expression))
            raise SqlStatementError(
                f"The projection contains a key column (`{text}`) more than once, aliased as: "
                f"{' and '.join(item.name for item in candidates)}.",
                hint="use AS_VALUE(…) to copy the key into the value",
                at=candidates[1].at,
            )
        chosen.append(candidates[0])
    return chosen


def _missing(
    key: ResultKey,
    items: Sequence[Item],
    query: tree.Query,
    sink: str,
    shown: Callable[[tree.Expression], tree.Expression],
) -> SqlStatementError:
    if key.primary:
        return _missing_primary(key, items, query, shown)
    columns = [[expression_text(shown(expression)) for expression in alternatives] for alternatives in key.columns]
    plural = len(columns) > 1 or any(len(alternatives) > 1 for alternatives in columns)
    required = " and ".join(" or ".join(alternatives) for alternatives in columns)
    example = ", ".join(alternatives[0] for alternatives in columns)
    hint = "PARTITION BY makes another key" if key.role == "key column" else None
    if key.synthetic:
        hint = (
            f"{example} was added as a synthetic key column because the join criteria did not match any source column."
        )
    return SqlStatementError(
        f"The query used to build {sink} must include the {key.role}{'s' if plural else ''} {required} in its "
        f"projection (eg, SELECT {example}...).",
        hint=hint,
        at=query.at,
    )


def _missing_primary(
    key: ResultKey, items: Sequence[Item], query: tree.Query, shown: Callable[[tree.Expression], tree.Expression]
) -> SqlStatementError:
    """Returns the error for a foreign-key join whose select list lacks columns of the left table's key."""
    selected = {expression_key(item.expression) for item in items}
    missing = [
        column.name
        for (expression,) in key.columns
        if expression_key(expression) not in selected and isinstance(column := shown(expression), tree.ColumnRef)
    ]
    plural = "s" if len(missing) > 1 else ""
    return SqlStatementError(
        f"Primary key column{plural} missing in projection. For foreign-key table-table joins, the projection must "
        f"include all primary key columns from the left input table (`{query.relation.alias}`). "
        f"Missing column{plural}: {', '.join(f'`{name}`' for name in missing)}.",
        at=query.at,
    )


def select_keys(step: Step, items: Iterable[Item]) -> Step:
    """Returns the step whose key columns are those that the select list has, in its order."""
    known = {column.name: column for column in step.key}
    names = dict.fromkeys(item.expression.name for item in items if isinstance(item.expression, tree.ColumnRef))
    key = tuple(known[name] for name in names if name in known)
    if key == step.key:
        return step
    expressions = columns_named(column.name for column in key)
    return Rekey(kind="STREAM", key=key, columns=step.columns, parent=step, expressions=expressions)
