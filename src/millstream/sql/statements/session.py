"""A session: executes definitions, one after another, against its catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.core.frozen import replace
from millstream.errors import SqlError, SqlStatementError
from millstream.sql.binder.expressions import resolve_type
from millstream.sql.catalog.catalog import Catalog, PersistentQuery
from millstream.sql.catalog.sources import SYSTEM_COLUMNS, Column, DataSource
from millstream.sql.functions import Catalogue, builtin_catalogue
from millstream.sql.planner.environment import Environment
from millstream.sql.planner.partitions import PartitionCount, check_partitions, unknown_count
from millstream.sql.statements.queries import create_as, insert_into
from millstream.sql.statements.schemas import SchemaRules
from millstream.sql.statements.sources import create_source
from millstream.sql.statements.upgrades import check_replacement, check_upgrade
from millstream.sql.syntax import tree


class Session:
    """Executes the statements that define streams, tables, types and persistent queries.

    Attributes:
        catalog: The catalog, which statements change.
        properties: The properties of the session: SET changes them.
        functions: The functions.
        schemas: Checks and completes columns by their formats.
        partitions: Returns the number of partitions of a topic, if it is known.
    """

    def __init__(
        self,
        schemas: SchemaRules,
        properties: Mapping[str, Any] | None = None,
        functions: Catalogue | None = None,
        catalog: Catalog | None = None,
        partitions: PartitionCount = unknown_count,
    ) -> None:
        self.partitions = partitions
        self.schemas = schemas
        self.properties = dict(properties or {})
        self.functions = functions or builtin_catalogue()
        self.catalog = Catalog() if catalog is None else catalog

    def with_properties(self, properties: Mapping[str, Any], catalog: Catalog | None = None) -> Session:
        """Returns a session with other properties, on the same catalog or on another one."""
        catalog = self.catalog if catalog is None else catalog
        return Session(self.schemas, properties, self.functions, catalog, self.partitions)

    @property
    def environment(self) -> Environment:
        """The environment in which a query is planned now."""
        return Environment(dict(self.catalog.sources), dict(self.catalog.types), self.functions, dict(self.properties))

    def execute(self, statement: tree.Statement) -> PersistentQuery | None:
        """Executes a definition; returns the query that it adds.

        Raises:
            SqlStatementError: The statement is invalid, or is no definition.
        """
        try:
            return self._execute(statement)
        except SqlError as error:
            if error.line is None:
                error.line, error.column = statement.at
            raise

    def _execute(self, statement: tree.Statement) -> PersistentQuery | None:
        match statement:
            case tree.CreateSource():
                self._create_source(statement)
            case tree.CreateAs():
                return self._create_as(statement)
            case tree.InsertInto():
                query = insert_into(statement, self.catalog, self.environment, self.schemas)
                check_partitions(query.planned.root, self.partitions, statement.at)
                self.catalog.queries[query.id] = query
                return query
            case tree.CreateType():
                self._create_type(statement)
            case tree.DropType():
                self._drop_type(statement)
            case tree.DropSource():
                self._drop_source(statement)
            case tree.AlterSource():
                self._alter_source(statement)
            case tree.SetProperty():
                self.properties[statement.name] = statement.value
            case tree.UnsetProperty():
                self.properties.pop(statement.name, None)
            case tree.Define() | tree.Undefine():
                pass  # the parser replaces variables
            case _:
                raise SqlStatementError(
                    f"{type(statement).__name__} is not a definition, so it is not allowed here", at=statement.at
                )
        return None

    def _exists(self, statement: tree.CreateSource | tree.CreateAs) -> bool:
        """Whether the statement has nothing to do.

        Raises:
            SqlStatementError: There is already a source of that name.
        """
        existing = self.catalog.sources.get(statement.name)
        if existing is None:
            return False
        if statement.if_not_exists:
            return True
        if not statement.or_replace:
            kind = "stream" if statement.kind == "STREAM" else "table"
            other = "stream" if existing.kind == "STREAM" else "table"
            raise SqlStatementError(
                f"Cannot add {kind} '{statement.name}': A {other} with the same name already exists",
                hint="use CREATE OR REPLACE, or CREATE … IF NOT EXISTS",
                at=statement.at,
            )
        return False

    def _create_source(self, statement: tree.CreateSource) -> None:
        if self._exists(statement):
            return
        if statement.is_source and statement.or_replace:
            raise SqlStatementError(
                "Cannot add stream/table: CREATE OR REPLACE is not supported on source streams/tables.", at=statement.at
            )
        existing = self.catalog.sources.get(statement.name)
        source = create_source(statement, self.catalog.types, self.properties, self.schemas)
        if existing is not None:
            check_replacement(existing, source, statement)
        self.catalog.sources[source.name] = source

    def _create_as(self, statement: tree.CreateAs) -> PersistentQuery | None:
        if self._exists(statement):
            return None
        existing = self.catalog.sources.get(statement.name)
        former = None if existing is None or existing.query is None else self.catalog.queries.get(existing.query)
        query = create_as(statement, self.catalog, self.environment, self.schemas)
        check_partitions(query.planned.root, self.partitions, statement.at)
        if existing is not None:
            query = self._replacing(query, existing, former, statement)
        self.catalog.sources[query.sink.name] = query.sink
        self.catalog.queries[query.id] = query
        return query

    def _replacing(
        self, query: PersistentQuery, existing: DataSource, former: PersistentQuery | None, statement: tree.CreateAs
    ) -> PersistentQuery:
        """Returns the query with the id of the query whose place it takes."""
        others = [writer for writer in self.catalog.writers(existing.name) if writer != existing.query]
        if others:
            raise SqlStatementError(
                f"REPLACE for sink {existing.name} is not supported because there are multiple queries writing into "
                f"it: {', '.join(others)}",
                at=statement.at,
            )
        check_replacement(existing, query.sink, statement)
        if former is None:
            return query
        check_upgrade(former, query, statement)
        return replace(query, id=former.id, sink=replace(query.sink, query=former.id))

    def _create_type(self, statement: tree.CreateType) -> None:
        if statement.name in self.catalog.types:
            if statement.if_not_exists:
                return
            raise SqlStatementError(
                f"Cannot register custom type '{statement.name}' since it is already registered with type: "
                f"{self.catalog.types[statement.name]}",
                at=statement.at,
            )
        self.catalog.types[statement.name] = resolve_type(statement.type, self.catalog.types)

    def _drop_type(self, statement: tree.DropType) -> None:
        if self.catalog.types.pop(statement.name, None) is None and not statement.if_exists:
            raise SqlStatementError(f"Type {statement.name} does not exist.", at=statement.at)

    def _drop_source(self, statement: tree.DropSource) -> None:
        source = self.catalog.sources.get(statement.name)
        if source is None:
            if statement.if_exists:
                return
            kind = statement.kind.capitalize()
            raise SqlStatementError(f"{kind} {statement.name} does not exist.", at=statement.at)
        if source.kind != statement.kind:
            raise SqlStatementError(
                f"Incompatible data source type is {source.kind}, but statement was DROP {statement.kind}",
                at=statement.at,
            )
        if statement.delete_topic and source.read_only:
            raise SqlStatementError(f"Cannot delete topic for read-only source: {source.name}", at=statement.at)
        readers = self.catalog.readers(source.name)
        writers = [query for query in self.catalog.writers(source.name) if query != source.query]
        if readers or writers:
            raise SqlStatementError(
                f"Cannot drop {source.name}. The following queries read from this source: [{', '.join(readers)}]. "
                f"The following queries write into this source: [{', '.join(writers)}]. You need to terminate them "
                f"before dropping {source.name}.",
                at=statement.at,
            )
        if source.query is not None:
            self.catalog.queries.pop(source.query, None)
        del self.catalog.sources[source.name]

    def _alter_source(self, statement: tree.AlterSource) -> None:
        source = self.catalog.source(statement.name, statement.at)
        if source.kind != statement.kind:
            raise SqlStatementError(
                f"Incompatible data source type is {source.kind}, but statement was ALTER {statement.kind}",
                at=statement.at,
            )
        if source.query is not None or source.read_only:
            reason = "created by a query (CREATE … AS)" if source.query is not None else "read-only"
            raise SqlStatementError(
                f"ALTER command is not supported for {source.name}: it is {reason}.", at=statement.at
            )
        value = list(source.value)
        taken = {*(column.name for column in (*source.key, *source.value)), *(item.name for item in source.headers)}
        for element in statement.columns:
            if element.role != "VALUE":
                raise SqlStatementError(f"Cannot add key column {element.name}: only value columns.", at=element.at)
            if element.name in SYSTEM_COLUMNS:
                raise SqlStatementError(f"'{element.name}' is a reserved column name.", at=element.at)
            if element.name in taken:
                raise SqlStatementError(
                    f"Cannot add column `{element.name}` to schema. It exists already.", at=element.at
                )
            taken.add(element.name)
            value.append(Column(element.name, resolve_type(element.type, self.catalog.types)))
        changed = replace(source, value=tuple(value))
        self.schemas.check(changed, statement.at)
        self.catalog.sources[source.name] = changed
