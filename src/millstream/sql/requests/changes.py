"""Statements that change the catalog or the deployment: definitions, INSERT VALUES, TERMINATE, PAUSE and RESUME."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.errors import MillstreamError, SqlStatementError, suggestion
from millstream.schemas.registries import ApplicationRegistry
from millstream.serde.api import SerdeContext
from millstream.sql.catalog.catalog import PersistentQuery
from millstream.sql.catalog.properties import CREATE_AS_PROPERTIES, CREATE_PROPERTIES, check_properties
from millstream.sql.catalog.sources import DataSource
from millstream.sql.lowering.serdes import SourceSerdes
from millstream.sql.requests.deployment import Deployment, NewRecord
from millstream.sql.requests.entities import Entity, status, warning
from millstream.sql.statements.insert import InsertedRow, inserted_row, target_of
from millstream.sql.statements.session import Session
from millstream.sql.syntax import tree

_TOPIC_CONFIG = {"RETENTION_MS": "retention.ms", "CLEANUP_POLICY": "cleanup.policy"}
_ACTIONS = {"TERMINATE": "terminated", "PAUSE": "paused", "RESUME": "resumed"}

Definition = (
    tree.CreateSource
    | tree.CreateAs
    | tree.InsertInto
    | tree.AlterSource
    | tree.DropSource
    | tree.CreateType
    | tree.DropType
)


class Changes:
    """Executes statements that change something.

    Attributes:
        session: The catalog, and the properties of the request.
        deployment: What runs the queries.
        registry: The schema registry.
        check_only: Statements change the catalog of the session, and nothing else.
    """

    def __init__(
        self, session: Session, deployment: Deployment, registry: ApplicationRegistry | None, *, check_only: bool
    ) -> None:
        self.session = session
        self.deployment = deployment
        self.registry = registry
        self.check_only = check_only

    # ----- definitions -----------------------------------------------------------------------------------------------

    def define(self, statement: Definition) -> Entity:
        """Executes a definition. If the deployment refuses it, the catalog stays as it was."""
        catalog = self.session.catalog
        before = catalog.copy()
        self._check_topic(statement)
        try:
            query = self.session.execute(statement)
            if not self.check_only:
                self._deploy(statement, before.sources.get(getattr(statement, "name", "")), before.queries, query)
        except MillstreamError:
            catalog.restore(before)
            raise
        if catalog.sources == before.sources and catalog.types == before.types and query is None:
            return self._unchanged(statement)
        return self._status(statement, query)

    def _check_topic(self, statement: Definition) -> None:
        if not isinstance(statement, tree.CreateSource):
            return
        properties = check_properties(statement.properties, CREATE_PROPERTIES)
        topic = properties.get("KAFKA_TOPIC")
        if topic is None or "PARTITIONS" in properties:
            return
        known = {info.name for info in self.deployment.topics()}
        if self.check_only:  # statements before this one will create the topics of their sources
            known |= {source.topic for source in self.session.catalog.sources.values()}
        if topic not in known:
            raise SqlStatementError(
                f"Kafka topic does not exist: {topic}",
                hint=suggestion(topic, known) or "PARTITIONS in the WITH clause creates it",
                at=statement.at,
            )

    def _deploy(
        self,
        statement: Definition,
        source: Any,
        queries: dict[str, PersistentQuery],
        query: PersistentQuery | None,
    ) -> None:
        match statement:
            case tree.CreateSource():
                self._create_topic(statement)
                created = self.session.catalog.sources[statement.name]
                if created.read_only and created.is_table and created != source:
                    self.deployment.materialize(created)
            case tree.CreateAs() | tree.InsertInto() if query is not None:
                if isinstance(statement, tree.CreateAs):
                    self._create_topic(statement, query)
                former = queries.get(source.query) if source is not None and source.query is not None else None
                self.deployment.start(query, self.session.environment, replaces=former)
            case tree.DropSource() if source is not None:
                if source.query in queries:
                    self.deployment.terminate(queries[source.query])
                if source.read_only and source.is_table:
                    self.deployment.forget(source)
                if statement.delete_topic:
                    self.deployment.delete_topic(source.topic)

    def _create_topic(self, statement: tree.CreateSource | tree.CreateAs, query: PersistentQuery | None = None) -> None:
        known = CREATE_PROPERTIES if query is None else CREATE_AS_PROPERTIES
        properties = check_properties(statement.properties, known)
        partitions = properties.get("PARTITIONS")
        if query is None and partitions is None:
            return  # it exists
        topic = properties.get("KAFKA_TOPIC") if query is None else query.sink.topic
        if partitions is None and query is not None:
            first = query.planned.sources[0].topic
            partitions = next((info.partitions for info in self.deployment.topics() if info.name == first), None)
        config = {name: str(properties.get(key)) for key, name in _TOPIC_CONFIG.items() if key in properties}
        self.deployment.create_topic(topic, partitions, config)

    def _unchanged(self, statement: Definition) -> Entity:
        match statement:
            case tree.CreateSource() | tree.CreateAs():
                kind = statement.kind.lower()
                existing = self.session.catalog.sources[statement.name].kind.lower()
                return warning(
                    statement.text,
                    f"Cannot add {kind} `{statement.name}`: A {existing} with the same name already exists.",
                )
            case tree.DropSource():
                kind = statement.kind.capitalize()
                return status(
                    statement.text,
                    (statement.kind.lower(), f"`{statement.name}`", "drop"),
                    f"{kind} {statement.name} does not exist.",
                )
            case tree.CreateType():
                return warning(statement.text, f"Cannot register custom type '{statement.name}': it already exists.")
            case tree.DropType():
                return status(
                    statement.text, ("type", f"`{statement.name}`", "drop"), f"Type '{statement.name}' does not exist."
                )
        return self._status(statement, None)

    def _status(self, statement: Definition, query: PersistentQuery | None) -> Entity:
        text = statement.text
        match statement:
            case tree.CreateAs() | tree.InsertInto() if query is not None:
                kind = "stream" if isinstance(statement, tree.InsertInto) else statement.kind.lower()
                return status(
                    text, (kind, f"`{query.sink.name}`", "create"), f"Created query with ID {query.id}", query.id
                )
            case tree.CreateSource():
                kind = statement.kind
                return status(text, (kind.lower(), f"`{statement.name}`", "create"), f"{kind.capitalize()} created")
            case tree.AlterSource():
                kind = statement.kind
                return status(
                    text,
                    (kind.lower(), f"`{statement.name}`", "alter"),
                    f"{kind.capitalize()} {statement.name} altered successfully.",
                )
            case tree.DropSource():
                kind = statement.kind
                return status(
                    text, (kind.lower(), f"`{statement.name}`", "drop"), f"Source `{statement.name}` was dropped."
                )
            case tree.CreateType():
                type_ = self.session.catalog.types[statement.name]
                return status(
                    text,
                    ("type", f"`{statement.name}`", "create"),
                    f"Registered custom type with name '{statement.name}' and SQL type {type_}",
                )
            case tree.DropType():
                return status(text, ("type", f"`{statement.name}`", "drop"), f"Dropped type '{statement.name}'")
        raise AssertionError(f"{type(statement).__name__} is no definition")

    # ----- INSERT VALUES ---------------------------------------------------------------------------------------------

    def insert(self, statement: tree.InsertValues) -> None:
        """Appends the record of INSERT VALUES."""
        source = target_of(statement, self.session.catalog.sources)
        row = inserted_row(statement, source, self.session.environment)
        if not self.check_only:
            self.append(source, [row])

    def append(self, source: DataSource, rows: Sequence[InsertedRow]) -> None:
        """Appends the records of rows, all or none of them."""
        context = [SerdeContext(source.topic, is_key, self.registry) for is_key in (True, False)]
        serdes = SourceSerdes(self.session.properties)
        key, value = serdes.key(source).bind(context[0]), serdes.value(source).bind(context[1])
        records = [NewRecord(key.serialize(row[0]), value.serialize(row[1]), row[2]) for row in rows]
        self.deployment.append(source.topic, records)

    # ----- control ---------------------------------------------------------------------------------------------------

    def control(self, statement: tree.Terminate) -> Entity:
        """Terminates, pauses or resumes one query, or all."""
        queries = self.session.catalog.queries
        if statement.query is None:
            chosen = list(queries.values())
        else:
            id_ = statement.query if statement.query in queries else statement.query.upper()
            if id_ not in queries:
                raise SqlStatementError(
                    f"Unknown queryId: {statement.query}", hint=suggestion(id_, queries), at=statement.at
                )
            chosen = [queries[id_]]
        action = statement.action.lower()
        for query in chosen:
            if not self.check_only:
                {
                    "terminate": self.deployment.terminate,
                    "pause": self.deployment.pause,
                    "resume": self.deployment.resume,
                }[action](query)
            if action == "terminate":
                del queries[query.id]
        name = "all" if statement.query is None else chosen[0].id
        return status(statement.text, (action, name, "execute"), f"Query {_ACTIONS[statement.action]}.")
