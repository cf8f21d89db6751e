"""Entities: what statements return, in the JSON of ksqlDB's API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.sql.catalog.catalog import PersistentQuery
from millstream.sql.catalog.sources import DataSource
from millstream.sql.types import ArrayType, DecimalType, MapType, SqlType, StructType

Entity = dict[str, Any]


def entity(kind: str, statement: str, **members: Any) -> Entity:
    """Returns an entity of a kind."""
    return {"@type": kind, "statementText": statement, **members, "warnings": []}


def status(statement: str, command: tuple[str, str, str], message: str, query_id: str | None = None) -> Entity:
    """Returns the entity of a statement that changes something; ``command`` is the type, the name and the action."""
    kind, name, action = command
    return entity(
        "currentStatus",
        statement,
        commandId=f"{kind}/{name}/{action}",
        commandStatus={"status": "SUCCESS", "message": message, "queryId": query_id},
        commandSequenceNumber=-1,
    )


def warning(statement: str, message: str) -> Entity:
    """Returns the entity of a statement that had nothing to do."""
    return {"@type": "warning_entity", "statementText": statement, "message": message, "warnings": []}


def schema_info(type_: SqlType) -> Entity:
    """Returns a type.

    >>> from millstream.sql.types import INTEGER
    >>> schema_info(ArrayType(INTEGER))["memberSchema"]["type"]
    'INTEGER'
    """
    info: Entity = {"type": str(type_), "fields": None, "memberSchema": None}
    match type_:
        case ArrayType():
            info.update(type="ARRAY", memberSchema=schema_info(type_.element))
        case MapType():
            info.update(type="MAP", memberSchema=schema_info(type_.value))
        case StructType():
            info.update(
                type="STRUCT", fields=[{"name": name, "schema": schema_info(part)} for name, part in type_.fields]
            )
        case DecimalType():
            info.update(type="DECIMAL", parameters={"precision": type_.precision, "scale": type_.scale})
    return info


def fields(source: DataSource) -> list[Entity]:
    """Returns the columns of a source."""
    keys: list[Entity] = [
        {"name": column.name, "schema": schema_info(column.type), "type": "KEY"} for column in source.key
    ]
    values = [{"name": column.name, "schema": schema_info(column.type)} for column in source.value]
    headers: list[Entity] = [
        {
            "name": column.name,
            "schema": schema_info(column.type),
            "type": "HEADER",
            **({} if column.header is None else {"headerKey": column.header}),
        }
        for column in source.headers
    ]
    return [*keys, *values, *headers]


def source_info(source: DataSource) -> Entity:
    """Returns a stream or table as lists have it."""
    return {
        "type": source.kind,
        "name": source.name,
        "topic": source.topic,
        "keyFormat": source.key_format.name,
        "valueFormat": source.value_format.name,
        "isWindowed": source.window is not None,
    }


def query_info(query: PersistentQuery, state: str) -> Entity:
    """Returns a persistent query as lists have it."""
    return {
        "queryString": query.statement,
        "sinks": [query.sink.name],
        "sinkKafkaTopics": [query.sink.topic],
        "id": query.id,
        "statusCount": {state: 1},
        "queryType": "PERSISTENT",
        "state": state,
    }


def source_description(
    source: DataSource,
    readers: Sequence[Entity],
    writers: Sequence[Entity],
    topic: tuple[int, int],
    *,
    extended: bool,
) -> Entity:
    """Returns the description of a source; ``topic`` is the number of its topic's partitions and replicas."""
    window = source.window
    partitions, replicas = topic if extended else (0, 0)
    return {
        "name": source.name,
        "windowType": None if window is None else window.kind,
        "readQueries": list(readers),
        "writeQueries": list(writers),
        "fields": fields(source),
        "type": source.kind,
        "timestamp": "" if source.timestamp is None else source.timestamp.column,
        "statistics": "",
        "errorStats": "",
        "extended": extended,
        "keyFormat": source.key_format.name,
        "valueFormat": source.value_format.name,
        "topic": source.topic,
        "partitions": partitions,
        "replication": replicas,
        "statement": source.statement,
        "queryOffsetSummaries": [],
        "sourceConstraints": [],
        "clusterStatistics": [],
        "clusterErrorStats": [],
    }
