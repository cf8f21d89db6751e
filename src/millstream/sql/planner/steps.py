"""The steps of a planned query, from its sources to its result.

Expressions in steps are syntax trees in which every column has its name in rows. A step knows the columns of its rows
by name and type, and the columns of its key.
"""

from __future__ import annotations

from typing import Literal

from millstream.core.frozen import Frozen
from millstream.sql.catalog.sources import Column, DataSource, WindowInfo
from millstream.sql.syntax import tree
from millstream.sql.types import SqlType

Kind = Literal["STREAM", "TABLE"]


class Step(Frozen, kw_only=True):
    """A step.

    Attributes:
        kind: Whether the result is a stream or a table.
        key: The columns of the record key.
        columns: The columns of rows, with their types.
        window: The window of the key.
    """

    kind: Kind
    key: tuple[Column, ...]
    columns: tuple[tuple[str, SqlType], ...]
    window: WindowInfo | None = None

    @property
    def types(self) -> dict[str, SqlType]:
        """The types of columns, by name."""
        return dict(self.columns)


class Read(Step, kw_only=True):
    """Reads a source.

    Attributes:
        source: The source.
        renamed: The columns of rows: (role, name in the source, name in rows).
    """

    source: DataSource
    renamed: tuple[tuple[str, str, str], ...]


class Filter(Step, kw_only=True):
    """Keeps the rows for which a condition is true."""

    parent: Step
    condition: tree.Expression


class Rekey(Step, kw_only=True):
    """PARTITION BY, or the key of a join: expressions become the key. Without expressions the key is null."""

    parent: Step
    expressions: tuple[tree.Expression, ...]


class JoinStep(Step, kw_only=True):
    """A join of two steps by their keys, or of two tables by an expression over the left row.

    Attributes:
        left: The left side.
        right: The right side.
        how: INNER, LEFT, RIGHT or FULL.
        within: The window of a join of streams.
        foreign_key: The expression over the left row that is the key of the right table.
        key_column: The column that gets the key of the join; None unless the key is synthetic.
    """

    left: Step
    right: Step
    how: str
    within: tree.Within | None = None
    foreign_key: tree.Expression | None = None
    key_column: str | None = None


class AggregateItem(Frozen):
    """A call of an aggregate function, and the column that holds its result."""

    column: str
    name: str
    arguments: tuple[tree.Expression, ...]


class Aggregate(Step, kw_only=True):
    """GROUP BY: groups are the key of the result; each aggregate is a column.

    Attributes:
        parent: The rows to group.
        groups: The grouping expressions.
        by_key: The groups are the key of the parent, so that nothing moves.
        aggregates: The calls of aggregate functions.
        by_window: The windows.
        final: Emit each window once, when it closes.
        required: The columns that the query needs besides those of aggregate functions; a replacement needs the same.
    """

    parent: Step
    groups: tuple[tree.Expression, ...]
    by_key: bool
    aggregates: tuple[AggregateItem, ...]
    by_window: tree.Window | None = None
    final: bool = False
    required: tuple[str, ...] = ()


class Explode(Step, kw_only=True):
    """Table functions: a row for each of their results, in step."""

    parent: Step
    items: tuple[AggregateItem, ...]


class Project(Step, kw_only=True):
    """The select list: the columns of the result's value, by name."""

    parent: Step
    items: tuple[tuple[str, tree.Expression], ...]


class PlannedQuery(Frozen, kw_only=True):
    """A planned query: its last step, and the columns of its result in the order of the select list.

    Attributes:
        root: The last step. Its rows have the value columns.
        key: The key columns of the result, under their names in the result.
        value: The value columns of the result.
        order: The names of all columns of the result, in the order of the select list, for transient queries.
        sources: The sources that the query reads.
        windowed: The window of the result's keys.
    """

    root: Step
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    order: tuple[str, ...]
    sources: tuple[DataSource, ...]

    @property
    def window(self) -> WindowInfo | None:
        """The window of the result's keys."""
        return self.root.window
