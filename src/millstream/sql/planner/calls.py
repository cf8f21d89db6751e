"""Resolves calls of aggregate and table functions over the columns of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.sql.binder.expressions import describe_argument
from millstream.sql.binder.rewrite import rewrite
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


def type_of(expression: tree.Expression, columns: Mapping[str, SqlType], environment: Environment) -> SqlType | None:
    """Returns the type of an expression that may call aggregate and table functions; None for NULL."""
    functions = environment.functions
    known = dict(columns)

    def replace(part: tree.Expression) -> tree.Expression | None:
        if not isinstance(part, tree.Call):
            return None
        column = f"KSQL_RESULT_{len(known)}"
        item = AggregateItem(column, part.name, part.arguments)
        if functions.is_aggregate(part.name):
            known[column] = resolve_aggregate(item, columns, environment).result
        elif functions.is_table_function(part.name):
            known[column] = resolve_table(item, columns, environment).result
        else:
            return None
        return tree.ColumnRef(at=part.at, name=column)

    rewritten = rewrite(expression, replace)
    return environment.binder(known).bind(rewritten).type


def aggregate_arguments(item: AggregateItem) -> Sequence[tree.Expression]:
    """The arguments of a call; COUNT(*) has none."""
    return [argument for argument in item.arguments if not isinstance(argument, tree.Star)]
