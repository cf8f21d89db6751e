"""Rewrites syntax trees: replaces expressions inside of expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from millstream.core.frozen import fields
from millstream.sql.syntax import tree

E = TypeVar("E", bound=tree.Expression)


def rewrite(
    expression: tree.Expression, replace: Callable[[tree.Expression], tree.Expression | None]
) -> tree.Expression:
    """Returns the expression with parts replaced, from the outside in; a replaced part is not searched again."""
    other = replace(expression)
    if other is not None:
        return other
    values = {name: getattr(expression, name) for name in fields(expression)}
    changed = {name: _rewritten(value, replace) for name, value in values.items()}
    if all(changed[name] is values[name] for name in values):
        return expression
    return type(expression)(**changed)


def _rewritten(value: Any, replace: Callable[[tree.Expression], tree.Expression | None]) -> Any:
    if isinstance(value, tree.Expression):
        return rewrite(value, replace)
    if isinstance(value, tuple) and not isinstance(value, tree.Position):
        items = tuple(_rewritten(item, replace) for item in value)
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return value


def parts(expression: tree.Expression) -> Iterator[tree.Expression]:
    """Yields the expression and all expressions inside of it, the outer ones first."""
    yield expression
    for name in fields(expression):
        yield from _inside(getattr(expression, name))


def _inside(value: Any) -> Iterator[tree.Expression]:
    if isinstance(value, tree.Expression):
        yield from parts(value)
    elif isinstance(value, tuple) and not isinstance(value, tree.Position):
        for item in value:
            yield from _inside(item)


def column_refs(expression: tree.Expression, parameters: frozenset[str] = frozenset()) -> Iterator[tree.ColumnRef]:
    """Yields the references to columns; parameters of lambdas are none."""
    if isinstance(expression, tree.ColumnRef):
        if expression.source is not None or expression.name not in parameters:
            yield expression
        return
    if isinstance(expression, tree.Lambda):
        parameters |= frozenset(expression.parameters)
    for name in fields(expression):
        yield from _refs_inside(getattr(expression, name), parameters)


def _refs_inside(value: Any, parameters: frozenset[str]) -> Iterator[tree.ColumnRef]:
    if isinstance(value, tree.Expression):
        yield from column_refs(value, parameters)
    elif isinstance(value, tuple) and not isinstance(value, tree.Position):
        for item in value:
            yield from _refs_inside(item, parameters)


def resolve_columns(
    expression: tree.Expression,
    resolve: Callable[[tree.ColumnRef], str],
    parameters: frozenset[str] = frozenset(),
) -> tree.Expression:
    """Returns the expression with every column named as in rows; parameters of lambdas stay as they are."""

    def replace(part: tree.Expression) -> tree.Expression | None:
        if isinstance(part, tree.ColumnRef):
            if part.source is None and part.name in parameters:
                return part
            return tree.ColumnRef(at=part.at, name=resolve(part))
        if isinstance(part, tree.Lambda):
            inner = parameters | frozenset(part.parameters)
            body = resolve_columns(part.body, resolve, inner)
            return tree.Lambda(at=part.at, parameters=part.parameters, body=body)
        return None

    return rewrite(expression, replace)
