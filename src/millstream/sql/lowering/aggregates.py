"""Aggregate and table functions over rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millstream.sql.closures import log_error
from millstream.sql.functions import AggregateCall, TableCall
from millstream.sql.lowering.functions import Row, RowExpressions
from millstream.sql.planner.calls import aggregate_arguments, resolve_aggregate, resolve_table
from millstream.sql.planner.environment import Environment
from millstream.sql.planner.steps import AggregateItem
from millstream.sql.syntax import tree
from millstream.sql.types import SqlType

State = tuple[Any, ...]


class AggregateArguments(RowExpressions):
    """Evaluates the arguments of all aggregate functions of a query: a row with a column for each."""

    def __init__(
        self, items: Sequence[AggregateItem], columns: Mapping[str, SqlType], environment: Environment
    ) -> None:
        calls = [resolve_aggregate(item, columns, environment) for item in items]
        expressions: list[tree.Expression] = []
        self.names: list[str] = []
        self.types: dict[str, SqlType] = {}
        nulls: list[SqlType] = []
        for item, call in zip(items, calls, strict=True):
            for index, argument in enumerate(aggregate_arguments(item)[: call.columns]):
                expressions.append(argument)
                self.names.append(f"{item.column}_{index}")
                nulls.append(call.types[index])
        super().__init__(expressions, columns, environment)
        for name, bound_expression, null in zip(self.names, self.bind(), nulls, strict=True):
            self.types[name] = bound_expression.type or null

    def __call__(self, row: Row | None) -> Row | None:
        """Returns the arguments for a row."""
        if row is None:
            return None
        runs = self._runs or self.compile()
        return {name: run(row) for name, run in zip(self.names, runs, strict=True)}


class Aggregator:
    """The aggregate functions of a query, over rows of `AggregateArguments`; the state is a tuple with theirs."""

    def __init__(
        self, items: Sequence[AggregateItem], columns: Mapping[str, SqlType], environment: Environment
    ) -> None:
        self.items = tuple(items)
        self.columns = dict(columns)
        self.environment = environment
        self._calls: list[tuple[str, AggregateCall, list[str]]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_calls": None}

    def calls(self) -> list[tuple[str, AggregateCall, list[str]]]:
        """Returns the column, the function and the columns of the arguments of each call."""
        if self._calls is None:
            self._calls = []
            for item in self.items:
                call = resolve_aggregate(item, self.columns, self.environment)
                names = [f"{item.column}_{index}" for index in range(min(call.columns, len(aggregate_arguments(item))))]
                self._calls.append((item.column, call, names))
        return self._calls

    @property
    def state(self) -> dict[str, SqlType]:
        """The columns of the state, with their types."""
        return {column: call.state for column, call, _names in self.calls()}

    def initial(self) -> State:
        """Returns the state of an empty group."""
        return tuple(call.accumulator.initial() for _column, call, _names in self.calls())

    def add(self, row: Row, state: State) -> State:
        """Returns the state with a row added."""
        return tuple(
            [
                call.accumulator.add(before, *_arguments(call, names, row))
                for before, (_column, call, names) in zip(state, self._calls or self.calls(), strict=True)
            ]
        )

    def undo(self, row: Row, state: State) -> State:
        """Returns the state with a row taken out."""
        return tuple(
            call.accumulator.undo(before, *_arguments(call, names, row))
            for before, (_column, call, names) in zip(state, self.calls(), strict=True)
        )

    def merge(self, _key: Any, left: State, right: State) -> State:
        """Returns the state of two sessions together."""
        pairs = zip(left, right, self.calls(), strict=True)
        return tuple(call.accumulator.merge(one, other) for one, other, (_column, call, _names) in pairs)

    def finish(self, state: State) -> Row:
        """Returns the results, by column."""
        calls = self._calls or self.calls()
        return {
            column: call.accumulator.finish(result) for result, (column, call, _names) in zip(state, calls, strict=True)
        }


def counts_rows(item: AggregateItem) -> bool:
    """Whether a call counts the rows of a group: the engine can do it."""
    return item.name.upper() == "COUNT" and not aggregate_arguments(item)


class Counter(Aggregator):
    """Calls that count rows; the state is the number of rows, which the engine counts."""

    def finish(self, state: Any) -> Row:
        """Returns the results, by column."""
        return {item.column: state for item in self.items}


def _arguments(call: AggregateCall, names: Sequence[str], row: Row) -> Sequence[Any]:
    if not any(call.converters):
        return [row[name] for name in names]
    return [
        value if convert is None or value is None else convert(value)
        for value, convert in zip([row[name] for name in names], call.converters, strict=False)
    ]


class GroupResult:
    """Makes the row of a group: its key columns, the results of the functions, and the bounds of its window."""

    pure = True

    def __init__(self, aggregator: Aggregator, key: Sequence[str], *, windowed: bool) -> None:
        self.aggregator = aggregator
        self.key = tuple(key)
        self.windowed = windowed

    def __call__(self, key: Any, state: Any) -> Row | None:
        """Returns the row of a group; None if it was deleted."""
        if state is None:
            return None
        row = self.aggregator.finish(state)
        if self.windowed:
            row["WINDOWSTART"], row["WINDOWEND"] = key.start, key.end
            key = key.key
        if len(self.key) == 1:
            row[self.key[0]] = key
        elif self.key:
            row.update(zip(self.key, key, strict=True))
        return row


class Exploder(RowExpressions):
    """Table functions: returns a row for each of their results, in step; a shorter one is filled with nulls."""

    def __init__(
        self, items: Sequence[AggregateItem], columns: Mapping[str, SqlType], environment: Environment
    ) -> None:
        self.items = tuple(items)
        super().__init__([argument for item in items for argument in item.arguments], columns, environment)
        self._calls: list[TableCall] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_calls": None}

    def __call__(self, row: Row | None) -> list[Row]:
        """Returns the rows that replace a row."""
        if row is None:
            return []
        runs = iter(self._runs or self.compile())
        if self._calls is None:
            self._calls = [resolve_table(item, self.columns, self.environment) for item in self.items]
        results = []
        for item, call in zip(self.items, self._calls, strict=True):
            values = [next(runs)(row) for _argument in item.arguments]
            results.append((item.column, self._rows(call, values)))
        longest = max(len(rows) for _column, rows in results)
        return [
            {**row, **{column: rows[index] if index < len(rows) else None for column, rows in results}}
            for index in range(longest)
        ]

    def _rows(self, call: TableCall, values: list[Any]) -> list[Any]:
        converted = [
            value if convert is None or value is None else convert(value)
            for value, convert in zip(values, call.converters, strict=True)
        ]
        if call.strict and any(value is None for value in converted):
            return []
        try:
            return call.call(*converted)
        except Exception as error:  # noqa: BLE001  (a function that fails yields no rows)
            log_error(call.name, error)
            return []
