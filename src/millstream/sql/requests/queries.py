"""Executes SELECT: a pull query on a table, a pull query on a stream, or a push query."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from millstream.errors import SqlStatementError
from millstream.sql.lowering.functions import Condition, Projection
from millstream.sql.planner.environment import Environment
from millstream.sql.planner.partitions import check_partitions
from millstream.sql.planner.query import plan_query
from millstream.sql.queries.lookups import KeyLookup, KeyRange, Lookup
from millstream.sql.queries.pull import PullPlan, check_limit, check_pull, plan_pull, row_of
from millstream.sql.queries.push import from_beginning, is_scalable
from millstream.sql.queries.rules import enabled
from millstream.sql.requests.answers import Answer, Kind, ReadyRows, ResultColumn
from millstream.sql.requests.deployment import Deployment, MaterializedTable, ResultRow, TableRow, TransientQuery
from millstream.sql.statements.session import Session
from millstream.sql.syntax import tree

_STREAMS = "ksql.query.pull.stream.enabled"
_numbers = itertools.count(1)


class Queries:
    """Executes queries.

    Attributes:
        session: The catalog, and the properties of the request.
        deployment: What has the tables, and runs transient queries.
    """

    def __init__(self, session: Session, deployment: Deployment) -> None:
        self.session = session
        self.deployment = deployment

    def select(self, statement: tree.Select) -> Answer:
        """Starts a query.

        Raises:
            MillstreamError: The query is invalid, or cannot run.
        """
        environment = self.session.environment
        query = statement.query
        if query.emit is not None:
            check_limit(query, "Push")
            scalable = is_scalable(query, environment, self.session.catalog)
            name = "SCALABLE_PUSH_QUERY" if scalable else "transient"
            return self._transient(statement, environment, name, "push")
        if environment.source(query.relation.source, query.relation.at).is_table:
            return self._pull(query, environment)
        check_pull(query, environment)
        if not enabled(environment, _STREAMS):
            raise SqlStatementError(
                "Pull queries on streams are disabled. To create a push query on the stream, add EMIT CHANGES to the "
                f"end. To enable pull queries on streams, set the {_STREAMS} config to 'true'.",
                at=query.relation.at,
            )
        return self._transient(statement, environment, "transient", "stream pull")

    def _transient(self, statement: tree.Select, environment: Environment, name: str, kind: Kind) -> Answer:
        query = statement.query
        planned = plan_query(query, environment, persistent=False)
        check_partitions(planned.root, self.session.partitions, statement.at)
        id_ = f"{name}_{query.relation.source}_{next(_numbers)}"
        is_pull = kind == "stream pull"
        running = self.deployment.run(
            TransientQuery(
                id=id_,
                planned=planned,
                properties=dict(environment.properties),
                statement=statement.text,
                from_beginning=is_pull or from_beginning(environment),
                until_now=is_pull,
            ),
            environment,
        )
        columns = [ResultColumn(column.name, column.type) for column in planned.value]
        return Answer(id_, kind, columns, running, query.limit)

    def _pull(self, query: tree.Query, environment: Environment) -> Answer:
        plan = plan_pull(query, environment, self.session.catalog)
        rows = ReadyRows(pull_rows(plan, self.deployment.table(plan.source), environment))
        columns = [ResultColumn(column.name, column.type, column.name in plan.keys) for column in plan.columns]
        return Answer(f"query_{next(_numbers)}", "pull", columns, rows, plan.limit)


def pull_rows(plan: PullPlan, table: MaterializedTable, environment: Environment) -> Iterator[ResultRow | None]:
    """Yields the rows of a pull query on a table; None for each row that is no part of the result."""
    types = plan.read.types
    condition = None if plan.condition is None else Condition((plan.condition,), types, environment)
    projection = Projection(plan.items, types, environment)
    seen: set[str] = set()
    for lookup in plan.lookups:
        for row in _found(lookup, table, windowed=plan.source.window is not None):
            if len(plan.lookups) > 1:
                place = repr((row.key, row.window))
                if place in seen:
                    continue
                seen.add(place)
            values = row_of(plan, row.key, {**row.value, **row.system_columns})
            if condition is not None and not condition(values):
                yield None
                continue
            result = projection(values)
            assert result is not None
            yield ResultRow(tuple(result.values()))


def _found(lookup: Lookup, table: MaterializedTable, *, windowed: bool) -> Iterator[TableRow]:
    match lookup:
        case KeyLookup() if windowed:
            yield from table.windows(lookup.key, lookup.start, lookup.end)
        case KeyLookup():
            row = table.get(lookup.key)
            if row is not None:
                yield row
        case KeyRange():
            yield from table.between(lookup.low, lookup.high)
        case _:
            yield from table.scan()
