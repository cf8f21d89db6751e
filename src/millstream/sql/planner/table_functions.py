"""Plans table functions of the select list: each becomes a column of exploded rows."""

from __future__ import annotations

from millstream.errors import SqlStatementError
from millstream.sql.binder.rewrite import parts, rewrite
from millstream.sql.planner.calls import resolve_table
from millstream.sql.planner.environment import Environment
from millstream.sql.planner.steps import AggregateItem, Explode, Step
from millstream.sql.syntax import tree
from millstream.sql.syntax.text import key as expression_key, text_of as expression_text

Named = tuple[str, tree.Expression]


def plan_table_functions(
    step: Step, items: list[Named], environment: Environment
) -> tuple[Explode | None, list[Named]]:
    """Returns the step that explodes rows, if there are table functions, and the select list over its columns."""
    functions = environment.functions
    calls: list[AggregateItem] = []
    known: dict[object, str] = {}

    def is_table_function(part: tree.Expression) -> bool:
        return isinstance(part, tree.Call) and functions.is_table_function(part.name)

    def replace(part: tree.Expression) -> tree.Expression | None:
        if isinstance(part, tree.Case) and any(map(is_table_function, parts(part))):
            raise SqlStatementError(f"Table functions cannot be used in CASE: {expression_text(part)}", at=part.at)
        if not isinstance(part, tree.Call) or not is_table_function(part):
            return None
        if any(is_table_function(inner) for argument in part.arguments for inner in parts(argument)):
            raise SqlStatementError(f"Table functions cannot be nested: {expression_text(part)}", at=part.at)
        column = known.get(expression_key(part))
        if column is None:  # ->* repeats the call for each field
            column = known[expression_key(part)] = f"KSQL_SYNTH_{len(calls)}"
            calls.append(AggregateItem(column, part.name, part.arguments))
        return tree.ColumnRef(at=part.at, name=column)

    rewritten = [(name, rewrite(expression, replace)) for name, expression in items]
    if not calls:
        return None, items
    columns = {**step.types, **{item.column: resolve_table(item, step.types, environment).result for item in calls}}
    explode = Explode(
        kind=step.kind,
        key=step.key,
        columns=tuple(columns.items()),
        window=step.window,
        parent=step,
        items=tuple(calls),
    )
    return explode, rewritten
