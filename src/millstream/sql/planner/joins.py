"""Plans the joins of a query, from left to right."""

from __future__ import annotations

from millstream.core.frozen import Frozen
from millstream.errors import SqlStatementError
from millstream.sql.binder.rewrite import column_refs, resolve_columns
from millstream.sql.binder.scope import Scope, ScopeColumn, source_columns
from millstream.sql.catalog.sources import Column, DataSource, WindowInfo
from millstream.sql.planner.environment import Environment
from millstream.sql.planner.steps import JoinStep, Read, Rekey, Step
from millstream.sql.syntax import tree
from millstream.sql.syntax.text import key as expression_key, text_of as expression_text
from millstream.sql.types import SqlType


class JoinKey(Frozen):
    """The key of the joined rows.

    Attributes:
        columns: The equivalent columns that may be the key of the result, by their names in rows; in the order of their
            sources.
        primary: The key columns of the left table, if the join is by foreign key; all of them are the key.
        synthetic: The name of the column that holds the key where no column of a source does.
    """

    columns: tuple[str, ...] = ()
    primary: tuple[str, ...] = ()
    synthetic: str | None = None


class JoinPlanner:
    """Plans the joins of one query."""

    def __init__(self, query: tree.Query, environment: Environment) -> None:
        self._query = query
        self._environment = environment
        relations = [query.relation, *(join.relation for join in query.joins)]
        self.sources = {item.alias: environment.source(item.source, item.at) for item in relations}
        names = [item.source for item in relations]
        for item in relations:
            if names.count(item.source) > 1:
                message = (
                    f"N-way joins do not support multiple occurrences of the same source. Source: '{item.source}'."
                    if len(relations) > 2
                    else f"Can not join '{item.source}' to '{item.source}': self joins are not yet supported."
                )
                raise SqlStatementError(message, at=item.at)
        if len(self.sources) < len(relations):
            raise SqlStatementError("two sources of the join have the same alias", at=query.at)
        columns = [
            column for alias, source in self.sources.items() for column in source_columns(source, alias, joined=True)
        ]
        taken = {column.name for column in columns}
        self._synthetic = next(
            name for name in ("ROWKEY", *(f"ROWKEY_{i}" for i in range(1, 100))) if name not in taken
        )
        self._columns = columns
        self.scope = Scope(columns, self.sources, joined=True)

    def plan(self, used: frozenset[str] | None = None) -> tuple[Step, JoinKey]:
        """Returns the joined step and its key; rows have the used columns, or all of them."""
        first = self._query.relation
        step: Step = self._read(first.alias, used)
        key = JoinKey(columns=tuple(f"{first.alias}_{column.name}" for column in self.sources[first.alias].key))
        joined = [first.alias]
        for join in self._query.joins:
            step, key = self._join(step, key, joined, join, used)
            joined.append(join.relation.alias)
        if key.synthetic is None:
            self.scope = Scope([c for c in self._columns if c.role != "SYNTHETIC"], self.sources, joined=True)
        return step, key

    def _read(self, alias: str, used: frozenset[str] | None) -> Read:
        source = self.sources[alias]
        columns = [
            column for column in self._columns if column.source == alias and (used is None or column.internal in used)
        ]
        return read_step(source, columns)

    def _join(
        self, left: Step, key: JoinKey, joined: list[str], join: tree.Join, used: frozenset[str] | None
    ) -> tuple[Step, JoinKey]:
        alias = join.relation.alias
        right_source = self.sources[alias]
        left_expression, right_expression = self._sides(join, joined, alias)
        left_type = self._type(left_expression)
        right_type = self._type(right_expression)
        right: Step = self._read(alias, used)
        self._check_kinds(left, right_source, join)
        self._check_windows(left, right, join)
        right_keys = tuple(f"{alias}_{column.name}" for column in right_source.key)
        right_is_key = _is_column(right_expression, right_keys) and len(right_keys) == 1
        left_is_key = _is_column(left_expression, key.columns or key.primary) and len(left.key) <= 1
        if left_type != right_type:
            one, other = (expression_text(self.scope.written(side)) for side in (left_expression, right_expression))
            raise SqlStatementError(
                f"Invalid join condition: types don't match. Got {one}{{{left_type}}} = {other}{{{right_type}}}.",
                hint="CAST one side",
                at=join.condition.at,
            )
        if right_source.is_table and not right_is_key:
            raise SqlStatementError(
                f"Invalid join condition: {self._required_key(left)}. Got {self._written(join.condition)}.",
                at=join.condition.at,
            )
        if left.kind == "TABLE" and not left_is_key:
            return self._foreign_key(left, right, join, left_expression, key)
        if not left_is_key:
            left = self._rekeyed(left, left_expression, left_type)
        if not right_is_key:
            right = self._rekeyed(right, right_expression, right_type)
        viable = [
            expression.name
            for expression in (left_expression, right_expression)
            if isinstance(expression, tree.ColumnRef)
        ]
        if left_is_key and key.columns:
            viable = [*key.columns, *(name for name in viable if name not in key.columns)]
        synthetic = self._synthetic if join.kind == "FULL" or not viable else None
        columns = {**left.types, **right.types}
        if synthetic is not None:
            columns[synthetic] = left_type
            self._add_synthetic(synthetic, left_type)
        name = synthetic or viable[0]
        step = JoinStep(
            kind=left.kind,
            key=(Column(name, left_type),),
            columns=tuple(columns.items()),
            window=left.window,
            left=left,
            right=right,
            how=join.kind,
            within=join.within,
            key_column=synthetic,
        )
        return step, JoinKey(synthetic=synthetic) if synthetic else JoinKey(columns=tuple(viable))

    def _written(self, condition: tree.Expression) -> str:
        """Returns the text of a condition with the source of each column."""
        resolved = resolve_columns(condition, lambda ref: self.scope.resolve(ref, "JOIN ON").internal)
        return expression_text(self.scope.written(resolved)).removeprefix("(").removesuffix(")")

    def _required_key(self, left: Step) -> str:
        if left.kind == "TABLE":
            return "table-table joins require to join on the primary key of the right input table"
        return "stream-table joins require to join on the table's primary key"

    def _foreign_key(
        self, left: Step, right: Step, join: tree.Join, expression: tree.Expression, key: JoinKey
    ) -> tuple[Step, JoinKey]:
        if join.kind not in ("INNER", "LEFT"):
            raise SqlStatementError(f"{join.kind} OUTER JOIN on a foreign key is not supported", at=join.at)
        if len(self._query.joins) > 1 and not isinstance(left, Read):
            raise SqlStatementError(
                "Invalid join condition: foreign-key table-table joins are not supported as part of n-way joins.",
                at=join.at,
            )
        if left.window is not None or right.window is not None:
            raise SqlStatementError("Foreign-key table-table joins are not supported on windowed tables.", at=join.at)
        columns = {**left.types, **right.types}
        step = JoinStep(
            kind="TABLE",
            key=left.key,
            columns=tuple(columns.items()),
            left=left,
            right=right,
            how=join.kind,
            foreign_key=expression,
        )
        return step, JoinKey(primary=key.columns or key.primary)

    def _rekeyed(self, step: Step, expression: tree.Expression, type_: SqlType) -> Rekey:
        if step.window is not None:
            raise SqlStatementError("Implicit repartitioning of windowed sources is not supported.", at=expression.at)
        return Rekey(
            kind=step.kind,
            key=(Column(self._synthetic, type_),),
            columns=step.columns,
            parent=step,
            expressions=(expression,),
        )

    def _add_synthetic(self, name: str, type_: SqlType) -> None:
        self._columns = [column for column in self._columns if column.role != "SYNTHETIC"]
        self._columns.append(ScopeColumn("", name, name, type_, "SYNTHETIC"))
        self.scope = Scope(self._columns, self.sources, joined=True)

    def condition_columns(self) -> set[str]:
        """The names, in rows, of the columns that the conditions use."""
        used: set[str] = set()
        joined = [self._query.relation.alias]
        for join in self._query.joins:
            for side in self._sides(join, joined, join.relation.alias):
                used |= {ref.name for ref in column_refs(side)}
            joined.append(join.relation.alias)
        return used

    def _type(self, expression: tree.Expression) -> SqlType:
        type_ = self._environment.binder(self.scope.types).bind(expression).type
        if type_ is None:
            raise SqlStatementError("Invalid join condition: NULL has no type", at=expression.at)
        return type_

    def _sides(self, join: tree.Join, joined: list[str], alias: str) -> tuple[tree.Expression, tree.Expression]:
        """Returns the side of the condition over the joined sources, and the side over the new source."""
        condition = join.condition
        if isinstance(condition, tree.Logical):
            raise SqlStatementError(
                f"Invalid join condition: joins on multiple conditions are not yet supported. Got "
                f"{expression_text(condition)}.",
                at=condition.at,
            )
        if isinstance(condition, tree.Comparison) and condition.operator != "=":
            raise SqlStatementError("Only equality join criteria is supported.", at=condition.at)
        if not isinstance(condition, tree.Comparison):
            raise SqlStatementError(
                f"Unsupported join expression: {expression_text(condition)}",
                hint="a join has one equality, such as ON a.id = b.id",
                at=condition.at,
            )
        sides: dict[str, tree.Expression] = {}
        seen: set[str] = set()
        known = (*joined, alias)
        scope = Scope([column for column in self._columns if column.source in known], known, joined=True)
        for side in (condition.left, condition.right):
            refs = {scope.resolve(ref, "JOIN ON").source for ref in column_refs(side)}
            if len(refs) != 1:
                raise SqlStatementError(
                    f"Invalid comparison expression '{expression_text(side)}' in join "
                    f"'{expression_text(condition)}'. Each side of the join comparision must contain references from "
                    "exactly one source.",
                    at=side.at,
                )
            source = next(iter(refs))
            resolved = resolve_columns(side, lambda ref: scope.resolve(ref, "JOIN ON").internal)
            if source in seen:
                raise SqlStatementError(
                    "Each side of the join must reference exactly one source and not the same source. Left side "
                    f"references `{source}` and right references `{source}`",
                    at=condition.at,
                )
            seen.add(source)
            sides["right" if source == alias else "left" if source in joined else source] = resolved
        if set(sides) != {"left", "right"}:
            raise SqlStatementError(
                f"Invalid join condition: the condition must name {alias} and a source that is joined before it: "
                f"{expression_text(condition)}.",
                at=condition.at,
            )
        return sides["left"], sides["right"]

    def _check_kinds(self, left: Step, right: DataSource, join: tree.Join) -> None:
        at = join.at
        if left.kind == "STREAM" and not right.is_table and join.within is None:
            raise SqlStatementError(
                "Stream-Stream joins must have a WITHIN clause specified. None was provided.", at=at
            )
        if left.kind == "TABLE" and not right.is_table:
            raise SqlStatementError(
                "Invalid join order: table-stream joins are not supported; only stream-table joins. "
                f"Got {self._query.relation.source} [{join.kind}] JOIN {right.name}.",
                at=at,
            )
        if right.is_table and join.within is not None:
            raise SqlStatementError(
                "A window definition was provided for a "
                f"{'Stream-Table' if left.kind == 'STREAM' else 'Table-Table'} join. These joins are not windowed.",
                at=at,
            )
        if left.kind == "STREAM" and right.is_table and join.kind not in ("INNER", "LEFT"):
            raise SqlStatementError(f"{join.kind} OUTER joins between streams and tables are not supported.", at=at)
        if right.is_table and len(right.key) > 1:
            raise SqlStatementError(
                f"Invalid join condition: joins on a table with multiple primary key columns are not supported: "
                f"{right.name}.",
                at=at,
            )

    def _check_windows(self, left: Step, right: Step, join: tree.Join) -> None:
        def name(window: WindowInfo | None) -> str:
            return "not windowed" if window is None else window.kind

        a, b = left.window, right.window
        if (a is None) != (b is None):
            raise SqlStatementError(
                "Can not join windowed source to non-windowed source. "
                f"The left side is {name(a)}, the right side is {name(b)}.",
                at=join.at,
            )
        if a is not None and b is not None and (a.kind == "SESSION") != (b.kind == "SESSION"):
            raise SqlStatementError(
                f"Incompatible windowed sources.\nLeft source: {a.kind}\nRight source: {b.kind}\n"
                "Session windowed sources can only be joined to other session windowed sources, and may still not "
                "result in expected behaviour as session bounds must be an exact match for the join to work\n"
                "Hopping and tumbling windowed sources can only be joined to other hopping and tumbling windowed "
                "sources",
                at=join.at,
            )


def read_step(source: DataSource, columns: list[ScopeColumn]) -> Read:
    """Returns the step that reads columns of a source."""
    prefix = columns[0].internal[: -len(columns[0].name)] if columns else ""
    return Read(
        kind="TABLE" if source.is_table else "STREAM",
        key=tuple(Column(f"{prefix}{column.name}", column.type) for column in source.key),
        columns=tuple((column.internal, column.type) for column in columns),
        window=source.window,
        source=source,
        renamed=tuple((column.role, column.name, column.internal) for column in columns),
    )


def _is_column(expression: tree.Expression, names: tuple[str, ...]) -> bool:
    return any(expression_key(expression) == expression_key(tree.ColumnRef(at=expression.at, name=n)) for n in names)
