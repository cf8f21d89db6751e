"""EXPLAIN: the columns of a query, and its topology before and after optimisation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from millstream.core.callsite import called_from
from millstream.core.frozen import Frozen
from millstream.dsl.app import App
from millstream.errors import SqlStatementError, suggestion
from millstream.optimize import optimize
from millstream.optimize.bind_serdes import bind_serdes
from millstream.schemas.registries import registry_of
from millstream.sql.catalog.catalog import PersistentQuery
from millstream.sql.lowering.serdes import SourceSerdes
from millstream.sql.lowering.topology import QueryLowering
from millstream.sql.lowering.transient import add_transient
from millstream.sql.planner.environment import Environment
from millstream.sql.planner.query import plan_query
from millstream.sql.planner.steps import PlannedQuery
from millstream.sql.queries.lookups import KeyLookup, KeyRange, Lookup
from millstream.sql.queries.pull import PullPlan, check_pull, plan_pull
from millstream.sql.requests.deployment import Deployment
from millstream.sql.requests.entities import Entity, entity, schema_info
from millstream.sql.statements.session import Session
from millstream.sql.syntax import tree
from millstream.sql.syntax.text import text_of
from millstream.stages import cut
from millstream.stages.describe import describe

if TYPE_CHECKING:
    from millstream.plan.node import Plan
    from millstream.stages.subtopology import Topology


def explain(statement: tree.Explain, session: Session, deployment: Deployment) -> Entity:
    """Returns the description of a running query, or of the query of a statement, which is not executed.

    Raises:
        SqlStatementError: There is no such query, or the statement has none or is invalid.
    """
    if statement.query_id is not None:
        queries = session.catalog.queries
        id_ = statement.query_id if statement.query_id in queries else statement.query_id.upper()
        if id_ not in queries:
            raise SqlStatementError(
                f"Query with id:{statement.query_id} does not exist, use SHOW QUERIES to view the full set of queries.",
                hint=suggestion(id_, queries),
                at=statement.at,
            )
        described = query_description(queries[id_], session.environment, deployment)
    else:
        assert statement.statement is not None
        described = _statement_description(statement.statement, session)
    return entity("queryDescription", statement.text, queryDescription=described)


def query_description(query: PersistentQuery, environment: Environment, deployment: Deployment) -> Entity:
    """Returns the description of a persistent query."""
    problem = deployment.problem(query)
    return _description(
        query.planned,
        _persistent_app(query, environment),
        query.sink.name,
        id=query.id,
        statementText=query.statement,
        queryType="PERSISTENT",
        state=deployment.state(query),
        queryErrors=[] if problem is None else [{"timestamp": 0, "errorMessage": problem, "type": "UNKNOWN"}],
    )


def query_topology(query: PersistentQuery, environment: Environment, application: str) -> dict[str, Any]:
    """Returns the topology of a persistent query as JSON: see `millstream.stages.describe`."""
    return _json(_persistent_app(query, environment, application))


def statement_topology(statement: tree.Statement, session: Session) -> dict[str, Any]:
    """Returns the topology of the query of a statement as JSON, with its ``kind`` and its ``columns``.

    A pull query on a table has no topology; its ``plan`` says how it reads the table.

    Raises:
        SqlStatementError: The statement has no query, or is invalid.
    """
    explained = _explained(statement, session)
    if isinstance(explained, PullPlan):
        columns = [{"name": column.name, "type": str(column.type)} for column in explained.columns]
        return {"kind": "PULL", "columns": columns, "plan": _plan_text(explained), "sub_topologies": []}
    key = () if explained.sink is None else explained.planned.key
    columns = [{"name": column.name, "type": str(column.type)} for column in (*key, *explained.planned.value)]
    return {"kind": explained.kind, "columns": columns, "plan": None, **_json(explained.app)}


class _Explained(Frozen):
    """A planned query as an application; ``sink`` is the name of what it writes."""

    planned: PlannedQuery
    app: App
    sink: str | None
    kind: str


def _statement_description(statement: tree.Statement, session: Session) -> Entity:
    explained = _explained(statement, session)
    while isinstance(statement, tree.Explain) and statement.statement is not None:
        statement = statement.statement
    if isinstance(explained, PullPlan):
        return _members(
            statementText=statement.text,
            fields=[{"name": column.name, "schema": schema_info(column.type)} for column in explained.columns],
            sources=[explained.source.name],
            executionPlan=_plan_text(explained),
            queryType="PULL",
        )
    members = {"statementText": statement.text, "queryType": explained.kind}
    return _description(explained.planned, explained.app, explained.sink, **members)


def _explained(statement: tree.Statement, session: Session) -> _Explained | PullPlan:
    match statement:
        case tree.CreateAs() | tree.InsertInto():
            trial = session.with_properties(session.properties, session.catalog.copy())
            if isinstance(statement, tree.CreateAs):
                trial.catalog.sources.pop(statement.name, None)  # it may be the one that runs
            query = trial.execute(statement)
            if query is not None:
                app = _persistent_app(query, session.environment)
                return _Explained(query.planned, app, query.sink.name, "PERSISTENT")
        case tree.Select():
            return _explained_select(statement, session)
        case tree.Explain() if statement.statement is not None:
            return _explained(statement.statement, session)
    raise SqlStatementError(
        "The provided statement does not run a ksql query",
        hint="EXPLAIN takes a SELECT or CREATE … AS",
        at=statement.at,
    )


def _explained_select(statement: tree.Select, session: Session) -> _Explained | PullPlan:
    query, environment = statement.query, session.environment
    if query.emit is None:
        if environment.source(query.relation.source, query.relation.at).is_table:
            return plan_pull(query, environment, session.catalog)
        check_pull(query, environment)
    planned = plan_query(query, environment, persistent=False)
    app = App("explain")
    with called_from("query"):
        add_transient(QueryLowering(app, environment, SourceSerdes(environment.properties)), planned, "result")
    return _Explained(planned, app, None, "PUSH" if query.emit else "PULL")


def _plan_text(plan: PullPlan) -> str:
    condition = "" if plan.condition is None else f"\n  where {text_of(plan.condition)}"
    lookups = "".join(f"\n  {_shown(lookup)}" for lookup in plan.lookups)
    return f"read {plan.source.name}{lookups}{condition}"


def _shown(lookup: Lookup) -> str:
    match lookup:
        case KeyLookup():
            bounds = "".join(
                f", {name} from {bound.low} to {bound.high}"
                for name, bound in (("WINDOWSTART", lookup.start), ("WINDOWEND", lookup.end))
                if (bound.low, bound.high) != (None, None)
            )
            return f"by key {', '.join(map(repr, lookup.key))}{bounds}"
        case KeyRange():
            return f"by range of keys from {lookup.low!r} to {lookup.high!r}"
    return "by full scan"


def _persistent_app(query: PersistentQuery, environment: Environment, id_: str = "explain") -> App:
    app = App(id_)
    with called_from(query.id):
        QueryLowering(app, environment, SourceSerdes(query.properties)).add(query)
    return app


def _text(app: App, plan: Plan) -> str:
    return describe(_topology(app, plan), "text")


def _json(app: App) -> dict[str, Any]:
    plan = optimize(app.plan(), app.config["topology.optimization"])
    content: dict[str, Any] = json.loads(describe(_topology(app, plan), "json"))
    return content


def _topology(app: App, plan: Plan) -> Topology:
    return cut(bind_serdes(plan, registry_of(app.id, app.config)))


def _description(planned: PlannedQuery, app: App, sink: str | None, **members: object) -> Entity:
    before = app.plan()
    after = optimize(before, app.config["topology.optimization"])
    return _members(
        windowType=None if planned.window is None else planned.window.kind,
        fields=[
            *({"name": c.name, "schema": schema_info(c.type), "type": "KEY"} for c in planned.key if sink is not None),
            *({"name": c.name, "schema": schema_info(c.type)} for c in planned.value),
        ],
        sources=[source.name for source in planned.sources],
        sinks=[] if sink is None else [sink],
        executionPlan=_text(app, before),
        topology=_text(app, after),
        **members,
    )


def _members(**members: object) -> Entity:
    return {
        "id": "",
        "windowType": None,
        "sinks": [],
        "topology": "",
        "overriddenProperties": {},
        "ksqlHostQueryStatus": {},
        "queryErrors": [],
        "tasksMetadata": [],
        "state": None,
        **members,
    }
