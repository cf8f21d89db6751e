"""Bound expressions: every node has its type, and names are resolved.

A node evaluates its operands as its ``nulls`` rule says: ``raise`` (an operator on numbers), ``false`` (a comparison),
``null`` (most functions), or ``see`` (the function is called with nulls).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from millstream.core.frozen import Frozen
from millstream.sql.types import SqlType

Nulls = Literal["raise", "false", "null", "see"]


class Bound(Frozen, kw_only=True):
    """A bound expression; the type of a bare NULL is None."""

    type: SqlType | None

    @property
    def isolated(self) -> bool:
        """Whether an error inside of this operand of a function becomes a null, and the function is still called."""
        return False


class Constant(Bound, kw_only=True):
    """A literal."""

    value: Any


class ColumnValue(Bound, kw_only=True):
    """The value of a column of the row."""

    name: str


class ParameterValue(Bound, kw_only=True):
    """The value of a parameter of a lambda."""

    name: str


class LambdaValue(Bound, kw_only=True):
    """A lambda; ``type`` is that of its result."""

    parameters: tuple[str, ...]
    body: Bound


class Apply(Bound, kw_only=True):
    """A call of a Python function with the values of operands, each of which a converter may change first.

    The call may be repeated, and gives the same result, if it is `deterministic`.
    """

    call: Callable[..., Any]
    operands: tuple[Bound, ...]
    nulls: Nulls
    converters: tuple[Callable[[Any], Any] | None, ...] = ()
    name: str = ""
    is_function: bool = False
    deterministic: bool = True

    @property
    def isolated(self) -> bool:
        """Calls of functions are isolated, operators are not."""
        return self.is_function


class Conversion(Bound, kw_only=True):
    """CAST, or an implicit conversion; a null stays a null, and an error makes a null."""

    operand: Bound
    convert: Callable[[Any], Any]

    @property
    def isolated(self) -> bool:
        """A cast is isolated."""
        return True


class FieldValue(Bound, kw_only=True):
    """``struct->field``."""

    operand: Bound
    field: str

    @property
    def isolated(self) -> bool:
        """A field is isolated."""
        return True


class Junction(Bound, kw_only=True):
    """AND or OR, from left to right, as far as needed."""

    operator: str
    left: Bound
    right: Bound


class Negation(Bound, kw_only=True):
    """NOT."""

    operand: Bound


class NullTest(Bound, kw_only=True):
    """IS NULL or IS NOT NULL."""

    operand: Bound
    negated: bool


class Choice(Bound, kw_only=True):
    """CASE: the result of the first branch whose condition is true."""

    branches: tuple[tuple[Bound, Bound], ...]
    default: Bound


class Constructor(Bound, kw_only=True):
    """Makes an array, a map or a struct. An element that fails is null; without `isolates`, all of the value is."""

    isolates: bool = True


class MakeArray(Constructor, kw_only=True):
    """ARRAY[…]."""

    items: tuple[Bound, ...]


class MakeMap(Constructor, kw_only=True):
    """MAP(…)."""

    entries: tuple[tuple[Bound, Bound], ...]


class MakeStruct(Constructor, kw_only=True):
    """STRUCT(…)."""

    fields: tuple[tuple[str, Bound], ...]
