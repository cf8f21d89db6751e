"""Resolves calls of aggregate and table functions over the columns of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.sql.binder.expressions import describe_argument
from millstream.sql.functions import AggregateCall, TableCall
from millstream.sql.planner.environment import Environment
from millstream.sql.planner.steps import AggregateItem
from millstream.sql.syntax import tree
from millstream.sql.types import SqlType


def resolve_aggregate(item: AggregateItem, columns: Mapping[str, SqlType], environment: Environment) -> AggregateCall:
    """Resolves a call of an aggregate function over rows with these columns."""
    binder = environment.binder(columns)
    arguments = [describe_argument(binder.bind(argument)) for argument in aggregate_arguments(item)]
    return environment.functions.resolve_aggregate(item.name, arguments, environment.properties)


def resolve_table(item: AggregateItem, columns: Mapping[str, SqlType], environment: Environment) -> TableCall:
    """Resolves a call of a table function over rows with these columns."""
    binder = environment.binder(columns)
    arguments = [describe_argument(binder.bind(argument)) for argument in item.arguments]
    return environment.functions.resolve_table(item.name, arguments)


def aggregate_arguments(item: AggregateItem) -> Sequence[tree.Expression]:
    """The arguments of a call; COUNT(*) has none."""
    return [argument for argument in item.arguments if not isinstance(argument, tree.Star)]
