"""Plans a query: resolves its select list, its key and its clauses, and chains the steps."""

from __future__ import annotations

from collections.abc import Iterable

from millstream.errors import SqlStatementError
from millstream.sql.binder.rewrite import column_refs, parts, resolve_columns
from millstream.sql.binder.scope import Scope, source_columns
from millstream.sql.catalog.sources import SYSTEM_COLUMNS, WINDOW_BOUNDS, Column
from millstream.sql.planner.aggregation import check_window, plan_aggregation
from millstream.sql.planner.calls import type_of
from millstream.sql.planner.environment import Environment
from millstream.sql.planner.joins import JoinKey, JoinPlanner, read_step
from millstream.sql.planner.keys import ResultKey, chosen_keys, columns_named, select_keys
from millstream.sql.planner.names import Item, NameGenerator
from millstream.sql.planner.steps import Filter, PlannedQuery, Project, Read, Rekey, Step
from millstream.sql.planner.table_functions import plan_table_functions
from millstream.sql.planner.timestamps import rewrite_timestamps
from millstream.sql.syntax import tree
from millstream.sql.syntax.text import key as expression_key, text_of as expression_text
from millstream.sql.types import SqlType, StructType

_NEW_PLANNER = "ksql.new.query.planner.enabled"


def plan_query(
    query: tree.Query, environment: Environment, *, persistent: bool, sink: str | None = None
) -> PlannedQuery:
    """Plans a query. `sink` is the name of the source that it builds, for errors.

    Raises:
        SqlStatementError: The query is invalid.
    """
    return _QueryPlanner(query, environment, persistent, "the result" if sink is None else f"`{sink}`").plan()


class _QueryPlanner:
    def __init__(self, query: tree.Query, environment: Environment, persistent: bool, sink: str) -> None:
        self.query = query
        self.sink = sink
        self.environment = environment
        self.persistent = persistent
        self.joins = JoinPlanner(query, environment)
        self.sources = self.joins.sources
        self.is_join = bool(query.joins)
        if self.is_join:
            self.joins.plan()  # the key of the join adds a column to the scope
            self.scope = self.joins.scope
        else:
            alias = query.relation.alias
            self.scope = Scope(source_columns(self.sources[alias], alias, joined=False), (alias,))
        self.groups: dict[str, tree.Expression] = {}
        self.names = NameGenerator(column.internal for column in self.scope.columns)

    def plan(self) -> PlannedQuery:
        self.check_clauses()
        where = None if self.query.where is None else self.resolve(self.magic(self.query.where), "WHERE")
        groups = self.distinct([self.resolve(item, "GROUP BY") for item in self.query.group_by], "GROUP BY")
        partitions = self.distinct(
            [self.resolve(item, "PARTITION BY") for item in self.query.partition_by], "PARTITION BY"
        )
        having = None if self.query.having is None else self.resolve(self.query.having, "HAVING")
        items = self.select_items(partitions)
        step, key = self.read([where, having, *groups, *partitions, *(item.expression for item in items)])
        if where is not None:
            self.environment.binder(step.types).bind_condition(where, "WHERE")
            step = filter_step(step, where)
        if self.query.partition_by:
            step = self.rekey(step, partitions, items)
        aggregates = any(self.is_aggregate(item.expression) for item in items) or (
            having is not None and self.is_aggregate(having)
        )
        if groups or aggregates:
            self.refuse_table_functions(items)
            return self.grouped(step, groups, where, having, items)
        if having is not None:
            raise SqlStatementError("HAVING needs GROUP BY", at=self.query.at)
        if self.query.window is not None:
            raise SqlStatementError("WINDOW clause requires a GROUP BY clause.", at=self.query.window.at)
        expressions = [(item.name, item.expression) for item in items]
        exploded, expressions = plan_table_functions(step, expressions, self.environment)
        if exploded is not None:
            if step.kind == "TABLE":
                raise SqlStatementError("Table source is not supported with table functions", at=self.query.at)
            step = exploded
        items = [Item(name, expression, item.at) for (name, expression), item in zip(expressions, items, strict=True)]
        if self.selects_keys(step, where):
            step = select_keys(step, items)
            key = JoinKey(columns=tuple(column.name for column in step.key))
        return self.result(step, self.key_columns(step, key, partitions), items)

    # ----- clauses ---------------------------------------------------------------------------------------------------

    def check_clauses(self) -> None:
        query = self.query
        is_table = (
            any(source.is_table for source in self.sources.values()) and self.sources[query.relation.alias].is_table
        )
        if query.partition_by and query.group_by:
            raise SqlStatementError("Only one of PARTITION BY or GROUP BY is allowed.", at=query.at)
        if query.partition_by and is_table:
            raise SqlStatementError("Only STREAMs can be partitioned: PARTITION BY is not for tables.", at=query.at)
        if query.limit is not None and self.persistent:
            raise SqlStatementError("CREATE ... AS with LIMIT is not supported", at=query.at)
        if query.emit == "FINAL" and (query.window is None or not query.group_by):
            raise SqlStatementError(
                "EMIT FINAL is only supported for windowed aggregations.",
                hint="add WINDOW and GROUP BY, or write EMIT CHANGES",
                at=query.at,
            )
        first = self.sources[query.relation.alias]
        if self.persistent and first.is_table and first.window is not None:
            raise SqlStatementError(
                "KSQL does not support persistent queries on windowed tables.",
                hint="read its topic as a stream: CREATE STREAM … WITH (WINDOW_TYPE=…)",
                at=query.relation.at,
            )
        kafka = [source.name for source in self.sources.values() if source.value_format.name == "KAFKA"]
        if kafka and (query.group_by or self.is_join):
            clause = "GROUP BY" if query.group_by else "JOIN"
            raise SqlStatementError(
                f"Source(s) {', '.join(kafka)} are using the 'KAFKA' value format. This format does not yet support "
                f"{clause}.",
                at=query.at,
            )
        if query.window is not None:
            check_window(query.window)
        if query.window is not None and is_table:
            raise SqlStatementError("WINDOW clause is not supported on tables.", at=query.window.at)

    def magic(self, expression: tree.Expression) -> tree.Expression:
        return rewrite_timestamps(expression)

    def resolve(self, expression: tree.Expression, clause: str) -> tree.Expression:
        """Names every column as in rows; `clause` is for errors."""
        if clause != "SELECT":
            for part in parts(expression):
                if isinstance(part, tree.ColumnRef) and part.name in WINDOW_BOUNDS and self.query.window is not None:
                    raise SqlStatementError(
                        f"Window bounds column {part.name} can only be used in the SELECT clause of windowed "
                        "aggregations and can not be passed to aggregate functions.",
                        at=part.at,
                    )
                if (
                    clause != "HAVING"
                    and isinstance(part, tree.Call)
                    and self.environment.functions.is_aggregate(part.name)
                ):
                    raise SqlStatementError(
                        f"{clause} does not support aggregate functions: {part.name.upper()} is an aggregate function.",
                        at=part.at,
                    )
                if isinstance(part, tree.Call) and self.environment.functions.is_table_function(part.name):
                    raise SqlStatementError(
                        f"Table functions cannot be used with {clause}: {expression_text(part)}", at=part.at
                    )

        def internal(ref: tree.ColumnRef) -> str:
            bounds = ref.name in WINDOW_BOUNDS and self.query.window is not None and not self.is_join
            return ref.name if bounds else self.scope.resolve(ref, clause).internal

        return resolve_columns(expression, internal)

    def distinct(self, expressions: list[tree.Expression], clause: str) -> list[tree.Expression]:
        seen: set[object] = set()
        for expression in expressions:
            key = expression_key(expression)
            if key in seen:
                raise SqlStatementError(
                    f"Duplicate expression in {clause}: {expression_text(expression)}", at=expression.at
                )
            seen.add(key)
        return expressions

    def is_aggregate(self, expression: tree.Expression) -> bool:
        return any(
            isinstance(part, tree.Call) and self.environment.functions.is_aggregate(part.name)
            for part in parts(expression)
        )

    def refuse_table_functions(self, items: list[Item]) -> None:
        for item in items:
            for part in parts(item.expression):
                if isinstance(part, tree.Call) and self.environment.functions.is_table_function(part.name):
                    raise SqlStatementError("Table functions cannot be used with aggregations.", at=part.at)

    def read(self, expressions: Iterable[tree.Expression | None]) -> tuple[Step, JoinKey]:
        used = {ref.name for item in expressions if item is not None for ref in column_refs(item)}
        if self.is_join:
            return self.joins.plan(frozenset(used | self.joins.condition_columns()))
        (source,) = self.sources.values()
        columns = [column for column in self.scope.columns if column.role == "VALUE" or column.internal in used]
        return read_step(source, columns), JoinKey(columns=tuple(column.name for column in source.key))

    # ----- the select list -------------------------------------------------------------------------------------------

    def select_items(self, partitions: list[tree.Expression]) -> list[Item]:
        items: list[Item] = []
        for selected in self.query.select:
            expression = selected.expression
            if isinstance(expression, tree.Star):
                items += self.star(expression, partitions)
            elif isinstance(expression, tree.StructStar):
                items += self.struct_star(expression)
            else:
                items.append(self.item(selected, expression))
        return items

    def item(self, selected: tree.SelectItem, expression: tree.Expression) -> Item:
        resolved = self.resolve(expression, "SELECT")
        name = selected.alias
        if name is None and isinstance(expression, tree.ColumnRef):
            name = self.column_name(expression)
        if name is None:
            name = self.names.name(expression)
        if name.upper() in SYSTEM_COLUMNS:
            self.refuse_reserved(name, expression, selected.at)
        return Item(name, resolved, selected.at)

    def refuse_reserved(self, name: str, expression: tree.Expression, at: tree.Position) -> None:
        if not isinstance(expression, tree.ColumnRef) or expression.name.upper() != name.upper():
            raise SqlStatementError(
                f"`{name.upper()}` is a reserved column name. You cannot use it as an alias for a column.", at=at
            )
        if self.persistent:
            raise SqlStatementError(
                f"Reserved column name in select: `{name.upper()}`. Please remove or alias the column.", at=at
            )

    def column_name(self, ref: tree.ColumnRef) -> str:
        if not self.is_join or (ref.name in WINDOW_BOUNDS and self.query.window is not None):
            return ref.name
        column = self.scope.resolve(ref, "SELECT")
        unique = sum(other.name == ref.name for other in self.scope.columns) == 1
        return column.name if unique and column.role != "PSEUDO" else column.internal

    def star(self, star: tree.Star, partitions: list[tree.Expression]) -> list[Item]:
        if star.source is not None and star.source not in self.sources:
            raise SqlStatementError(f"'{star.source}' is not a valid stream/table name or alias.", at=star.at)
        # PARTITION BY over a join reads the joined rows, which have the pseudo columns of their sources.
        hidden = ("SYNTHETIC",) if partitions and self.is_join else ("PSEUDO", "SYNTHETIC")
        columns = [
            column
            for column in self.scope.columns
            if column.role not in hidden and (star.source is None or column.source == star.source)
        ]
        if self.persistent and not self.is_join:
            columns = [column for column in columns if column.role != "WINDOW"]
        items = [Item(column.internal, tree.ColumnRef(at=star.at, name=column.internal), star.at) for column in columns]
        synthetic = [column for column in self.scope.columns if column.role == "SYNTHETIC"]
        if synthetic and star.source is None:
            first = synthetic[0].internal
            items.insert(0, Item(first, tree.ColumnRef(at=star.at, name=first), star.at))
        if not partitions:
            return items
        keys = {column.internal for column in columns if column.role == "KEY"}
        targets = {expression_key(item) for item in partitions}
        new = [Item(self.partition_name(item), item, star.at) for item in partitions if not _is_null(item)]
        rest = [item for item in items if expression_key(item.expression) not in targets]
        return [
            *new,
            *(item for item in rest if item.name not in keys),
            *(item for item in rest if item.name in keys),
        ]

    def partition_name(self, expression: tree.Expression) -> str:
        return expression.name if isinstance(expression, tree.ColumnRef) else self.names.name(expression)

    def struct_star(self, star: tree.StructStar) -> list[Item]:
        base = self.resolve(star.base, "SELECT")
        type_ = type_of(base, self.scope.types, self.environment)
        if not isinstance(type_, StructType):
            raise SqlStatementError(
                f"Cannot use ->* on {expression_text(star.base)}: it is {type_ or 'NULL'}, not a STRUCT", at=star.at
            )
        return [
            Item(name, tree.Dereference(at=star.at, base=base, field=name), star.at) for name, _type in type_.fields
        ]

    # ----- the key and the result ------------------------------------------------------------------------------------

    def rekey(self, step: Step, partitions: list[tree.Expression], items: list[Item]) -> Step:
        nulls = [item for item in partitions if _is_null(item)]
        if nulls and len(partitions) > 1:
            raise SqlStatementError("Cannot PARTITION BY multiple columns including NULL", at=nulls[0].at)
        if nulls:
            return Rekey(kind="STREAM", key=(), columns=step.columns, parent=step, expressions=())
        if step.window is not None:
            raise SqlStatementError("PARTITION BY is not supported on windowed sources.", at=self.query.at)
        bind = self.environment.binder(step.types).bind
        key = []
        for index, expression in enumerate(partitions):
            type_ = bind(expression).type
            if type_ is None:
                raise SqlStatementError("PARTITION BY an expression without a type", at=expression.at)
            name = expression.name if isinstance(expression, tree.ColumnRef) else f"KSQL_PARTITION_{index}"
            key.append(Column(name, type_))
        if (
            len(step.key) == 1
            and len(partitions) == 1
            and expression_key(partitions[0]) == expression_key(tree.ColumnRef(at=self.query.at, name=step.key[0].name))
        ):
            return step
        return Rekey(kind="STREAM", key=tuple(key), columns=step.columns, parent=step, expressions=tuple(partitions))

    def key_columns(self, step: Step, key: JoinKey, partitions: list[tree.Expression]) -> ResultKey:
        """Returns what stands for the key columns in the select list."""
        if self.query.partition_by:
            return ResultKey(tuple((item,) for item in partitions if not _is_null(item)), "partitioning expression")
        if key.synthetic is not None:
            return ResultKey((columns_named([key.synthetic]),), "join expression", synthetic=True)
        if key.primary:
            return ResultKey(tuple(columns_named([name]) for name in key.primary), "key column", primary=True)
        if self.is_join:
            return ResultKey((columns_named(key.columns),), "join expression")
        return ResultKey(tuple(columns_named([column.name]) for column in step.key), "key column")

    def shown(self, expression: tree.Expression) -> tree.Expression:
        """Returns an expression with the names that a person writes."""
        if isinstance(expression, tree.ColumnRef):
            expression = self.groups.get(expression.name, expression)
        return self.scope.written(expression)

    def selects_keys(self, step: Step, where: tree.Expression | None) -> bool:
        """Whether the select list may leave out key columns, and gives their order: ksqlDB's new planner does so.

        As in ksqlDB, it is for plain projections of one stream.
        """
        plain = not (where or self.is_join or self.query.partition_by) and isinstance(step, Read)
        enabled = str(self.environment.properties.get(_NEW_PLANNER, "false")).lower() == "true"
        return enabled and plain and self.persistent and step.kind == "STREAM" and step.window is None

    def grouped(
        self,
        step: Step,
        groups: list[tree.Expression],
        where: tree.Expression | None,
        having: tree.Expression | None,
        items: list[Item],
    ) -> PlannedQuery:
        if not groups and self.persistent:
            raise SqlStatementError("Use of aggregate functions requires a GROUP BY clause.", at=self.query.at)
        named = {expression_key(item.expression): item.name for item in reversed(items)}
        if not groups:  # all rows are one group, whose key is a constant
            groups = [tree.Literal(at=self.query.at, value=0)]
        keys = []
        for group in groups:
            name = named.get(expression_key(group))
            keys.append((name or self.partition_name(group), group))
        step, condition, expressions = plan_aggregation(
            step, keys, [(item.name, item.expression) for item in items], having, self.query, where, self.environment
        )
        if condition is not None:
            step = filter_step(step, condition)
        rewritten = [Item(item.name, expression, item.at) for item, expression in zip(items, expressions, strict=True)]
        self.groups = dict(keys)
        result_key = ResultKey(tuple(columns_named([column.name]) for column in step.key), "grouping expression")
        return self.result(step, result_key, rewritten)

    def result(self, step: Step, result_key: ResultKey, items: list[Item]) -> PlannedQuery:
        """Splits the select list into key and value."""
        bind = self.environment.binder(step.types).bind
        types: dict[str, SqlType] = {}
        for item in items:
            type_ = bind(item.expression).type
            if type_ is None:
                raise SqlStatementError("Projected NULL without a type", hint="write CAST(NULL AS …)", at=item.at)
            types[item.name] = type_
        self.refuse_duplicates(items)
        if not self.persistent:
            columns = tuple(Column(item.name, types[item.name]) for item in items)
            root = self.project(step, items, types)
            return PlannedQuery(
                root=root, key=step.key, value=columns, order=tuple(types), sources=tuple(self.sources.values())
            )
        chosen = chosen_keys(result_key, items, self.query, self.sink, self.shown)
        values = [item for item in items if item not in chosen]
        if not values:
            raise SqlStatementError("The projection contains no value columns.", at=self.query.at)
        key = tuple(Column(item.name, column.type) for item, column in zip(chosen, step.key, strict=True))
        root = self.project(step, values, types)
        return PlannedQuery(
            root=root,
            key=key,
            value=tuple(Column(item.name, types[item.name]) for item in values),
            order=tuple(types),
            sources=tuple(self.sources.values()),
        )

    def refuse_duplicates(self, items: list[Item]) -> None:
        seen: set[str] = set()
        for item in items:
            if item.name in seen:
                raise SqlStatementError(
                    f"The projection contains a duplicate column: `{item.name}`.",
                    hint="give one of them an alias",
                    at=item.at,
                )
            seen.add(item.name)

    def project(self, step: Step, items: list[Item], types: dict[str, SqlType]) -> Project:
        return Project(
            kind=step.kind,
            key=step.key,
            columns=tuple((item.name, types[item.name]) for item in items),
            window=step.window,
            parent=step,
            items=tuple((item.name, item.expression) for item in items),
        )


def filter_step(step: Step, condition: tree.Expression) -> Filter:
    """Returns the step that keeps the rows for which a condition is true."""
    return Filter(
        kind=step.kind, key=step.key, columns=step.columns, window=step.window, parent=step, condition=condition
    )


def _is_null(expression: tree.Expression) -> bool:
    return isinstance(expression, tree.Literal) and expression.value is None
