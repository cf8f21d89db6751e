"""Random queries in the project's SQL and in DuckDB's.

Every expression has three texts: one in our SQL, its value in DuckDB, and, in DuckDB, whether our evaluation raises.
The differences of the dialects are written here, and nowhere else:

- A comparison with a NULL is false (`_compared`), so that AND, OR and NOT have two values.
- Arithmetic with a NULL, and division by zero, raise. An error that leaves the expression is NULL in SELECT and false
  in WHERE and HAVING; one inside of an argument that is itself a call is NULL there (`argument`).
- INTEGER and BIGINT wrap around (`wrapped`), and their division truncates. DuckDB computes with 128 bits.
- CAST of a DOUBLE to an integer truncates; DuckDB rounds.
- GROUP BY drops rows whose group is NULL or raises. SUM and AVG of nothing are 0.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

INT, BIGINT, DOUBLE, STRING, BOOLEAN = "INT", "BIGINT", "DOUBLE", "STRING", "BOOLEAN"
DUCKDB_TYPES = {INT: "INTEGER", BIGINT: "BIGINT", DOUBLE: "DOUBLE", STRING: "VARCHAR", BOOLEAN: "BOOLEAN"}
_NUMBERS = (INT, BIGINT, DOUBLE)
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_NEVER = "FALSE"


class Expression(NamedTuple):
    """An expression.

    Attributes:
        type: Its type.
        ours: Its text in our SQL.
        duckdb: Its value in DuckDB's SQL.
        raises: Whether it raises, in DuckDB's SQL.
        is_call: It is a call of a function, or a CAST: as an argument, it is NULL if it raises.
    """

    type: str
    ours: str
    duckdb: str
    raises: str = _NEVER
    is_call: bool = False

    @property
    def guarded(self) -> str:
        """The value in a select list: NULL if the expression raises."""
        return self.duckdb if self.raises == _NEVER else f"CASE WHEN {self.raises} THEN NULL ELSE {self.duckdb} END"

    @property
    def condition(self) -> str:
        """Whether it passes WHERE or HAVING: an expression that raises does not."""
        return f"CASE WHEN {self.raises} THEN FALSE ELSE {self.duckdb} END"


def any_of(*conditions: str) -> str:
    """A condition that is true if one of them is."""
    known = [condition for condition in dict.fromkeys(conditions) if condition != _NEVER]
    return f"({' OR '.join(known)})" if known else _NEVER


def argument(of: Expression) -> tuple[str, str]:
    """The value of an argument of a function, and whether the call raises because of it."""
    return (of.guarded, _NEVER) if of.is_call else (of.duckdb, of.raises)


def wrapped(value: str, type_: str) -> str:
    """A value of a wider type, as it is in a type that wraps around."""
    if type_ == DOUBLE:
        return value
    half, whole = (2**31, 2**32) if type_ == INT else (2**63, 2**64)
    wide = f"((({value}) + {half}::HUGEINT) % {whole}::HUGEINT + {whole}::HUGEINT) % {whole}::HUGEINT - {half}::HUGEINT"
    return f"({wide})::{DUCKDB_TYPES[type_]}"


class Column(NamedTuple):
    """A column: its type, and its names in both queries."""

    type: str
    ours: str
    duckdb: str


class Generator:
    """Makes random expressions over columns."""

    def __init__(self, rng: random.Random, columns: list[Column]) -> None:
        self.rng = rng
        self.columns = columns

    def expression(self, type_: str, depth: int = 2) -> Expression:
        """Returns an expression of a type."""
        makers: dict[str, list[Callable[[int], Expression]]] = {
            INT: [lambda d: self._arithmetic(INT, d), self._length, lambda d: self._choice(INT, d), self._truncated],
            BIGINT: [lambda d: self._arithmetic(BIGINT, d), lambda d: self._choice(BIGINT, d), self._widened],
            DOUBLE: [lambda d: self._arithmetic(DOUBLE, d), lambda d: self._choice(DOUBLE, d), self._floor],
            STRING: [self._text, self._concat, self._substring, lambda d: self._choice(STRING, d)],
            BOOLEAN: [self.condition],
        }
        if depth == 0 or self.rng.random() < 0.25:
            return self._leaf(type_)
        return self.rng.choice(makers[type_])(depth - 1)

    def condition(self, depth: int = 2) -> Expression:
        """Returns a condition."""
        if depth <= 0:
            return self._comparison(0)
        kinds = [self._comparison, self._comparison, self._junction, self._negation, self._null_test, self._list]
        return self.rng.choice([*kinds, self._between, self._like])(depth - 1)

    def _leaf(self, type_: str) -> Expression:
        columns = [column for column in self.columns if column.type == type_]
        if columns and self.rng.random() < 0.8:
            column = self.rng.choice(columns)
            return Expression(type_, column.ours, column.duckdb)
        if type_ == STRING:
            text = self.rng.choice(["", "a", "bc", "B c", "it''s"])
            return Expression(STRING, f"'{text}'", f"'{text}'")
        if type_ == BOOLEAN:
            text = self.rng.choice(["TRUE", "FALSE"])
            return Expression(BOOLEAN, text, text)
        if type_ == DOUBLE:
            number = f"{self.rng.randrange(40) / 4}E0"
            return Expression(DOUBLE, number, f"{number}::DOUBLE")
        number = str(self.rng.choice([0, 1, 2, 3, 7, 2147483647]))
        if type_ == BIGINT:
            number = str(self.rng.choice([3_000_000_000, 4_611_686_018_427_387_904]))
        return Expression(type_, number, f"{number}::{DUCKDB_TYPES[type_]}")

    # ----- values ----------------------------------------------------------------------------------------------------

    def _arithmetic(self, type_: str, depth: int) -> Expression:
        left = self.expression(type_, depth)
        right = self.expression(self.rng.choice(_NUMBERS[: _NUMBERS.index(type_) + 1]), depth)
        operator = self.rng.choice("+-*/%" if type_ != DOUBLE else "+-*")
        raises = [left.raises, right.raises, f"({left.duckdb}) IS NULL", f"({right.duckdb}) IS NULL"]
        one, other, written = left.duckdb, right.duckdb, operator
        if type_ == DOUBLE:
            other = f"({other})::DOUBLE"
        else:
            one, other = f"({one})::HUGEINT", f"({other})::HUGEINT"
            if operator in "/%":
                raises.append(f"({right.duckdb}) = 0")
                written, other = {"/": "//", "%": "%"}[operator], f"NULLIF({other}, 0)"
        value = wrapped(f"({one}) {written} ({other})", type_)
        return Expression(type_, f"({left.ours} {operator} {right.ours})", value, any_of(*raises))

    def _call(self, type_: str, name: str, duckdb: str, *arguments: Expression) -> Expression:
        """A call; ``duckdb`` is a pattern for the values of the arguments."""
        values = [argument(each) for each in arguments]
        ours = f"{name}({', '.join(each.ours for each in arguments)})"
        written = duckdb.format(*(f"({value})" for value, _raises in values))
        return Expression(type_, ours, written, any_of(*(raises for _value, raises in values)), is_call=True)

    def _length(self, depth: int) -> Expression:
        if self.rng.random() < 0.5:
            return self._call(INT, "LEN", "length({})::INTEGER", self.expression(STRING, depth))
        part = self.rng.choice(["'a'", "'b'", "'ab'"])
        found = "CASE WHEN {0} IS NULL THEN 0 ELSE instr({0}, {1})::INTEGER END"
        return self._call(INT, "INSTR", found, self.expression(STRING, depth), Expression(STRING, part, part))

    def _truncated(self, depth: int) -> Expression:
        inner = self.expression(DOUBLE, depth)
        value = (
            f"CASE WHEN {inner.raises} THEN NULL ELSE least(greatest(trunc({inner.duckdb}), -2147483648), 2147483647)"
        )
        nulls = f"({inner.duckdb}) IS NULL"
        value = f"CASE WHEN {nulls} THEN NULL ELSE ({value} END)::INTEGER END"
        return Expression(INT, f"CAST({inner.ours} AS INT)", value, is_call=True)

    def _widened(self, depth: int) -> Expression:
        inner = self.expression(INT, depth)
        return Expression(BIGINT, f"CAST({inner.ours} AS BIGINT)", f"({inner.guarded})::BIGINT", is_call=True)

    def _floor(self, depth: int) -> Expression:
        name, written = self.rng.choice([("FLOOR", "floor({})"), ("CEIL", "ceil({})"), ("ABS", "abs({})")])
        return self._call(DOUBLE, name, written, self.expression(DOUBLE, depth))

    def _text(self, depth: int) -> Expression:
        name, written = self.rng.choice([("UCASE", "upper({})"), ("LCASE", "lower({})"), ("TRIM", "trim({})")])
        return self._call(STRING, name, written, self.expression(STRING, depth))

    def _concat(self, depth: int) -> Expression:
        parts = [self.expression(STRING, depth) for _ in range(2)]
        return self._call(STRING, "CONCAT", "concat({}, {})", *parts)

    def _substring(self, depth: int) -> Expression:
        text, start, length = self.expression(STRING, depth), self.rng.randrange(1, 4), self.rng.randrange(3)
        value, raises = argument(text)
        ours = f"SUBSTRING({text.ours}, {start}, {length})"
        return Expression(STRING, ours, f"substring(({value}), {start}, {length})", raises, is_call=True)

    def _choice(self, type_: str, depth: int) -> Expression:
        first, second = self.expression(type_, depth), self.expression(type_, depth)
        if self.rng.random() < 0.4:
            return self._call(type_, "COALESCE", "coalesce({}, {})", first, second)
        when = self.condition(depth)
        raises = _NEVER
        if {when.raises, first.raises, second.raises} != {_NEVER}:
            raises = f"({when.raises} OR CASE WHEN {when.duckdb} THEN {first.raises} ELSE {second.raises} END)"
        value = f"CASE WHEN {when.duckdb} THEN {first.duckdb} ELSE {second.duckdb} END"
        return Expression(type_, f"CASE WHEN {when.ours} THEN {first.ours} ELSE {second.ours} END", value, raises)

    # ----- conditions ------------------------------------------------------------------------------------------------

    def _compared(self, ours: str, duckdb: str, *sides: Expression) -> Expression:
        """A comparison: false if a side is NULL."""
        return Expression(BOOLEAN, ours, f"COALESCE({duckdb}, FALSE)", any_of(*(side.raises for side in sides)))

    def _comparison(self, depth: int) -> Expression:
        type_ = self.rng.choice((*_NUMBERS, STRING))
        left = self.expression(type_, depth)
        right = self.expression(self.rng.choice(_NUMBERS) if type_ != STRING else STRING, depth)
        operator = self.rng.choice(_COMPARISONS)
        # Numbers are compared by value: those of the data are exact as DOUBLE, large integers are not.
        exact = "::HUGEINT" if DOUBLE not in {left.type, right.type} and type_ != STRING else ""
        duckdb = f"({left.duckdb}){exact} {operator} ({right.duckdb}){exact}"
        return self._compared(f"({left.ours} {operator} {right.ours})", duckdb, left, right)

    def _between(self, depth: int) -> Expression:
        value, low, high = self.expression(INT, depth), self.expression(INT, 0), self.expression(INT, 0)
        negated = self.rng.random() < 0.3
        ours = f"({value.ours} {'NOT ' if negated else ''}BETWEEN {low.ours} AND {high.ours})"
        inside = (
            f"(COALESCE({value.duckdb} >= {low.duckdb}, FALSE) AND COALESCE({value.duckdb} <= {high.duckdb}, FALSE))"
        )
        return Expression(BOOLEAN, ours, f"NOT {inside}" if negated else inside, any_of(value.raises, low.raises))

    def _list(self, depth: int) -> Expression:
        value = self.expression(INT, depth)
        numbers = ", ".join(str(self.rng.randrange(6)) for _ in range(self.rng.randrange(1, 4)))
        negated = self.rng.random() < 0.3
        ours = f"({value.ours} {'NOT ' if negated else ''}IN ({numbers}))"
        inside = f"COALESCE(({value.duckdb}) IN ({numbers}), FALSE)"
        return Expression(BOOLEAN, ours, f"NOT {inside}" if negated else inside, value.raises)

    def _like(self, depth: int) -> Expression:
        """LIKE of a NULL raises."""
        value, pattern = self.expression(STRING, depth), self.rng.choice(["%a%", "_", "b%", "%"])
        raises = any_of(value.raises, f"({value.duckdb}) IS NULL")
        return Expression(BOOLEAN, f"({value.ours} LIKE '{pattern}')", f"(({value.duckdb}) LIKE '{pattern}')", raises)

    def _null_test(self, _depth: int) -> Expression:
        value, test = self._leaf(self.rng.choice((INT, STRING, DOUBLE))), self.rng.choice(["IS NULL", "IS NOT NULL"])
        return Expression(BOOLEAN, f"({value.ours} {test})", f"({value.duckdb} {test})")

    def _junction(self, depth: int) -> Expression:
        left, right = self.condition(depth), self.condition(depth)
        operator = self.rng.choice(["AND", "OR"])
        goes_on = left.duckdb if operator == "AND" else f"NOT {left.duckdb}"
        raises = _NEVER
        if (left.raises, right.raises) != (_NEVER, _NEVER):
            raises = f"CASE WHEN {left.raises} THEN TRUE WHEN {goes_on} THEN {right.raises} ELSE FALSE END"
        return Expression(
            BOOLEAN, f"({left.ours} {operator} {right.ours})", f"({left.duckdb} {operator} {right.duckdb})", raises
        )

    def _negation(self, depth: int) -> Expression:
        inner = self.condition(depth)
        return Expression(BOOLEAN, f"(NOT {inner.ours})", f"(NOT {inner.duckdb})", inner.raises)
