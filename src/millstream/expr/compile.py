"""Compiles expressions to Python functions.

Every node becomes a closure of one argument, the *row*. If the expression reads one role, the row is that role's value
itself; if it reads several, the row is the tuple of all parameters.

Evaluation:

- A null operand makes the result of an operator, a function or a cast null, except where SQL defines another result.
- Errors are raised, for the error handler of the application: division by zero, a cast of a text that does not parse, a
  value of the wrong type. ``functions.try_`` turns them into nulls.
- AND, OR, CASE, COALESCE and IFNULL evaluate only the operands that they need.
- Calls with constant arguments are evaluated once, when the expression is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from millstream.errors import ExpressionError
from millstream.expr.casts import caster
from millstream.expr.catalog import lookup
from millstream.expr.check import type_of
from millstream.expr.closures import (
    LAZY,
    Constant,
    Run,
    adapt,
    case,
    field_of,
    field_of_row,
    field_with_constant,
    folded,
    plain_call,
    strict,
    struct,
)
from millstream.expr.tree import ROLES, Call, Case, Cast, Expr, Field, Literal, Root, Struct, roles_of
from millstream.expr.types import DataType


def compile_expr(
    expr: Expr, params: tuple[str, ...], types: Mapping[str, DataType] | None = None
) -> Callable[..., Any]:
    """Returns a function that evaluates an expression.

    Args:
        expr: The expression.
        params: The roles of the function's parameters, in order.
        types: The known types of roles; the expression is checked against them.

    Raises:
        ExpressionError: The expression reads a role that is not a parameter, or does not fit the types.

    >>> from millstream.expr import col, key
    >>> total = compile_expr(col("price") * col("count"), ("value",))
    >>> total({"price": 3, "count": 4}), total({"price": 3}), total(None)
    (12, None, None)
    >>> compile_expr(key(), ("value",))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    millstream.errors.ExpressionError: ...: `key` reads the key, which is not available here
      hint: only the value is
    """
    unknown = [param for param in params if param not in ROLES]
    if unknown or len(set(params)) < len(params):
        raise ExpressionError(f"parameters are different roles of {', '.join(ROLES)}, not {', '.join(params)}")
    used = roles_of(expr)
    for role in ROLES:
        if role in used and role not in params:
            available = " and ".join(params)
            hint = f"only the {available} {'are' if len(params) > 1 else 'is'}" if params else None
            raise ExpressionError(f"`{expr}` reads the {role}, which is not available here", hint=hint)
    types = types or {}
    type_of(expr, types)
    if len(used) <= 1:
        run = _Compiler(None, types).run(expr)
        return adapt(run, len(params), params.index(next(iter(used))) if used else 0)
    run = _Compiler({role: position for position, role in enumerate(params)}, types).run(expr)
    return adapt(run, len(params), None)


def evaluate(expr: Expr, **roles: Any) -> Any:
    """Evaluates an expression once, for tests and experiments.

    >>> from millstream.expr import col
    >>> evaluate(col("name").upper(), value={"name": "ada"})
    'ADA'
    """
    return compile_expr(expr, tuple(roles))(*roles.values())


class _Compiler:
    def __init__(self, positions: dict[str, int] | None, types: Mapping[str, DataType]) -> None:
        self.positions = positions  # of the roles in the row; None if the row is the value of the only role
        self.types = types

    def run(self, expr: Expr) -> Run:
        if isinstance(expr, Literal):
            return Constant(expr.value)
        if isinstance(expr, Root):
            return self.root(expr)
        if isinstance(expr, Field):
            return field_of_row(expr.name) if self.is_row(expr.base) else field_of(self.run(expr.base), expr.name)
        if isinstance(expr, Call):
            return self.call(expr)
        if isinstance(expr, Cast):
            return strict(caster(type_of(expr.operand, self.types), expr.to), [self.run(expr.operand)])
        if isinstance(expr, Struct):
            return struct([(name, self.run(field)) for name, field in expr.fields])
        if isinstance(expr, Case):
            branches = [(self.run(when), self.run(then)) for when, then in expr.branches]
            return case(branches, Constant(None) if expr.default is None else self.run(expr.default))
        raise AssertionError(f"a {type(expr).__name__} is not a node")

    def is_row(self, expr: Expr) -> bool:
        return self.positions is None and isinstance(expr, Root)

    def root(self, expr: Root) -> Run:
        if self.positions is None:
            return lambda row: row
        position = self.positions[expr.role]
        return lambda row: row[position]

    def call(self, expr: Call) -> Run:
        args = [self.run(arg) for arg in expr.args]
        if expr.function in LAZY:
            return LAZY[expr.function](args)
        function = lookup(expr.function)
        if not function.strict:
            return folded(plain_call(function.implementation, args), args)
        first = expr.args[0] if expr.args else None
        if len(args) == 2 and isinstance(first, Field) and self.is_row(first.base) and isinstance(args[1], Constant):
            return field_with_constant(function.implementation, first.name, args[1].value)
        return strict(function.implementation, args)
