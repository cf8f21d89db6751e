"""Evaluates SQL expressions as a projection does, with columns as arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millstream.errors import SqlStatementError
from millstream.sql.binder.expressions import ExpressionBinder
from millstream.sql.closures import compile_bound
from millstream.sql.functions import builtin_catalogue
from millstream.sql.functions.java.text import text_of
from millstream.sql.syntax.parser import parse_expression
from millstream.sql.syntax.tree import ColumnRef
from millstream.sql.types import SqlType

Columns = dict[str, tuple[SqlType, Any]]


@pytest.fixture(scope="session")
def evaluate() -> Callable[..., tuple[SqlType, Any]]:
    """Returns the type and the value of an expression; an error of the expression is raised."""

    def compute(text: str, columns: Columns | None = None) -> tuple[SqlType, Any]:
        known = columns or {}

        def column(reference: ColumnRef) -> tuple[str, SqlType]:
            if reference.name not in known:
                raise SqlStatementError(f"column {reference.name} cannot be resolved")
            return reference.name, known[reference.name][0]

        binder = ExpressionBinder(column, builtin_catalogue(), {})
        bound = binder.bind(parse_expression(text))
        assert bound.type is not None
        return bound.type, compile_bound(bound)({name: value for name, (_type, value) in known.items()})

    return compute


@pytest.fixture(scope="session")
def shown(evaluate: Any) -> Callable[..., str]:
    """Returns the text of the value of an expression, as CAST to STRING gives it; ``null`` for NULL."""

    def show(text: str, columns: Columns | None = None) -> str:
        type_, value = evaluate(text, columns)
        return "null" if value is None else text_of(type_)(value)

    return show
