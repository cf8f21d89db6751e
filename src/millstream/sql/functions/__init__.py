"""Everything that computes on SQL values: coercion, arithmetic, comparison, casts, and the catalogue of functions.

It knows types and values, nothing of syntax trees, rows or plans. Functions get values that are not None unless an
entry says that it sees them. A failure at run time is any exception with a clear message: the caller decides what
becomes of it. A failure while types are resolved is a `SqlStatementError` without a place: the caller knows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from millstream.sql.functions.arguments import MISSING, Argument, LambdaArgument, TypedArgument, UnitArgument
from millstream.sql.functions.arithmetic import arithmetic, negation
from millstream.sql.functions.builtins import builtin_catalogue
from millstream.sql.functions.casts import Converter, cast
from millstream.sql.functions.catalogue import (
    Accumulator,
    AggregateCall,
    Catalogue,
    Config,
    ScalarCall,
    TableCall,
)
from millstream.sql.functions.coercion import coerce, common_type, ensure_fit, literal_type, widening, widens
from millstream.sql.functions.comparison import comparison, distinct, equality
from millstream.sql.functions.like import like_matcher

__all__ = [
    "MISSING",
    "Accumulator",
    "AggregateCall",
    "Argument",
    "Catalogue",
    "Config",
    "Converter",
    "LambdaArgument",
    "ScalarCall",
    "TableCall",
    "TypedArgument",
    "UnitArgument",
    "arithmetic",
    "builtin_catalogue",
    "cast",
    "coerce",
    "common_type",
    "comparison",
    "distinct",
    "ensure_fit",
    "equality",
    "is_aggregate",
    "is_table_function",
    "like_matcher",
    "literal_type",
    "negation",
    "resolve_aggregate",
    "resolve_scalar",
    "resolve_table",
    "widening",
    "widens",
]


def resolve_scalar(name: str, arguments: Sequence[Argument]) -> ScalarCall:
    """Resolves a call of a built-in scalar function.

    >>> from millstream.sql.types import INTEGER
    >>> call = resolve_scalar("sqrt", [TypedArgument(INTEGER)])
    >>> print(call.result, call.call(4), call.strict)
    DOUBLE 2.0 True
    """
    return builtin_catalogue().resolve_scalar(name, arguments)


def resolve_aggregate(name: str, arguments: Sequence[Argument], config: Config | None = None) -> AggregateCall:
    """Resolves a call of a built-in aggregate function.

    >>> from millstream.sql.types import INTEGER
    >>> call = resolve_aggregate("SUM", [TypedArgument(INTEGER)])
    >>> state = call.accumulator.add(call.accumulator.initial(), 3)
    >>> print(call.result, call.state, call.accumulator.finish(state), call.undo is not None)
    INTEGER INTEGER 3 True
    """
    return builtin_catalogue().resolve_aggregate(name, arguments, config)


def resolve_table(name: str, arguments: Sequence[Argument]) -> TableCall:
    """Resolves a call of a built-in table function.

    >>> from millstream.sql.types import INTEGER, ArrayType
    >>> call = resolve_table("EXPLODE", [TypedArgument(ArrayType(INTEGER))])
    >>> print(call.result, call.call([1, 2]))
    INTEGER [1, 2]
    """
    return builtin_catalogue().resolve_table(name, arguments)


def is_aggregate(name: str) -> bool:
    """Whether a name is that of a built-in aggregate function."""
    return builtin_catalogue().is_aggregate(name)


def is_table_function(name: str) -> bool:
    """Whether a name is that of a built-in table function."""
    return builtin_catalogue().is_table_function(name)
