"""Plans GROUP BY: what is grouped and aggregated, and how the select list reads the result."""

from __future__ import annotations

from collections.abc import Iterable

from millstream.errors import SqlStatementError
from millstream.sql.binder.rewrite import column_refs, parts, rewrite
from millstream.sql.catalog.sources import WINDOW_BOUNDS, Column, WindowInfo
from millstream.sql.formats.declarations import check_columns
from millstream.sql.planner.calls import resolve_aggregate
from millstream.sql.planner.environment import Environment
from millstream.sql.planner.steps import Aggregate, AggregateItem, Step
from millstream.sql.syntax import tree
from millstream.sql.syntax.text import key as expression_key, text_of as expression_text
from millstream.sql.types import SqlType

_DAY = 24 * 60 * 60 * 1000
Named = tuple[str, tree.Expression]


def plan_aggregation(
    step: Step,
    groups: list[Named],
    items: list[Named],
    having: tree.Expression | None,
    query: tree.Query,
    where: tree.Expression | None,
    environment: Environment,
) -> tuple[Aggregate, tree.Expression | None, list[tree.Expression]]:
    """Returns the step that aggregates, and HAVING and the select list as expressions over its columns."""
    bind = environment.binder(step.types).bind
    keys = []
    for name, expression in groups:
        type_ = bind(expression).type
        if type_ is None:
            raise SqlStatementError("GROUP BY an expression without a type", at=expression.at)
        keys.append(Column(name, type_))
    planner = _Rewriter({expression_key(expression): name for name, expression in groups}, environment, query)
    condition = None if having is None else planner.rewrite(having, "HAVING")
    selected = [planner.rewrite(expression, "SELECT") for _name, expression in items]
    if not planner.aggregates:
        raise SqlStatementError(
            "GROUP BY requires aggregate functions in either the SELECT or HAVING clause.", at=query.at
        )
    if planner.ungrouped:
        raise SqlStatementError(
            "Non-aggregate SELECT expression(s) not part of GROUP BY: "
            f"{', '.join(map(expression_text, planner.ungrouped))}",
            hint="Either add the column(s) to the GROUP BY or remove them from the SELECT.",
            at=planner.ungrouped[0].at,
        )
    _check_states(planner.aggregates, step, environment, query)
    columns: dict[str, SqlType] = {column.name: column.type for column in keys}
    for item in planner.aggregates:
        columns[item.column] = _result_type(item, step, environment)
    window = query.window
    if window is not None:
        columns.update(WINDOW_BOUNDS)
    by_key = (
        step.window is None  # a group of a windowed source is in all of its windows
        and len(groups) == 1
        and len(step.key) == 1
        and expression_key(groups[0][1]) == expression_key(tree.ColumnRef(at=query.at, name=step.key[0].name))
    )
    aggregate = Aggregate(
        kind="TABLE",
        key=tuple(keys),
        columns=tuple(columns.items()),
        window=None if window is None else WindowInfo(window.kind, None if window.kind == "SESSION" else window.size),
        parent=step,
        groups=tuple(expression for _name, expression in groups),
        by_key=by_key,
        aggregates=tuple(planner.aggregates),
        by_window=window,
        final=query.emit == "FINAL",
        required=_required([*(item for _name, item in items), where, *(item for _name, item in groups), having]),
    )
    if condition is not None:
        environment.binder(columns).bind_condition(condition, "HAVING")
    return aggregate, condition, selected


def check_window(window: tree.Window) -> None:
    """Refuses a window without a length, and a hop that is longer than the window.

    Raises:
        SqlStatementError: The window is invalid.
    """
    name = window.kind.capitalize()
    if window.size <= 0:
        raise SqlStatementError(f"{name} window: the size must be more than zero.", at=window.at)
    if window.advance is not None and not 0 < window.advance <= window.size:
        raise SqlStatementError(
            f"{name} window: ADVANCE BY must be more than zero, and not more than SIZE.", at=window.at
        )
    if window.retention is not None and window.retention < window.size + grace_of(window):
        raise SqlStatementError(
            f"{name} window: RETENTION must be at least SIZE and GRACE PERIOD together.",
            hint="without GRACE PERIOD, the grace period of a window is 24 hours less its size",
            at=window.at,
        )


def grace_of(window: tree.Window) -> int:
    """Returns how long after its end a window takes records, in milliseconds."""
    return max(_DAY - window.size, 0) if window.grace is None else window.grace


def _required(expressions: Iterable[tree.Expression | None]) -> tuple[str, ...]:
    """Returns the names of all columns that expressions use, in the order of their use."""
    refs = [ref.name for item in expressions if item is not None for ref in column_refs(item)]
    return tuple(dict.fromkeys(name for name in refs if name not in WINDOW_BOUNDS))


def _check_states(items: list[AggregateItem], step: Step, environment: Environment, query: tree.Query) -> None:
    """Refuses functions whose state the value format of the left-most source cannot hold."""
    source = environment.source(query.relation.source, query.relation.at)
    for item in items:
        state = resolve_aggregate(item, step.types, environment).state
        try:
            check_columns(source.value_format, (Column("STATE", state),), is_key=False)
        except SqlStatementError as error:
            raise SqlStatementError(
                "One of the functions used in the statement has an intermediate type that the value format can "
                f"not handle. Please remove the function or change the format. {item.name}: {error.message}",
                at=query.at,
            ) from error


def _result_type(item: AggregateItem, step: Step, environment: Environment) -> SqlType:
    call = resolve_aggregate(item, step.types, environment)
    if step.kind == "TABLE" and call.undo is None:
        raise SqlStatementError(
            f"The aggregation function(s) ({item.name}) cannot be applied to a table source, only to a stream source.",
            at=item.arguments[0].at if item.arguments else None,
        )
    return call.result


class _Rewriter:
    def __init__(self, groups: dict[object, str], environment: Environment, query: tree.Query) -> None:
        self.groups = groups
        self.environment = environment
        self.query = query
        self.aggregates: list[AggregateItem] = []
        self.ungrouped: list[tree.Expression] = []
        self._known: dict[object, str] = {}

    def rewrite(self, expression: tree.Expression, clause: str) -> tree.Expression:
        result = rewrite(expression, self._replace)
        available = {*self.groups.values(), *(item.column for item in self.aggregates)}
        if clause == "SELECT" and self.query.window is not None:
            available |= set(WINDOW_BOUNDS)
        for ref in column_refs(result):
            if ref.name not in available and clause == "SELECT":
                self.ungrouped.append(expression)
                break
            if ref.name not in available:
                raise SqlStatementError(
                    f"Non-aggregate {clause} expression not part of GROUP BY: {expression_text(ref)}",
                    hint="add the column to GROUP BY, or use an aggregate function",
                    at=expression.at,
                )
        return result

    def _replace(self, part: tree.Expression) -> tree.Expression | None:
        name = self.groups.get(expression_key(part))
        if name is not None:
            return tree.ColumnRef(at=part.at, name=name)
        if not isinstance(part, tree.Call):
            return None
        self.environment.functions.find(part.name)  # an unknown function is told before its arguments are
        if not self.environment.functions.is_aggregate(part.name):
            return None
        for argument in part.arguments:
            for inner in parts(argument):
                if isinstance(inner, tree.Call) and self.environment.functions.is_aggregate(inner.name):
                    raise SqlStatementError(
                        f"Aggregate functions can not be nested: {part.name}({expression_text(inner)})", at=inner.at
                    )
                if isinstance(inner, tree.ColumnRef) and inner.name in WINDOW_BOUNDS and self.query.window is not None:
                    raise SqlStatementError(
                        f"Window bounds column {inner.name} can only be used in the SELECT clause of windowed "
                        "aggregations and can not be passed to aggregate functions.",
                        at=inner.at,
                    )
        known = self._known.get(expression_key(part))
        if known is None:
            # The name is that of the column in the state: with another function, the state is another one.
            known = expression_text(part)
            while known in self.groups.values():
                known = f"_{known}"
            self._known[expression_key(part)] = known
            self.aggregates.append(AggregateItem(known, part.name, part.arguments))
        return tree.ColumnRef(at=part.at, name=known)
