"""INSERT VALUES: evaluates the values, and converts them to the types of their columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from millstream.errors import SqlStatementError, suggestion
from millstream.sql.binder.bound import Bound
from millstream.sql.catalog.sources import PSEUDO_COLUMNS, ROWTIME, WINDOW_BOUNDS, DataSource
from millstream.sql.closures import compile_bound
from millstream.sql.functions import ensure_fit, widening, widens
from millstream.sql.planner.environment import Environment
from millstream.sql.syntax import tree
from millstream.sql.types import BIGINT, INTEGER, ArrayType, DecimalType, MapType, SqlType, StructType

_READ_ONLY = re.compile(
    "__?confluent.*|_schemas|__consumer_offsets|__transaction_state|connect-(configs|offsets|status|statuses)"
)
"""The topics in which Kafka and its tools keep their own state: no statement writes to them."""


def evaluated(
    source: DataSource, columns: Sequence[str], expressions: Sequence[tree.Expression], environment: Environment
) -> dict[str, Any]:
    """Returns the values by column, each converted to the type of its column.

    Raises:
        SqlStatementError: A column does not exist, or a value does not fit it.
    """
    types: dict[str, SqlType] = {column.name: column.type for column in (*source.key, *source.value)}
    types[ROWTIME] = BIGINT
    if source.window is not None:
        types.update(WINDOW_BOUNDS)
    if len(columns) != len(expressions):
        raise SqlStatementError(f"Expected {len(columns)} values, got {len(expressions)}", at=expressions[0].at)
    row: dict[str, Any] = {}
    for name, expression in zip(columns, expressions, strict=True):
        if name in row:
            raise SqlStatementError(f"Column `{name}` is listed twice.", at=expression.at)
        if name not in types:
            raise SqlStatementError(
                f"Column name `{name}` does not exist.", hint=suggestion(name, types), at=expression.at
            )
        row[name] = _value(name, types[name], expression, environment)
    return row


def _value(name: str, type_: SqlType, expression: tree.Expression, environment: Environment) -> Any:
    bound = environment.binder({}).bind(expression)
    if bound.type is not None and not fits_strictly(bound.type, type_):
        raise SqlStatementError(
            f"Expected type {type_} for field `{name}` but got {bound.type}", at=expression.at, hint="use CAST"
        )
    try:
        return strict_value(bound, type_)
    except Exception as error:
        raise SqlStatementError(f"cannot insert into column `{name}`: {error}", at=expression.at) from error


def fits_strictly(have: SqlType, want: SqlType) -> bool:
    """Whether a value of a type can be that of a column without CAST."""
    match have, want:
        case (_, DecimalType()) if isinstance(have, DecimalType) or have in (INTEGER, BIGINT):
            return True  # the value must fit
        case (StructType(), StructType()):  # fields that are left out are NULL
            types = dict(want.fields)
            return all(name in types and fits_strictly(part, types[name]) for name, part in have.fields)
        case (ArrayType(), ArrayType()):
            return fits_strictly(have.element, want.element)
        case (MapType(), MapType()):
            return have.key == want.key and fits_strictly(have.value, want.value)
    return widens(have, want)


def strict_value(bound: Bound, type_: SqlType) -> Any:
    """Evaluates an expression without columns, and converts the value to a type that it `fits_strictly`.

    Raises:
        Exception: The expression fails, or its value is out of the range of the type.
    """
    if bound.type is None:
        return None
    return _fitted(compile_bound(bound)({}), bound.type, type_)


def _fitted(value: Any, have: SqlType, want: SqlType) -> Any:
    if value is None or have == want:
        return value
    match have, want:
        case (_, DecimalType()) if not isinstance(value, float):
            return ensure_fit(Decimal(value), want)
        case (StructType(), StructType()):
            types = dict(have.fields)
            return {
                name: _fitted(value[name], types[name], part) if name in types else None for name, part in want.fields
            }
        case (ArrayType(), ArrayType()):
            return [_fitted(item, have.element, want.element) for item in value]
        case (MapType(), MapType()):
            return {key: _fitted(item, have.value, want.value) for key, item in value.items()}
    convert = widening(have, want)
    return value if convert is None else convert(value)


InsertedRow: TypeAlias = tuple[Any, dict[str, Any], int | None]
"""Key, value and time of a record that is inserted."""


def inserted_row(statement: tree.InsertValues, source: DataSource, environment: Environment) -> InsertedRow:
    """Returns the record that a statement inserts.

    Raises:
        SqlStatementError: The source cannot be written, or the values do not fit it.
    """
    columns = statement.columns or tuple(column.name for column in (*source.key, *source.value))
    check_target(source, columns, statement.at)
    return record_of(source, evaluated(source, columns, statement.values, environment), statement.at)


def target_of(statement: tree.InsertValues, sources: Mapping[str, DataSource]) -> DataSource:
    """Returns the source that a statement inserts into.

    Raises:
        SqlStatementError: There is none of that name.
    """
    if statement.target in sources:
        return sources[statement.target]
    hint = suggestion(statement.target, sources)
    if statement.target.upper() in sources:
        hint = f"Did you mean {statement.target.upper()}? Hint: try removing double quotes from the source name."
    raise SqlStatementError(
        f"Cannot insert values into an unknown stream/table: `{statement.target}`", hint=hint, at=statement.at
    )


def check_target(source: DataSource, columns: Sequence[str], at: tree.Position | None = None) -> None:
    """Checks that rows with these columns can be inserted into a source.

    Raises:
        SqlStatementError: The source or a column cannot be written.
    """
    if source.read_only:
        raise SqlStatementError(f"Cannot insert values into read-only {source.kind.lower()}: {source.name}", at=at)
    if _READ_ONLY.fullmatch(source.topic):
        raise SqlStatementError(f"Cannot insert into read-only topic: {source.topic}", at=at)
    if source.window is not None:
        raise SqlStatementError("Cannot insert values into windowed stream/table!", at=at)
    for name in columns:
        if name in PSEUDO_COLUMNS and name != ROWTIME:
            raise SqlStatementError(f"Inserting into column `{name}` is not allowed.", at=at)
        if any(header.name == name for header in source.headers):
            raise SqlStatementError(f"Cannot insert into HEADER columns: {name}", at=at)


def record_of(source: DataSource, row: Mapping[str, Any], at: tree.Position | None = None) -> InsertedRow:
    """Returns the record of a row, whose values fit the columns.

    Raises:
        SqlStatementError: A primary key is missing.
    """
    missing = [column.name for column in source.key if row.get(column.name) is None]
    if source.is_table and missing:
        raise SqlStatementError(
            f"Failed to insert values into '{source.name}'. Value for primary key column(s) {', '.join(missing)} is "
            "required for tables",
            at=at,
        )
    key = tuple(row.get(column.name) for column in source.key)
    value = {column.name: row.get(column.name) for column in source.value}
    return (key[0] if len(key) == 1 else key or None), value, row.get(ROWTIME)
