"""CREATE OR REPLACE: which sources and queries can take the place of an earlier one, with its topic and its state."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.errors import SqlStatementError
from millstream.sql.catalog.catalog import PersistentQuery
from millstream.sql.catalog.sources import Column, DataSource
from millstream.sql.planner.steps import Aggregate, Explode, Filter, JoinStep, Project, Read, Rekey, Step
from millstream.sql.syntax import tree
from millstream.sql.syntax.text import key as expression_key, text_of as expression_text


def check_replacement(old: DataSource, new: DataSource, statement: tree.Statement) -> None:
    """Refuses a replacement that the rows of the old source do not fit.

    Raises:
        SqlStatementError: Kind, topic, formats, key or timestamp differ, or a column is missing.
    """
    if old.read_only:
        kind = old.kind.lower()
        raise SqlStatementError(
            f"Cannot add {kind} '{old.name}': CREATE OR REPLACE is not supported on source {kind}s.", at=statement.at
        )
    problems = []
    if old.kind != new.kind:
        problems.append(f"it is a {old.kind}")
    if old.topic != new.topic:
        problems.append(f"its topic is {old.topic}")
    if (old.key_format, old.value_format) != (new.key_format, new.value_format):
        problems.append("its formats are others")
    if old.timestamp != new.timestamp:
        problems.append("its timestamp column is another one")
    if old.window != new.window:
        problems.append("its window is another one")
    keys = _changed(old.key, new.key) or _changed(new.key, old.key)
    if keys:
        problems.append(
            "(Key columns must be identical. The following key columns are changed, missing or reordered: "
            f"[{', '.join(f'{column} KEY' for column in keys)}])"
        )
    values = _changed(old.value, new.value)
    if values:
        problems.append(f"(The following columns are changed, missing or reordered: [{', '.join(map(str, values))}])")
    if old.headers != new.headers:
        problems.append("its header columns are others")
    if problems:
        raise SqlStatementError(
            f"Cannot upgrade data source: DataSource '`{old.name}`' is not upgradeable: {'; '.join(problems)}.",
            hint="new value columns can be added at the end; for other changes create another source",
            at=statement.at,
        )


def _changed(old: Sequence[Column], new: Sequence[Column]) -> list[Column]:
    """Returns the old columns that the new ones do not have at the same place."""
    return [column for index, column in enumerate(old) if index >= len(new) or new[index] != column]


def check_upgrade(old: PersistentQuery, new: PersistentQuery, statement: tree.Statement) -> None:
    """Refuses a query that cannot continue with the state of the query that it replaces.

    Filters and projections may change. Sources, groups and aggregate functions may not. A query with a join, a window,
    PARTITION BY, a table function or an aggregation of a table cannot be replaced at all.

    Raises:
        SqlStatementError: The new query needs other state, or a kind of step has no upgrade.
    """
    before, after = _enforcing(old.planned.root), _enforcing(new.planned.root)
    for step in (*before, *after):
        unsupported = _unsupported(step)
        if unsupported is not None:
            raise SqlStatementError(
                f"Upgrades not yet supported for {unsupported}",
                hint="drop the query, or create another one with another name",
                at=statement.at,
            )
    if [type(step) for step in before] != [type(step) for step in after]:
        raise SqlStatementError(
            "Query is not upgradeable. The new query has other steps than the query that it replaces.",
            hint="only filters and projections can be added and removed",
            at=statement.at,
        )
    for former, latter in zip(before, after, strict=True):
        shown = [_shown(former), _shown(latter)]
        for name, first, second in _properties(former, latter):
            if first != second:
                texts = [values.get(name, value) for values, value in zip(shown, (first, second), strict=True)]
                raise SqlStatementError(
                    f"Query is not upgradeable. Plan step of type {_name(former)} must have matching {name}. "
                    f"Values differ: {_text(texts[0])} vs. {_text(texts[1])}",
                    at=statement.at,
                )


def _enforcing(step: Step) -> list[Step]:
    """Returns the steps that have state or determine it, from the result to the source."""
    match step:
        case Filter() | Project():
            return _enforcing(step.parent)
        case Aggregate():
            return [step, *_enforcing(step.parent)]
        case _:
            return [step]


def _unsupported(step: Step) -> str | None:
    match step:
        case Aggregate() if step.by_window is not None:
            return "StreamWindowedAggregate"
        case Aggregate() if step.parent.kind == "TABLE":
            return "TableAggregate"
        case Rekey():
            return f"{step.kind.capitalize()}SelectKey"
        case Explode():
            return "StreamFlatMap"
        case JoinStep() if step.foreign_key is not None:
            return "ForeignKeyTableTableJoin"
        case JoinStep():
            return f"{step.left.kind.capitalize()}{step.right.kind.capitalize()}Join"
        case Read() if step.window is not None:
            return f"Windowed{step.kind.capitalize()}Source"
        case _:
            return None


def _name(step: Step) -> str:
    if isinstance(step, Aggregate):
        return "StreamAggregate"
    return f"{step.kind.capitalize()}Source"


def _properties(former: Step, latter: Step) -> list[tuple[str, object, object]]:
    if isinstance(former, Aggregate) and isinstance(latter, Aggregate):
        return [
            ("groupByExpressions", _keys(former.groups), _keys(latter.groups)),
            ("aggregationFunctions", _calls(former), _calls(latter)),
            ("nonAggregateColumns", former.required, latter.required),
        ]
    assert isinstance(former, Read)
    assert isinstance(latter, Read)
    one, two = former.source, latter.source
    return [
        ("topicName", one.topic, two.topic),
        ("formats", (one.key_format.name, one.value_format.name), (two.key_format.name, two.value_format.name)),
        ("timestampColumn", one.timestamp, two.timestamp),
    ]


def _keys(expressions: Sequence[tree.Expression]) -> list[object]:
    return [expression_key(expression) for expression in expressions]


def _calls(step: Aggregate) -> list[object]:
    return [(item.name, _keys(item.arguments)) for item in step.aggregates]


def _shown(step: Step) -> dict[str, object]:
    """Returns the properties of a step that are expressions, as their texts."""
    if not isinstance(step, Aggregate):
        return {}
    return {
        "groupByExpressions": [expression_text(expression) for expression in step.groups],
        "aggregationFunctions": [
            f"{item.name}({', '.join(map(expression_text, item.arguments))})" for item in step.aggregates
        ],
    }


def _text(value: object) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list | tuple) else str(value)
