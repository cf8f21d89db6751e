"""CREATE … AS and INSERT INTO … SELECT: plans the query, and checks that its sink can hold the result."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from millstream.core.frozen import replace
from millstream.errors import SqlStatementError
from millstream.sql.binder.expressions import convert_column
from millstream.sql.catalog.catalog import Catalog, PersistentQuery
from millstream.sql.catalog.properties import (
    CREATE_AS_PROPERTIES,
    INSERT_PROPERTIES,
    SourceProperties,
    check_properties,
)
from millstream.sql.catalog.sources import DataSource, FormatInfo, WindowInfo
from millstream.sql.formats.declarations import format_of
from millstream.sql.functions.decimals import literal_decimal
from millstream.sql.planner.environment import Environment
from millstream.sql.planner.query import plan_query
from millstream.sql.planner.steps import PlannedQuery, Project
from millstream.sql.statements.schemas import SchemaRules
from millstream.sql.statements.sources import timestamp_info
from millstream.sql.syntax import tree
from millstream.sql.types import DecimalType, SqlType


def create_as(
    statement: tree.CreateAs, catalog: Catalog, environment: Environment, schemas: SchemaRules
) -> PersistentQuery:
    """Returns the query of a statement, with the sink that it defines."""
    properties = check_properties(statement.properties, CREATE_AS_PROPERTIES)
    planned = plan_query(statement.query, environment, persistent=True, sink=statement.name)
    _check_kind(statement, planned)
    left = planned.sources[0]
    key_format, value_format = sink_formats(properties, left, planned, environment.properties)
    name = "CTAS" if statement.kind == "TABLE" else "CSAS"
    query_id = f"{name}_{statement.name}_{catalog.next_number()}"
    prefix = environment.properties.get("ksql.output.topic.name.prefix", "")
    sink = DataSource(
        name=statement.name,
        kind=statement.kind,
        key=planned.key,
        value=planned.value,
        topic=properties.get("KAFKA_TOPIC") or f"{prefix}{statement.name}",
        key_format=schemas.with_features(key_format, planned.key, properties, is_key=True, source=statement.name),
        value_format=schemas.with_features(
            value_format, planned.value, properties, is_key=False, source=statement.name
        ),
        window=planned.window,
        timestamp=timestamp_info(properties, (*planned.key, *planned.value)),
        partitions=properties.get("PARTITIONS"),
        query=query_id,
        statement=statement.text,
    )
    schemas.check(sink, statement.at)
    schemas.check_written(sink, statement.at)
    return PersistentQuery(query_id, planned, sink, dict(environment.properties), statement.text, sink.name)


def _check_kind(statement: tree.CreateAs, planned: PlannedQuery) -> None:
    if statement.kind == planned.root.kind:
        return
    if statement.kind == "STREAM":
        raise SqlStatementError(
            "Invalid result type. Your SELECT query produces a TABLE. Please use CREATE TABLE AS SELECT statement "
            "instead.",
            at=statement.at,
        )
    raise SqlStatementError(
        "Invalid result type. Your SELECT query produces a STREAM. Please use CREATE STREAM AS SELECT statement "
        "instead.",
        at=statement.at,
    )


def sink_formats(
    properties: SourceProperties, left: DataSource, planned: PlannedQuery, defaults: Mapping[str, Any]
) -> tuple[FormatInfo, FormatInfo]:
    """Returns the formats of a sink: those of the statement, else those of the left-most source."""
    both = properties.get("FORMAT")
    key_name = properties.get("KEY_FORMAT", both)
    if key_name is not None:
        format_of(key_name, at=properties.places.get("KEY_FORMAT") or properties.places.get("FORMAT"))
    value_name = properties.get("VALUE_FORMAT", both)
    if not planned.key and key_name is None:
        key = FormatInfo("NONE")
    elif key_name is not None:
        key = left.key_format if key_name == left.key_format.name else FormatInfo(key_name)
        if not planned.key and key_name != "NONE":
            raise properties.error(
                "KEY_FORMAT", "Key format specified for stream without key columns.", hint="leave KEY_FORMAT out"
            )
    elif left.key_format.name == "NONE":
        key = FormatInfo(str(defaults.get("ksql.persistence.default.format.key") or "KAFKA").upper())
    else:
        key = left.key_format
    value = left.value_format if value_name in (None, left.value_format.name) else FormatInfo(value_name)
    return replace(key, wrap=None, schema_id=None), replace(value, wrap=None, schema_id=None)


def insert_into(
    statement: tree.InsertInto, catalog: Catalog, environment: Environment, schemas: SchemaRules
) -> PersistentQuery:
    """Returns the query of a statement, which writes to an existing stream."""
    properties = check_properties(statement.properties, INSERT_PROPERTIES)
    target = catalog.source(statement.target, statement.at)
    if target.is_table:
        raise SqlStatementError(
            f"INSERT INTO can only be used to insert into a stream. {target.name} is a table.", at=statement.at
        )
    if target.read_only:
        raise SqlStatementError(f"Cannot insert into read-only stream: {target.name}", at=statement.at)
    if target.headers:
        raise SqlStatementError(f"Cannot insert into {target.name} because it has header columns", at=statement.at)
    planned = plan_query(statement.query, environment, persistent=True, sink=target.name)
    if planned.root.kind == "TABLE":
        raise SqlStatementError(
            "INSERT INTO can only be used to insert into a stream, but the query makes a table.", at=statement.at
        )
    planned = fitted(planned, target, statement)
    if planned.window != target.window:
        raise SqlStatementError(
            f"Incompatible windows between results and sink: {target.name} is "
            f"{_windowing(target.window)}, the result is {_windowing(planned.window)}.",
            at=statement.at,
        )
    own_id = properties.get("QUERY_ID")
    query_id = (own_id or f"INSERTQUERY_{catalog.next_number()}").upper()
    if query_id in catalog.queries:
        raise SqlStatementError(f"Query ID '{query_id}' already exists.", at=statement.at)
    schemas.check(target, statement.at)
    name = query_id if own_id else catalog.insert_name(target.name)
    return PersistentQuery(query_id, planned, target, dict(environment.properties), statement.text, name)


def _windowing(window: WindowInfo | None) -> str:
    return "not windowed" if window is None else f"{window.kind} windowed"


def _literal_fits(expression: tree.Expression | None, want: SqlType) -> bool:
    """Whether an expression is a number as written, which fits a DECIMAL: it takes the column's scale."""
    value = expression.value if isinstance(expression, tree.Literal) else None
    if not isinstance(want, DecimalType) or isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return False
    return convert_column(literal_decimal(Decimal(repr(value)) if isinstance(value, float) else Decimal(value)), want)


def fitted(planned: PlannedQuery, target: DataSource, statement: tree.InsertInto) -> PlannedQuery:
    """Returns the query with its columns converted to the types of the target."""
    same = [column.name for column in (*planned.key, *planned.value)] == [
        column.name for column in (*target.key, *target.value)
    ] and len(planned.key) == len(target.key)
    conversions = {}
    written = dict(planned.root.items) if isinstance(planned.root, Project) else {}
    if same:
        for have, want in zip((*planned.key, *planned.value), (*target.key, *target.value), strict=True):
            if have.type != want.type:
                same = same and (
                    convert_column(have.type, want.type) or _literal_fits(written.get(have.name), want.type)
                )
                conversions[have.name] = want.type
    if not same:
        result = ", ".join([*(f"{column} KEY" for column in planned.key), *map(str, planned.value)])
        raise SqlStatementError(
            f"Incompatible schema between results and sink. Result schema is {result}. Sink schema is "
            f"{target.schema_text()}",
            at=statement.at,
        )
    if not conversions:
        return planned
    root = planned.root
    assert isinstance(root, Project)
    items = tuple(
        (
            name,
            tree.Cast(at=statement.at, operand=item, to=tree.KnownType(at=statement.at, type=conversions[name]))
            if name in conversions
            else item,
        )
        for name, item in root.items
    )
    columns = tuple((column.name, column.type) for column in target.value)
    return replace(planned, root=replace(root, items=items, columns=columns), key=target.key, value=target.value)
