"""The environment of a query: sources, types, functions and properties of the session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.core.frozen import Frozen
from millstream.errors import SqlStatementError, suggestion
from millstream.sql.binder.expressions import ExpressionBinder
from millstream.sql.catalog.sources import DataSource
from millstream.sql.functions import Catalogue, builtin_catalogue
from millstream.sql.syntax import tree
from millstream.sql.types import SqlType


class Environment(Frozen):
    """The catalog and the properties of the session, at the time of a statement.

    In another process it has types, properties and functions, which is what expressions need; of the functions only
    those of the user are sent.
    """

    sources: Mapping[str, DataSource]
    types: Mapping[str, SqlType]
    functions: Catalogue
    properties: Mapping[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        builtin = {id(function) for function in builtin_catalogue()}
        own = tuple(function for function in self.functions if id(function) not in builtin)
        return _received, (dict(self.types), own, dict(self.properties))

    def source(self, name: str, at: tree.Position) -> DataSource:
        """Returns the source of a name.

        Raises:
            SqlStatementError: There is no such source.
        """
        if name not in self.sources:
            raise SqlStatementError(f"{name} does not exist.", hint=suggestion(name, self.sources), at=at)
        return self.sources[name]

    def binder(self, columns: Mapping[str, SqlType]) -> ExpressionBinder:
        """Returns a binder of expressions whose columns have their names in rows."""

        def column(ref: tree.ColumnRef) -> tuple[str, SqlType]:
            if ref.name not in columns:
                raise SqlStatementError(
                    f"column '{ref.name}' cannot be resolved.", hint=suggestion(ref.name, columns), at=ref.at
                )
            return ref.name, columns[ref.name]

        isolates = str(self.properties.get("ksql.nested.error.set.null", True)).lower() != "false"
        return ExpressionBinder(column, self.functions, self.types, isolates=isolates)


def _received(types: dict[str, SqlType], own: tuple[Any, ...], properties: dict[str, Any]) -> Environment:
    functions = builtin_catalogue()
    return Environment({}, types, functions.extended(own) if own else functions, properties)
