"""Aggregate and table functions over rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from millstream.sql.closures import log_error
from millstream.sql.formats.rows import JoinAll, column_joiner
from millstream.sql.functions import AggregateCall, TableCall
from millstream.sql.functions.catalogue import Accumulator
from millstream.sql.lowering.functions import Projection, Row, RowExpressions
from millstream.sql.planner.calls import aggregate_arguments, resolve_aggregate, resolve_table
from millstream.sql.planner.environment import Environment
from millstream.sql.planner.steps import AggregateItem
from millstream.sql.syntax import tree
from millstream.sql.types import SqlType

State = tuple[Any, ...]


class AggregateArguments(Projection):
    """Evaluates the arguments of all aggregate functions of a query: a row with a column for each."""

    def __init__(
        self, items: Sequence[AggregateItem], columns: Mapping[str, SqlType], environment: Environment
    ) -> None:
        calls = [resolve_aggregate(item, columns, environment) for item in items]
        arguments: list[tuple[str, tree.Expression]] = []
        nulls: list[SqlType] = []
        for item, call in zip(items, calls, strict=True):
            for index, argument in enumerate(aggregate_arguments(item)[: call.columns]):
                arguments.append((f"{item.column}_{index}", argument))
                nulls.append(call.types[index])
        super().__init__(arguments, columns, environment)
        self.types = {
            name: bound_expression.type or null
            for name, bound_expression, null in zip(self.names, self.bind(), nulls, strict=True)
        }


class _Step:
    """One aggregate function of a query.

    Attributes:
        column: The column of the result.
        call: The function.
        arguments: Returns its arguments, from a row of `AggregateArguments`.
        add: Returns the state with a row added.
        finish_all: Returns the results of states.
    """

    def __init__(self, column: str, call: AggregateCall, names: Sequence[str]) -> None:
        self.column = column
        self.call = call
        self.arguments = _arguments(call, names)
        self.add = self._adder(names)
        finish = call.accumulator.finish
        is_result = type(call.accumulator).finish is Accumulator.finish
        self.finish_all: Callable[[Sequence[Any]], Sequence[Any]] = (
            (lambda states: states) if is_result else lambda states: list(map(finish, states))
        )

    def _adder(self, names: Sequence[str]) -> Callable[[Any, Row], Any]:
        add, arguments = self.call.accumulator.add, self.arguments
        if len(names) == 1 and not any(self.call.converters):
            (name,) = names
            return lambda state, row: add(state, row[name])
        return lambda state, row: add(state, *arguments(row))


def _arguments(call: AggregateCall, names: Sequence[str]) -> Callable[[Row], Sequence[Any]]:
    if not any(call.converters):
        return lambda row: [row[name] for name in names]
    converters = tuple(zip(names, call.converters, strict=False))
    return lambda row: [
        row[name] if convert is None or row[name] is None else convert(row[name]) for name, convert in converters
    ]


class Aggregator:
    """The aggregate functions of a query, over rows of `AggregateArguments`; the state is a tuple with theirs."""

    def __init__(
        self, items: Sequence[AggregateItem], columns: Mapping[str, SqlType], environment: Environment
    ) -> None:
        self.items = tuple(items)
        self.columns = dict(columns)
        self.environment = environment
        self._steps: tuple[_Step, ...] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_steps": None}

    def steps(self) -> tuple[_Step, ...]:
        """Returns the step of each call."""
        if self._steps is None:
            steps = []
            for item in self.items:
                call = resolve_aggregate(item, self.columns, self.environment)
                count = min(call.columns, len(aggregate_arguments(item)))
                steps.append(_Step(item.column, call, [f"{item.column}_{index}" for index in range(count)]))
            self._steps = tuple(steps)
        return self._steps

    @property
    def state(self) -> dict[str, SqlType]:
        """The columns of the state, with their types."""
        return {step.column: step.call.state for step in self.steps()}

    def initial(self) -> State:
        """Returns the state of an empty group."""
        return tuple(step.call.accumulator.initial() for step in self.steps())

    def add(self, row: Row, state: State) -> State:
        """Returns the state with a row added."""
        steps = self._steps or self.steps()
        if len(steps) == 1:
            return (steps[0].add(state[0], row),)
        return tuple([step.add(before, row) for before, step in zip(state, steps, strict=True)])

    def undo(self, row: Row, state: State) -> State:
        """Returns the state with a row taken out."""
        return tuple(
            step.call.accumulator.undo(before, *step.arguments(row))
            for before, step in zip(state, self.steps(), strict=True)
        )

    def merge(self, _key: Any, left: State, right: State) -> State:
        """Returns the state of two sessions together."""
        triples = zip(left, right, self.steps(), strict=True)
        return tuple(step.call.accumulator.merge(one, other) for one, other, step in triples)

    def finish(self, state: State) -> Row:
        """Returns the results, by column."""
        steps = self._steps or self.steps()
        return {step.column: step.call.accumulator.finish(result) for result, step in zip(state, steps, strict=True)}

    @property
    def deterministic(self) -> bool:
        """Whether all functions are; a user's may not be."""
        return all(step.call.accumulator.deterministic for step in self.steps())

    def finish_all(self, states: Sequence[State]) -> dict[str, Sequence[Any]]:
        """Returns the results of each column for all states."""
        return {
            step.column: step.finish_all(list(map(itemgetter(index), states)))
            for index, step in enumerate(self.steps())
        }


for _method in (Aggregator.initial, Aggregator.add):
    vars(_method)["pure"] = True  # so the engine can aggregate records before those below have processed earlier ones


def counts_rows(item: AggregateItem) -> bool:
    """Whether a call counts the rows of a group: the engine can do it."""
    return item.name.upper() == "COUNT" and not aggregate_arguments(item)


class Counter(Aggregator):
    """Calls that count rows; the state is the number of rows, which the engine counts."""

    def finish(self, state: Any) -> Row:
        """Returns the results, by column."""
        return {item.column: state for item in self.items}

    def finish_all(self, states: Sequence[Any]) -> dict[str, Sequence[Any]]:
        """Returns the results of each column for all states."""
        return {item.column: states for item in self.items}


class GroupResult:
    """Makes the row of a group: its key columns, the results of the functions, and the bounds of its window."""

    pure = True

    def __init__(self, aggregator: Aggregator, key: Sequence[str], *, windowed: bool) -> None:
        self.aggregator = aggregator
        self.key = tuple(key)
        self.windowed = windowed
        self._joined: JoinAll | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_joined": None}

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

    @property
    def for_all(self) -> Callable[[Sequence[Any], Sequence[Any]], list[Row | None]] | None:
        """The function that returns the rows of many groups."""
        return self._rows if self.aggregator.deterministic else None

    def _rows(self, keys: Sequence[Any], states: Sequence[Any]) -> list[Row | None]:
        if None in states:
            return list(map(self, keys, states))
        columns = self.aggregator.finish_all(states)
        if self.windowed:
            columns["WINDOWSTART"], columns["WINDOWEND"] = [key.start for key in keys], [key.end for key in keys]
            keys = [key.key for key in keys]
        if len(self.key) == 1:
            columns[self.key[0]] = keys
        elif self.key:
            columns.update(zip(self.key, zip(*keys, strict=True), strict=True))
        if self._joined is None:
            self._joined = column_joiner(tuple(columns))
        return self._joined(list(columns.values()))


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
