"""Takes lookups from the condition of a pull query on a table."""

from __future__ import annotations

from typing import Any

from millstream.errors import SqlError, SqlStatementError
from millstream.sql.binder.rewrite import column_refs
from millstream.sql.catalog.sources import WINDOW_BOUNDS, WINDOWEND, WINDOWSTART, Column, DataSource
from millstream.sql.planner.environment import Environment
from millstream.sql.queries.lookups import ALL, Bounds, FullScan, KeyLookup, KeyRange, Lookup
from millstream.sql.queries.predicates import Alternative, alternatives, column_and_other
from millstream.sql.queries.rules import enabled, where_error
from millstream.sql.statements.insert import fits_strictly, strict_value
from millstream.sql.syntax import tree
from millstream.sql.syntax.text import text_of
from millstream.sql.types import BIGINT, BYTES, INTEGER, STRING

_ORDER = {"<", "<=", ">", ">="}
_NAMES = {
    "=": "EQUAL",
    "<>": "NOT_EQUAL",
    "<": "LESS_THAN",
    "<=": "LESS_THAN_OR_EQUAL",
    ">": "GREATER_THAN",
    ">=": "GREATER_THAN_OR_EQUAL",
    "IS DISTINCT FROM": "IS_DISTINCT_FROM",
    "IS NOT DISTINCT FROM": "IS_NOT_DISTINCT_FROM",
}


def lookups_of(source: DataSource, condition: tree.Expression, environment: Environment) -> tuple[Lookup, ...]:
    """Returns lookups that find all rows for which a condition holds, and perhaps others.

    Raises:
        SqlStatementError: No lookup but a scan does, and scans are disabled; or a key or a bound of windows is wrong.
    """
    return _Constraints(source, environment).lookups(condition)


class _ScanNeeded(Exception):  # noqa: N818  (no error: a way to find rows)
    """Rows can only be found by a scan."""


class _Constraints:
    def __init__(self, source: DataSource, environment: Environment) -> None:
        self.source = source
        self.environment = environment
        self.keys = {column.name: column for column in source.key}
        self.scans = enabled(environment, "ksql.query.pull.table.scan.enabled")
        self.ranges = enabled(environment, "ksql.query.pull.range.scan.enabled")

    def lookups(self, condition: tree.Expression) -> tuple[Lookup, ...]:
        found = alternatives(condition)
        try:
            if found is None:
                self.scan("The WHERE clause has too many alternatives", condition)
                return (FullScan(),)
            for alternative in found:
                self.check(alternative)
            return tuple(self.lookup(alternative) for alternative in found)
        except _ScanNeeded:
            return (FullScan(),)

    def scan(self, message: str, part: tree.Expression) -> None:
        """Takes to a scan, or raises the error that says why one is needed."""
        if self.scans:
            raise _ScanNeeded
        raise where_error(message, self.source, part.at)

    # ----- checks ----------------------------------------------------------------------------------------------------

    def check(self, alternative: Alternative) -> None:
        seen: set[str] = set()
        for part in alternative:
            match part:
                case tree.Comparison():
                    self.check_comparison(part, seen)
                case tree.Like():
                    self.check_like(part)
                case _:
                    self.scan(f"Unsupported expression in WHERE clause: {text_of(part)}", part)
        first = alternative[0]
        if not seen:
            shown = text_of(first)
            for part in alternative[1:]:
                shown = f"({shown} AND {text_of(part)})"
            self.scan(f"WHERE clause missing key column for disjunct: {shown}", first)
        if len(seen) < len(self.keys):
            named = ", ".join(f"`{name}`" for name in self.keys if name in seen)
            self.scan(
                "Multi-column sources must specify every key in the WHERE clause. "
                f"Specified: [{named}] Expected: [{self.key_text()}]",
                first,
            )

    def key_text(self) -> str:
        return ", ".join(f"{column} KEY" for column in self.source.key)

    def check_comparison(self, part: tree.Comparison, seen: set[str]) -> None:
        column, operator, other = column_and_other(part)
        if column is None:
            self.scan("A comparison must directly reference a key column", part)
            return
        if any(True for _ in column_refs(other)):
            self.scan("A comparison must be between a key column and a resolvable expression", part)
            return
        if column.name in WINDOW_BOUNDS and self.source.window is not None:
            if operator != "=" and operator not in _ORDER:
                raise where_error(f"Unsupported {column.name} bounds: {_NAMES[operator]}", self.source, part.at)
        elif column.name in self.keys:
            if operator != "=" and (operator not in _ORDER or not (self.ranges or self.scans)):
                self.scan(f"Bound on key columns '[{self.key_text()}]' must currently be '='", part)
            if column.name in seen and not self.scans:
                raise where_error(
                    "A comparison condition on the key column cannot be combined with other comparisons such as an IN "
                    "predicate",
                    self.source,
                    part.at,
                )
            seen.add(column.name)

    def check_like(self, part: tree.Like) -> None:
        if not isinstance(part.operand, tree.ColumnRef):
            self.scan("Like condition must be between strings", part)
        elif not (
            isinstance(part.pattern, tree.Literal)
            and (part.pattern.value is None or isinstance(part.pattern.value, str))
        ):
            raise where_error(f"Like condition on non-string pattern {text_of(part.pattern)}", self.source, part.at)

    # ----- lookups ---------------------------------------------------------------------------------------------------

    def lookup(self, alternative: Alternative) -> Lookup:
        """Returns the lookup of an alternative that `check` has let pass; of two bounds of a key, = is the better."""
        chosen: dict[str, tuple[str, Any]] = {}
        windows = {name: _Window(self, name) for name in WINDOW_BOUNDS}
        for part in alternative:
            if not isinstance(part, tree.Comparison):
                continue
            column, operator, other = column_and_other(part)
            assert column is not None
            if column.name in self.keys:
                value = self.key_value(self.keys[column.name], other, part)
                if column.name not in chosen or (operator == "=" and chosen[column.name][0] != "="):
                    chosen[column.name] = operator, value
            elif column.name in windows and self.source.window is not None:
                windows[column.name].add(operator, other, part)
        first = alternative[0]
        if all(operator == "=" for operator, _value in chosen.values()):
            key = tuple(chosen[name][1] for name in self.keys)
            start, end = windows[WINDOWSTART].bounds, windows[WINDOWEND].bounds
            return KeyLookup(key, start, end)
        return self.range(chosen, first)

    def range(self, chosen: dict[str, tuple[str, Any]], part: tree.Expression) -> Lookup:
        (column, *others) = self.source.key
        if others or self.source.window is not None or column.type not in (STRING, BYTES) or not self.ranges:
            self.scan("Query requires table scan to be enabled", part)
        operator, value = chosen[column.name]
        return KeyRange(high=value) if operator in ("<", "<=") else KeyRange(low=value)

    def key_value(self, column: Column, other: tree.Expression, part: tree.Expression) -> Any:
        bound = self.environment.binder({}).bind(other)
        value = None
        try:
            fits = bound.type is None or fits_strictly(bound.type, column.type)
            value = strict_value(bound, column.type) if fits else None
        except Exception:  # noqa: BLE001  (every error of an expression: the value is no key)
            fits = False
        if not fits:
            raise SqlStatementError(
                f"{text_of(other)} can not be converted to the type of the key column: {column.name} {column.type} KEY",
                at=other.at,
            )
        if value is None:
            raise SqlStatementError(f"Primary key columns can not be NULL: {text_of(part)}", at=part.at)
        return value

    def millis(self, other: tree.Expression) -> int:
        try:
            bound = self.environment.binder({}).bind(other)
            if bound.type in (INTEGER, BIGINT):
                value = strict_value(bound, BIGINT)
                if value is not None:
                    return int(value)
        except SqlError:
            pass
        raise where_error(
            "Window bounds must resolve to an INT, BIGINT, or STRING containing a datetime", self.source, other.at
        )


class _Window:
    """The bounds of WINDOWSTART or WINDOWEND: one equality, or at most one bound on each side."""

    def __init__(self, constraints: _Constraints, name: str) -> None:
        self.constraints = constraints
        self.name = name
        self.bounds = ALL
        self.sides: set[str] = set()

    def add(self, operator: str, other: tree.Expression, part: tree.Comparison) -> None:
        side = {"=": "EQUAL", "<": "LESS_THAN", "<=": "LESS_THAN"}.get(operator, "GREATER_THAN")
        if side in self.sides:
            raise where_error(f"Duplicate {self.name} bounds on: {side}", self.constraints.source, part.at)
        self.sides.add(side)
        if "EQUAL" in self.sides and len(self.sides) > 1:
            raise where_error(
                f"`{text_of(part)}` cannot be combined with other {self.name} bounds",
                self.constraints.source,
                part.at,
            )
        time = self.constraints.millis(other)
        low, high = self.bounds.low, self.bounds.high
        match operator:
            case "=":
                low = high = time
            case "<" | "<=":
                high = time - (operator == "<")
            case _:
                low = time + (operator == ">")
        self.bounds = Bounds(low, high)
