"""Push queries: which of them read only the tip of what a persistent query writes."""

from __future__ import annotations

from millstream.sql.binder.rewrite import column_refs
from millstream.sql.catalog.catalog import Catalog
from millstream.sql.catalog.sources import ROWOFFSET, ROWPARTITION
from millstream.sql.planner.environment import Environment
from millstream.sql.syntax import tree

_OFFSET_RESET = "auto.offset.reset"


def from_beginning(environment: Environment) -> bool:
    """Whether a push query reads its topics from their beginnings."""
    return str(environment.properties.get(_OFFSET_RESET, "latest")).lower() == "earliest"


def is_scalable(query: tree.Query, environment: Environment, catalog: Catalog) -> bool:
    """Whether ksqlDB would answer a push query from the output of the persistent query that writes its source."""
    if str(environment.properties.get("ksql.query.push.v2.enabled", "false")).lower() != "true":
        return False
    expressions = [item.expression for item in query.select]
    if query.where is not None:
        expressions.append(query.where)
    refs = [ref for expression in expressions for ref in column_refs(expression)]
    return (
        query.emit == "CHANGES"
        and not (query.joins or query.window or query.group_by or query.having or query.partition_by)
        and not from_beginning(environment)
        and len(catalog.writers(query.relation.source)) == 1
        and not any(ref.name in (ROWPARTITION, ROWOFFSET) for ref in refs)
    )
