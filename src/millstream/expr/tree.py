"""The tree of an expression: seven kinds of nodes, and the operators that build them.

Literals are the only Python objects in a tree, so that it can be printed, stored, and used by several backends.
Because ``==`` builds a comparison, trees are compared with ``same_as``; they hash by identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, NoReturn, TypeAlias

from millstream.core.frozen import Frozen
from millstream.errors import ExpressionError, suggestion
from millstream.expr.catalog import lookup
from millstream.expr.datetimes import timestamp_text
from millstream.expr.schema import as_type
from millstream.expr.types import DATE, TIME, TIMESTAMP, DataType
from millstream.expr.values import to_millis

ROLES = ("key", "value", "timestamp", "headers", "left", "right", "agg")
"""The parts of a record, a join or an aggregation that an expression can start from."""

Scalar: TypeAlias = "bool | int | float | Decimal | str | bytes | None"
Operand: TypeAlias = Any
"""An operand of an expression: another expression, or a Python value, which becomes a literal."""


class Expr(Frozen):
    """An expression, built from ``col`` and similar functions with operators and methods, evaluated for each record.

    Nulls are as in SQL: the result of an operator or method is null if an operand is null, ``&`` and ``|`` have
    three-valued logic, and a filter drops the records for which its condition is null.

    >>> from millstream.expr import col
    >>> print((col("amount") * 2 > 10) & col("country").in_("be", "nl"))
    amount * 2 > 10 AND country IN ('be', 'nl')
    """

    __hash__ = object.__hash__

    def same_as(self, other: Expr) -> bool:
        """Whether two expressions are the same tree."""
        import json  # loaded on first use: building and evaluating trees does not need it

        from millstream.expr.codec import to_dict

        return json.dumps(to_dict(self)) == json.dumps(
            to_dict(other)
        )  # as text: True equals 1 in Python, but not in JSON

    def __str__(self) -> str:
        from millstream.expr.sql_text import to_text

        return to_text(self)

    def __repr__(self) -> str:
        return f"<expression {self}>"

    def __bool__(self) -> NoReturn:
        raise ExpressionError(
            f"`{self}` has no truth value: it is an expression, not its result",
            hint="use & | ~ instead of and/or/not, when() instead of if, between() instead of a < b < c",
        )

    def __iter__(self) -> NoReturn:
        raise TypeError(f"`{self}` is an expression and cannot be iterated over")

    def __contains__(self, item: object) -> NoReturn:
        raise TypeError("Python's `in` cannot build an expression; use .in_(), .contains() or array_contains()")

    def __add__(self, other: Operand) -> Expr:
        return _call("+", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return _call("+", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return _call("-", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return _call("-", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return _call("*", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return _call("*", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return _call("/", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return _call("/", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return _call("//", self, other)

    def __rfloordiv__(self, other: Operand) -> Expr:
        return _call("//", other, self)

    def __mod__(self, other: Operand) -> Expr:
        return _call("%", self, other)

    def __rmod__(self, other: Operand) -> Expr:
        return _call("%", other, self)

    def __pow__(self, other: Operand) -> Expr:
        return _call("power", self, other)

    def __rpow__(self, other: Operand) -> Expr:
        return _call("power", other, self)

    def __neg__(self) -> Expr:
        return _call("negative", self)

    def __abs__(self) -> Expr:
        return _call("abs", self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return _call("=", self, _comparable(other))

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return _call("<>", self, _comparable(other))

    def __lt__(self, other: Operand) -> Expr:
        return _call("<", self, _comparable(other))

    def __le__(self, other: Operand) -> Expr:
        return _call("<=", self, _comparable(other))

    def __gt__(self, other: Operand) -> Expr:
        return _call(">", self, _comparable(other))

    def __ge__(self, other: Operand) -> Expr:
        return _call(">=", self, _comparable(other))

    def __and__(self, other: Operand) -> Expr:
        return _call("and", self, other)

    def __rand__(self, other: Operand) -> Expr:
        return _call("and", other, self)

    def __or__(self, other: Operand) -> Expr:
        return _call("or", self, other)

    def __ror__(self, other: Operand) -> Expr:
        return _call("or", other, self)

    def __invert__(self) -> Expr:
        return _call("not", self)

    def __getitem__(self, item: Operand) -> Expr:
        """A field of a struct or a value of a map by name, an element of an array by index (negative: from the end)."""
        return Field(self, item) if isinstance(item, str) else _call("[]", self, item)

    def is_null(self) -> Expr:
        """Whether it is null."""
        return _call("is_null", self)

    def is_not_null(self) -> Expr:
        """Whether it is not null."""
        return _call("is_not_null", self)

    def is_distinct_from(self, other: Operand) -> Expr:
        """Whether it differs; null is a value that equals null."""
        return _call("is_distinct_from", self, other)

    def fill_null(self, default: Operand) -> Expr:
        """The default if it is null, else itself."""
        return _call("ifnull", self, default)

    def in_(self, *options: Operand) -> Expr:
        """Whether it is one of the options, which may also be given as one list, tuple or set."""
        if len(options) == 1 and isinstance(options[0], list | tuple | set | frozenset):
            values = options[0]
            # A set has no defined order, and two runs must build the same tree.
            options = tuple(sorted(values, key=repr) if isinstance(values, set | frozenset) else values)
        return _call("in", self, *options) if options else Literal(False)

    def is_in(self, *options: Operand) -> Expr:
        """Whether it is one of the options: another name of `in_`."""
        return self.in_(*options)

    def between(self, low: Operand, high: Operand) -> Expr:
        """Whether it is neither less than ``low`` nor more than ``high``."""
        return _call("between", self, low, high)

    def cast(self, to: DataType | type | str) -> Expr:
        """Casts to another type: a type, its text (``"bigint"``) or a Python type.

        A value that cannot be cast is an error; ``functions.try_`` makes it null.

        >>> from millstream.expr import col
        >>> print(col("amount").cast("decimal(10, 2)"))
        CAST(amount AS DECIMAL(10, 2))
        """
        return Cast(self, as_type(to))

    def like(self, pattern: Operand) -> Expr:
        """Whether the whole text matches a pattern: % matches any text, _ any character."""
        return _call("like", self, pattern)

    def contains(self, part: Operand) -> Expr:
        """Whether the text contains the part."""
        return _call("contains", self, part)

    def starts_with(self, prefix: Operand) -> Expr:
        """Whether the text begins with the prefix."""
        return _call("starts_with", self, prefix)

    def ends_with(self, suffix: Operand) -> Expr:
        """Whether the text ends with the suffix."""
        return _call("ends_with", self, suffix)

    def upper(self) -> Expr:
        """The text in upper case."""
        return _call("upper", self)

    def lower(self) -> Expr:
        """The text in lower case."""
        return _call("lower", self)

    def trim(self) -> Expr:
        """The text without white space around it."""
        return _call("trim", self)

    def length(self) -> Expr:
        """The number of characters, bytes or elements."""
        return _call("length", self)

    def substring(self, start: Operand, length: Operand = None) -> Expr:
        """A part of the text; positions count from 1, or from the end if negative."""
        return _call("substring", self, start, *([] if length is None else [length]))

    def replace(self, old: Operand, new: Operand) -> Expr:
        """The text with every ``old`` replaced by ``new``."""
        return _call("replace", self, old, new)

    def split(self, delimiter: Operand) -> Expr:
        """The parts of the text between the delimiters."""
        return _call("split", self, delimiter)

    def abs(self) -> Expr:
        """The number without its sign."""
        return _call("abs", self)

    def round(self, places: Operand = 0) -> Expr:
        """The number rounded, half away from zero."""
        return _call("round", self, places)


class Root(Expr):
    """A part of the record, by its role."""

    role: str

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ExpressionError(f"there is no role {self.role!r}", hint=suggestion(str(self.role), ROLES))


class Field(Expr):
    """A field of a struct, or the value of a map at a text key."""

    base: Expr
    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ExpressionError(f"the name of a field is a text that is not empty, not {self.name!r}")


class Literal(Expr):
    """A constant."""

    value: Scalar

    def __post_init__(self) -> None:
        if type(self.value) not in {bool, int, float, Decimal, str, bytes, type(None)}:
            raise ExpressionError(f"a {type(self.value).__name__} cannot be a literal: {self.value!r}")
        if isinstance(self.value, int) and not -(1 << 63) <= self.value < 1 << 63:
            raise ExpressionError(f"the literal {self.value} has more than 64 bits", hint="use a Decimal")


class Call(Expr):
    """A call of a function or an operator of the catalog."""

    function: str
    args: tuple[Expr, ...]

    def __post_init__(self) -> None:
        function = lookup(self.function)
        function.check_arguments(len(self.args))
        for position, check in function.constants.items():
            argument = self.args[position] if position < len(self.args) else None
            if isinstance(argument, Literal) and argument.value is not None:
                try:
                    check(argument.value)
                except Exception as error:
                    what = f"{function.name} cannot use {argument} as its {function.parameter(position).name}"
                    raise ExpressionError(f"{what}: {error}") from error


class Case(Expr):
    """The result of the first condition that is true, else the default; without a default, null."""

    branches: tuple[tuple[Expr, Expr], ...]
    default: Expr | None = None

    def __post_init__(self) -> None:
        if not self.branches:
            raise ExpressionError("a CASE has at least one WHEN")

    def when(self, condition: Operand, result: Operand) -> Case:
        """Adds a branch after the others."""
        if self.default is not None:
            raise ExpressionError(f"`{self}` ends with otherwise(); put when() before it")
        return Case((*self.branches, (to_expr(condition), to_expr(result))))

    def otherwise(self, result: Operand) -> Case:
        """Sets the default: the result if no condition is true."""
        if self.default is not None:
            raise ExpressionError(f"`{self}` has an otherwise() already")
        return Case(self.branches, to_expr(result))


class Cast(Expr):
    """A cast of the operand to another type."""

    operand: Expr
    to: DataType


class Struct(Expr):
    """A new struct of named fields."""

    fields: tuple[tuple[str, Expr], ...]

    def __post_init__(self) -> None:
        if len({name for name, _ in self.fields}) < len(self.fields):
            raise ExpressionError(f"`{self}` has a field twice")


def children(expr: Expr) -> Iterator[Expr]:
    """Yields the child nodes of a node, in order."""
    if isinstance(expr, Field):
        yield expr.base
    elif isinstance(expr, Call):
        yield from expr.args
    elif isinstance(expr, Cast):
        yield expr.operand
    elif isinstance(expr, Struct):
        yield from (field for _, field in expr.fields)
    elif isinstance(expr, Case):
        for branch in expr.branches:
            yield from branch
        if expr.default is not None:
            yield expr.default


def roles_of(expr: Expr) -> frozenset[str]:
    """Returns the roles that an expression reads.

    >>> from millstream.expr import col, key
    >>> sorted(roles_of(col("amount") + key()))
    ['key', 'value']
    """
    if isinstance(expr, Root):
        return frozenset({expr.role})
    return frozenset().union(*map(roles_of, children(expr)))


_SCALARS: tuple[type, ...] = (bool, int, float, Decimal, str, bytes)


def to_expr(value: Operand) -> Expr:
    """Returns an expression unchanged, and a Python value as a literal."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, Enum):
        return to_expr(value.value)
    for scalar in _SCALARS:
        if isinstance(value, scalar):
            return Literal(scalar(value))  # drops a subclass, such as numpy's float64
    if value is None:
        return Literal(None)
    if isinstance(value, list | tuple):
        return _call("array", *value)
    if isinstance(value, dict):
        return Struct(tuple((str(name), to_expr(field)) for name, field in value.items()))
    return _from_datetime(value)


def _from_datetime(value: Operand) -> Expr:
    """Returns a date or time as a cast of its text, since it cannot be a literal; a duration as milliseconds."""
    if isinstance(value, datetime):
        return Cast(Literal(timestamp_text(to_millis(value))), TIMESTAMP)
    if isinstance(value, date):
        return Cast(Literal(value.isoformat()), DATE)
    if isinstance(value, time):
        return Cast(Literal(value.isoformat()), TIME)
    if isinstance(value, timedelta):
        return Literal(value // timedelta(milliseconds=1))
    hint = (
        "an expression cannot call a Python function; write a function instead of the expression"
        if callable(value)
        else None
    )
    raise ExpressionError(f"a {type(value).__name__} cannot be part of an expression: {value!r}", hint=hint)


def _comparable(value: object) -> object:
    if value is None:
        raise ExpressionError("a comparison with None is null for every record", hint="use is_null() or is_not_null()")
    return value


def _call(function: str, *args: Operand) -> Expr:
    return Call(function, tuple(map(to_expr, args)))
