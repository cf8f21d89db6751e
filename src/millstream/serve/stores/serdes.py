"""The serdes of a store, from the names that the state of its application records."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import millstream
from millstream.errors import ConfigError, MillstreamError
from millstream.schemas.recorded import SchemaRecord
from millstream.schemas.registries import ApplicationRegistry
from millstream.schemas.serde import SchemaSerde
from millstream.serde import STRING, Serde, SerdeContext, list_of, serde_for, session_windowed, time_windowed
from millstream.serve.stores.sql_serdes import sql_serde
from millstream.stages.schemas import schema_data

Registry = Callable[[], ApplicationRegistry]
"""Returns the reference to the registry; it is opened when it is first needed."""

_WITH_SCHEMA: dict[str, Callable[..., Serde[Any]]] = {
    "avro": millstream.avro,
    "protobuf": millstream.protobuf,
    "json-schema": millstream.json_schema,
}
_AROUND = re.compile(r"(list|time-windowed|session-windowed)<(.*)>", re.DOTALL)


def serde_of(
    name: str,
    schema: Mapping[str, Any] | None,
    context: SerdeContext,
    registry: Registry,
    window_size_ms: int | None = None,
) -> Serde[Any]:
    """Returns the serde of a name.

    A serde that the application defines itself is not known here: its bytes are shown as text, if they are text.

    Args:
        name: The name of the serde.
        schema: The recorded schema, if it has one.
        context: The topic, and whether the serde is for keys.
        registry: Returns the registry.
        window_size_ms: The size of the windows of keys; None: it is not known, or they have no end.
    """
    around = _AROUND.fullmatch(name)
    if around is not None:
        inner = serde_of(around[2], schema, context, registry, window_size_ms)
        if around[1] == "list":
            return list_of(inner)
        return session_windowed(inner) if around[1] == "session-windowed" else time_windowed(inner, window_size_ms)
    if name in _WITH_SCHEMA:
        return _with_schema(name, schema or {}, context, registry)
    if name.startswith("sql-"):
        return sql_serde(name, context, registry) or STRING
    try:
        return serde_for(name)
    except ConfigError:
        return STRING


def reads_registry(name: str) -> bool:
    """Whether the serde of a name may have to ask the registry, which takes time."""
    around = _AROUND.fullmatch(name)
    if around is not None:
        return reads_registry(around[2])
    return name in _WITH_SCHEMA or name.startswith(("sql-avro", "sql-protobuf", "sql-json_sr"))


def inner_key_schema(plan: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the schema of the keys in keys with windows, which the description of a topology has without its tags.

    Args:
        plan: The store, as the state of its application records it.
    """
    around = _AROUND.fullmatch(plan["key"])
    schema: Mapping[str, Any] = next(iter(plan.get("key_schemas", ())), {})
    if around is None or around[2] not in _WITH_SCHEMA or not schema.get("versions"):
        return None
    try:
        return schema_data(_WITH_SCHEMA[around[2]](schema["versions"][-1]["text"]))
    except MillstreamError:
        return None


def _with_schema(name: str, schema: Mapping[str, Any], context: SerdeContext, registry: Registry) -> Serde[Any]:
    """A value is read with the schema whose id it carries. A key is written with the recorded id, or schema."""
    make = _WITH_SCHEMA[name]
    text = next((version["text"] for version in reversed(schema.get("versions", ()))), None)
    try:
        if schema.get("bare"):
            return make(text, registry=None)
        writes_own = context.is_key and "id" not in schema and text is not None
        serde = make(text, auto_register_schemas=False) if writes_own else make()
    except ConfigError:  # such as a text with several messages of Protobuf
        serde = STRING if schema.get("bare") else make()
    if not isinstance(serde, SchemaSerde):
        return serde
    subject = schema.get("subject") or ""
    topic = subject.removesuffix("-key" if context.is_key else "-value") or context.topic
    bound = serde.bind(context._replace(topic=topic, registry=registry()))
    bound.recorded = SchemaRecord(schema.get("id"))
    return bound
