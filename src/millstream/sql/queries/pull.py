"""Plans pull queries on tables: which rows they look up, and what they make of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.core.frozen import Frozen, replace
from millstream.errors import SqlStatementError
from millstream.sql.binder.rewrite import column_refs, parts
from millstream.sql.catalog.catalog import Catalog
from millstream.sql.catalog.sources import ROWOFFSET, ROWPARTITION, WINDOW_BOUNDS, Column, DataSource
from millstream.sql.planner.environment import Environment
from millstream.sql.planner.query import plan_query
from millstream.sql.planner.steps import Filter, Project, Read
from millstream.sql.planner.timestamps import rewrite_timestamps
from millstream.sql.queries.constraints import lookups_of
from millstream.sql.queries.lookups import FullScan, Lookup
from millstream.sql.queries.rules import enabled, help_text, where_error
from millstream.sql.syntax import tree
from millstream.sql.types import STRING

TABLE_SCAN = "ksql.query.pull.table.scan.enabled"
_LIMIT = "ksql.query.pull.limit.clause.enabled"
_CLAUSES = ("WINDOW", "GROUP BY", "PARTITION BY", "HAVING")


class PullPlan(Frozen):
    """A pull query on a table.

    Attributes:
        source: The table.
        lookups: How its rows are found; each row is to be returned once.
        read: The columns of rows.
        condition: What must hold for a row.
        items: The expressions of the result, by name.
        columns: The columns of the result, with their types.
        keys: The names of those that the answer marks as keys.
        limit: The most rows that are returned.
    """

    source: DataSource
    lookups: tuple[Lookup, ...]
    read: Read
    condition: tree.Expression | None
    items: tuple[tuple[str, tree.Expression], ...]
    columns: tuple[Column, ...]
    keys: frozenset[str]
    limit: int | None


def check_pull(query: tree.Query, environment: Environment) -> None:
    """Refuses what no pull query has, on tables and on streams.

    Raises:
        SqlStatementError: A clause, a column or a function is not for pull queries.
    """
    if query.joins:
        raise SqlStatementError(help_text("Pull queries don't support JOIN clauses."), at=query.joins[0].at)
    for clause, part in zip(_CLAUSES, (query.window, query.group_by, query.partition_by, query.having), strict=True):
        if part:
            at = part[0].at if isinstance(part, tuple) else part.at
            raise SqlStatementError(help_text(f"Pull queries don't support {clause} clauses."), at=at)
    if query.limit is not None and not enabled(environment, _LIMIT):
        raise SqlStatementError(
            help_text(
                f"LIMIT clause in pull queries is currently disabled. You can enable them by setting {_LIMIT}=true."
            ),
            at=query.at,
        )
    check_limit(query, "Pull")
    selected = [item.expression for item in query.select]
    _check_columns(selected, "SELECT")
    _check_columns([] if query.where is None else [query.where], "WHERE")
    for expression in selected:
        for part in parts(expression):
            if isinstance(part, tree.Call) and environment.functions.is_aggregate(part.name):
                raise SqlStatementError(
                    help_text("Pull queries don't support aggregate functions: use GROUP BY in CREATE TABLE … AS."),
                    at=part.at,
                )
            if isinstance(part, tree.Call) and environment.functions.is_table_function(part.name):
                raise SqlStatementError(help_text("Pull queries don't support table functions."), at=part.at)


def check_limit(query: tree.Query, kind: str) -> None:
    """Refuses a negative LIMIT."""
    if query.limit is not None and query.limit < 0:
        raise SqlStatementError(
            help_text(f"{kind} queries don't support negative integers in the LIMIT clause."), at=query.at
        )


def _check_columns(expressions: list[tree.Expression], clause: str) -> None:
    refused = [
        ref for expression in expressions for ref in column_refs(expression) if ref.name in (ROWPARTITION, ROWOFFSET)
    ]
    if refused:
        names = ", ".join(f"`{ref.name}`" for ref in refused)
        raise SqlStatementError(
            help_text(f"Pull queries don't support the following columns in {clause} clauses: {names}."),
            at=refused[0].at,
        )


def plan_pull(query: tree.Query, environment: Environment, catalog: Catalog) -> PullPlan:
    """Plans a pull query on a table.

    Raises:
        SqlStatementError: The query is invalid, its condition needs a scan that is disabled, or nothing materializes
            the table.
    """
    check_pull(query, environment)
    stars = [item for item in query.select if isinstance(item.expression, tree.Star)]
    if stars and len(query.select) > 1:
        raise SqlStatementError(
            "Pull queries only support wildcards in the projects if they are the only expression",
            hint="list the columns",
            at=stars[0].at,
        )
    source = environment.source(query.relation.source, query.relation.at)
    if query.where is not None:
        _check_likes(query.where, source)
    planned = plan_query(replace(query, limit=None), environment, persistent=False)
    root = planned.root
    assert isinstance(root, Project)
    condition, step = None, root.parent
    if isinstance(step, Filter):
        condition, step = step.condition, step.parent
    assert isinstance(step, Read)
    lookups = _lookups(source, condition, environment, query)
    if source.window is not None and source.window.kind == "SESSION" and FullScan() in lookups:
        raise where_error("Table scan unsupported on session tables", source, query.at)
    _check_queryable(source, catalog, query)
    keys = {column.name for column in source.key} | set(WINDOW_BOUNDS)
    return PullPlan(
        source=source,
        lookups=lookups,
        read=step,
        condition=condition,
        items=root.items,
        columns=planned.value,
        keys=frozenset(name for name in planned.order if name in keys),
        limit=query.limit,
    )


def _check_likes(condition: tree.Expression, source: DataSource) -> None:
    types = {column.name: column.type for column in (*source.key, *source.value)}
    for part in parts(condition):
        if isinstance(part, tree.Like) and isinstance(part.operand, tree.ColumnRef):
            type_ = types.get(part.operand.name, STRING)
            if type_ != STRING:
                raise where_error(
                    f"The column type for Like condition must be VARCHAR. The column type is {type_}", source, part.at
                )


def _lookups(
    source: DataSource, condition: tree.Expression | None, environment: Environment, query: tree.Query
) -> tuple[Lookup, ...]:
    if condition is None:
        if not enabled(environment, TABLE_SCAN):
            raise where_error("Missing WHERE clause", source, query.at)
        return (FullScan(),)
    return lookups_of(source, rewrite_timestamps(condition), environment)


def _check_queryable(source: DataSource, catalog: Catalog, query: tree.Query) -> None:
    if source.read_only or source.query in catalog.queries:
        return
    raise SqlStatementError(
        help_text(
            f"The {source.name} table isn't queryable. "  # noqa: S608  (a message)
            f"To derive a queryable table, you can do 'CREATE TABLE QUERYABLE_{source.name} "
            f"AS SELECT * FROM {source.name}'."
        ),
        at=query.relation.at,
    )


def row_of(plan: PullPlan, key: tuple[Any, ...], row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row of a table with the names that the expressions of a plan have for its columns."""
    names = [column.name for column in plan.source.key]
    values = {**row, **dict(zip(names, key, strict=True))}
    return {internal: values.get(name) for _role, name, internal in plan.read.renamed}
