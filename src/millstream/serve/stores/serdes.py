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

Registry = Callable[[], ApplicationRegistry]
"""Returns the reference to the registry; it is opened when it is first needed."""

_WITH_SCHEMA: dict[str, Callable[..., Serde[Any]]] = {
    "avro": millstream.avro,
    "protobuf": millstream.protobuf,
    "json-schema": millstream.json_schema,
}
_AROUND = re.compile(r"(list|time-windowed|session-windowed)<(.*)>", re.DOTALL)


def serde_of(name: str, schema: Mapping[str, Any] | None, context: SerdeContext, registry: Registry) -> Serde[Any]:
    """Returns the serde of a name.

    A serde that the application defines itself is not known here: its bytes are shown as text, if they are text.

    Args:
        name: The name of the serde.
        schema: The recorded schema, if it has one.
        context: The topic, and whether the serde is for keys.
        registry: Returns the registry.
    """
    around = _AROUND.fullmatch(name)
    if around is not None:
        inner = serde_of(around[2], schema, context, registry)
        if around[1] == "list":
            return list_of(inner)
        return session_windowed(inner) if around[1] == "session-windowed" else time_windowed(inner, None)
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


def _with_schema(name: str, schema: Mapping[str, Any], context: SerdeContext, registry: Registry) -> Serde[Any]:
    """A value is read with the schema whose id it carries; a key is written with the recorded one."""
    make = _WITH_SCHEMA[name]
    if schema.get("bare"):
        try:
            return make(schema["versions"][-1]["text"], registry=None)
        except (MillstreamError, KeyError, IndexError):
            return STRING
    serde = make().bind(context._replace(registry=registry()))
    assert isinstance(serde, SchemaSerde)
    serde.recorded = SchemaRecord(schema.get("id"))
    return serde
