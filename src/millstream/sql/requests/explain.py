"""EXPLAIN: the columns of a query, and its topology before and after optimisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def _statement_description(statement: tree.Statement, session: Session) -> Entity:
    match statement:
        case tree.CreateAs() | tree.InsertInto():
            trial = session.with_properties(session.properties, session.catalog.copy())
            if isinstance(statement, tree.CreateAs):
                trial.catalog.sources.pop(statement.name, None)  # it may be the one that runs
            query = trial.execute(statement)
            assert query is not None
            app = _persistent_app(query, session.environment)
            return _description(
                query.planned, app, query.sink.name, statementText=statement.text, queryType="PERSISTENT"
            )
        case tree.Select():
            return _select_description(statement, session)
        case tree.Explain() if statement.statement is not None:
            return _statement_description(statement.statement, session)
    raise SqlStatementError(
        "The provided statement does not run a ksql query",
        hint="EXPLAIN takes a SELECT or CREATE … AS",
        at=statement.at,
    )


def _select_description(statement: tree.Select, session: Session) -> Entity:
    query, environment = statement.query, session.environment
    if query.emit is None:
        if environment.source(query.relation.source, query.relation.at).is_table:
            return _pull_description(statement, plan_pull(query, environment, session.catalog))
        check_pull(query, environment)
    planned = plan_query(query, environment, persistent=False)
    app = App("explain")
    add_transient(QueryLowering(app, environment, SourceSerdes(environment.properties)), planned, "result")
    return _description(planned, app, None, statementText=statement.text, queryType="PUSH" if query.emit else "PULL")


def _pull_description(statement: tree.Select, plan: PullPlan) -> Entity:
    condition = "" if plan.condition is None else f"\n  where {text_of(plan.condition)}"
    lookups = "".join(f"\n  {_shown(lookup)}" for lookup in plan.lookups)
    return _members(
        statementText=statement.text,
        fields=[{"name": column.name, "schema": schema_info(column.type)} for column in plan.columns],
        sources=[plan.source.name],
        executionPlan=f"read {plan.source.name}{lookups}{condition}",
        queryType="PULL",
    )


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


def _persistent_app(query: PersistentQuery, environment: Environment) -> App:
    app = App("explain")
    QueryLowering(app, environment, SourceSerdes(query.properties)).add(query)
    return app


def _text(app: App, plan: Plan) -> str:
    return describe(cut(bind_serdes(plan, registry_of(app.id, app.config))), "text")


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
