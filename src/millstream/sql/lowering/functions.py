"""Functions of rows: SQL expressions in the form that operators of a topology call.

An object holds syntax trees and the types of columns, and compiles them in the process that calls it. So a program
contains no compiled code, and a comparison of two programs sees the text of a changed expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from millstream.sql.binder import bound
from millstream.sql.closures import Run, compile_bound, guarded, log_error
from millstream.sql.columns import RunAll, guarded_columns
from millstream.sql.formats.rows import JoinAll, column_joiner
from millstream.sql.planner.environment import Environment
from millstream.sql.syntax import tree
from millstream.sql.syntax.text import text_of as expression_text
from millstream.sql.types import SqlType

Row = dict[str, Any]


class RowExpressions:
    """Expressions over rows, compiled on first use.

    The engine calls ``for_all`` with many rows at once; the results are those of a call for each.

    Attributes:
        expressions: The expressions.
        columns: The columns of rows, with their types.
        environment: Functions and types.
    """

    pure = True

    def __init__(
        self, expressions: Sequence[tree.Expression], columns: Mapping[str, SqlType], environment: Environment
    ) -> None:
        self.expressions = tuple(expressions)
        self.columns = dict(columns)
        self.environment = environment
        self._runs: tuple[Run, ...] | None = None
        self._parts: tuple[tuple[str, Run], ...] | None = None
        self._all: tuple[RunAll, ...] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_runs": None, "_parts": None, "_all": None}

    def __str__(self) -> str:
        return ", ".join(map(expression_text, self.expressions))

    def bind(self) -> list[bound.Bound]:
        """Returns the bound expressions."""
        binder = self.environment.binder(self.columns)
        return [binder.bind(expression) for expression in self.expressions]

    def compile(self) -> tuple[Run, ...]:
        """Returns the compiled expressions, each with a guard."""
        if self._runs is None:
            self._runs = tuple(
                guarded(item, expression_text(expression))
                for item, expression in zip(self.bind(), self.expressions, strict=True)
            )
        return self._runs

    def compile_parts(self) -> tuple[tuple[str, Run], ...]:
        """Returns the compiled expressions with their texts; the caller handles their errors, which saves a call."""
        if self._parts is None:
            texts = map(expression_text, self.expressions)
            self._parts = tuple(zip(texts, map(compile_bound, self.bind()), strict=True))
        return self._parts

    def evaluate_all(self, rows: Sequence[Row], otherwise: Any = None) -> list[list[Any]]:
        """Returns the values of each expression for all rows; ``otherwise`` where it fails."""
        if self._all is None:
            self._all = tuple(
                guarded_columns(item, expression_text(expression), otherwise)
                for item, expression in zip(self.bind(), self.expressions, strict=True)
            )
        return [run_all(rows) for run_all in self._all]


class Condition(RowExpressions):
    """A condition; it is false for a null row."""

    def __call__(self, row: Row | None) -> bool:
        """Whether the condition is true for a row."""
        if row is None:
            return False
        ((text, run),) = self._parts or self.compile_parts()
        try:
            return bool(run(row))
        except Exception as error:  # noqa: BLE001  (a condition that fails is false)
            log_error(text, error)
            return False

    def for_all(self, rows: Sequence[Row | None]) -> list[Any]:
        """Returns a value for each row, which is true if the condition is."""
        if None in rows:
            return list(map(self, rows))
        (values,) = self.evaluate_all(cast("Sequence[Row]", rows), otherwise=False)
        return values


class Projection(RowExpressions):
    """Makes a row of expressions; a null row stays null."""

    def __init__(
        self,
        items: Sequence[tuple[str, tree.Expression]],
        columns: Mapping[str, SqlType],
        environment: Environment,
    ) -> None:
        super().__init__([expression for _name, expression in items], columns, environment)
        self.names = tuple(name for name, _expression in items)
        self._items: tuple[tuple[str, str, Run], ...] = ()
        self._joined: JoinAll | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_items": (), "_joined": None}

    def _compiled(self) -> tuple[tuple[str, str, Run], ...]:
        parts = zip(self.names, self.compile_parts(), strict=True)
        self._items = tuple((name, text, run) for name, (text, run) in parts)
        return self._items

    def __call__(self, row: Row | None) -> Row | None:
        """Returns the new row."""
        if row is None:
            return None
        result = {}
        for name, text, run in self._items or self._compiled():
            try:
                result[name] = run(row)
            except Exception as error:  # noqa: BLE001  (an expression that fails is null)
                log_error(text, error)
                result[name] = None
        return result

    def for_all(self, rows: Sequence[Row | None]) -> list[Row | None]:
        """Returns the new rows."""
        if None in rows or not self.names:
            return list(map(self, rows))
        if self._joined is None:
            self._joined = column_joiner(self.names)
        return self._joined(self.evaluate_all(cast("Sequence[Row]", rows)))


class KeyExpressions(RowExpressions):
    """Makes a key of expressions: the value of one, a tuple of several, None of none.

    Attributes:
        complete: Whether a null in one of several expressions makes the key null.
    """

    def __init__(
        self,
        expressions: Sequence[tree.Expression],
        columns: Mapping[str, SqlType],
        environment: Environment,
        *,
        complete: bool = False,
    ) -> None:
        super().__init__(expressions, columns, environment)
        self.complete = complete

    def __call__(self, row: Row | None) -> Any:
        """Returns the key for a row."""
        if row is None:
            return None
        runs = self._runs or self.compile()
        if len(runs) == 1:
            return runs[0](row)
        if not runs:
            return None
        key = tuple(run(row) for run in runs)
        return None if self.complete and None in key else key

    def for_all(self, rows: Sequence[Row | None]) -> list[Any]:
        """Returns the key for each row."""
        if None in rows or not self.expressions:
            return list(map(self, rows))
        columns = self.evaluate_all(cast("Sequence[Row]", rows))
        if len(columns) == 1:
            return columns[0]
        keys = zip(*columns, strict=True)
        return [None if None in key else key for key in keys] if self.complete else list(keys)
