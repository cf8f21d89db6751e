"""The columns that an expression can name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from millstream.core.frozen import Frozen
from millstream.errors import SqlStatementError, suggestion
from millstream.sql.binder.rewrite import rewrite
from millstream.sql.catalog.sources import PSEUDO_COLUMNS, WINDOW_BOUNDS, DataSource
from millstream.sql.syntax import tree
from millstream.sql.types import SqlType


class ScopeColumn(Frozen):
    """A column in scope.

    Attributes:
        source: The alias of its source.
        name: Its name in the source.
        internal: Its name in rows: with the alias in front if the query joins several sources.
        type: Its type.
        role: KEY, VALUE, HEADER, PSEUDO or WINDOW.
    """

    source: str
    name: str
    internal: str
    type: SqlType
    role: str


class Scope:
    """The columns of one source, or of several sources that are joined."""

    def __init__(self, columns: Iterable[ScopeColumn], sources: Iterable[str], *, joined: bool = False) -> None:
        self.columns = tuple(columns)
        self.sources = tuple(sources)
        self.joined = joined
        self._by_name: dict[str, list[ScopeColumn]] = {}
        for column in self.columns:
            self._by_name.setdefault(column.name, []).append(column)

    def resolve(self, ref: tree.ColumnRef, clause: str) -> ScopeColumn:
        """Returns the column that a reference names.

        Raises:
            SqlStatementError: There is no such column, or several sources have it.
        """
        if ref.source is not None and ref.source not in self.sources:
            raise SqlStatementError(
                f"'{ref.source}' is not a valid stream/table name or alias."
                if clause == "JOIN ON"
                else f"{clause} column '{ref.source}.{ref.name}' cannot be resolved: there is no source {ref.source!r}",
                hint=suggestion(ref.source, self.sources),
                at=ref.at,
            )
        candidates = self._by_name.get(ref.name, [])
        if ref.source is not None:
            candidates = [column for column in candidates if column.source == ref.source]
        elif self.joined and any(column.role in ("PSEUDO", "WINDOW") for column in candidates):
            candidates = []
        elif self.joined and len(candidates) > 1:
            options = ", ".join(f"'{column.source}.{column.name}'" for column in candidates)
            raise SqlStatementError(
                f"Column '{ref.name}' is ambiguous. Could be {options}.",
                hint="name the source of the column",
                at=ref.at,
            )
        if not candidates:
            shown = ref.name if ref.source is None else f"{ref.source}.{ref.name}"
            owners = [column.source for column in self._by_name.get(ref.name, [])]
            raise SqlStatementError(
                f"{clause} column '{shown}' cannot be resolved.",
                hint=f"write {owners[0]}.{ref.name}" if owners else suggestion(ref.name, self._by_name),
                at=ref.at,
            )
        return candidates[0]

    def has(self, name: str) -> bool:
        """Whether a column of this name is in scope."""
        return name in self._by_name

    def written(self, expression: tree.Expression) -> tree.Expression:
        """Returns an expression over rows with the names that a person writes, for messages."""
        columns = {column.internal: column for column in self.columns if column.role != "SYNTHETIC"}

        def name(part: tree.Expression) -> tree.Expression | None:
            column = columns.get(part.name) if isinstance(part, tree.ColumnRef) else None
            return None if column is None else tree.ColumnRef(at=part.at, name=column.name, source=column.source)

        return rewrite(expression, name) if self.joined else expression

    @property
    def types(self) -> Mapping[str, SqlType]:
        """The types of all columns, by their names in rows."""
        return {column.internal: column.type for column in self.columns}


def source_columns(source: DataSource, alias: str, *, joined: bool, pseudo: bool = True) -> list[ScopeColumn]:
    """Returns the columns of a source: key, window bounds, value, headers and pseudo columns."""

    def column(name: str, type_: SqlType, role: str) -> ScopeColumn:
        return ScopeColumn(alias, name, f"{alias}_{name}" if joined else name, type_, role)

    columns = [column(item.name, item.type, "KEY") for item in source.key]
    if source.window is not None:
        columns += [column(name, type_, "WINDOW") for name, type_ in WINDOW_BOUNDS.items()]
    columns += [column(item.name, item.type, "VALUE") for item in source.value]
    columns += [column(item.name, item.type, "HEADER") for item in source.headers]
    if pseudo:
        columns += [column(name, type_, "PSEUDO") for name, type_ in PSEUDO_COLUMNS.items()]
    return columns
