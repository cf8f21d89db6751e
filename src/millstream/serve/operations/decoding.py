"""Decodes the records of topics: by the serdes of the applications, else by the schema whose id a record carries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import millstream
from millstream.config import Config
from millstream.config.profiles import from_environment
from millstream.core.records import UnreadableHeaders
from millstream.errors import ConfigError, UnknownSchemaError
from millstream.log.blocks import decode_headers
from millstream.registry import SchemaRegistry, open_registry
from millstream.schemas.json_values import TextOrSchema, as_field, as_headers
from millstream.schemas.registries import ApplicationRegistry, forget, registry_for
from millstream.serde import Serde, SerdeContext, serde_for
from millstream.serve.access.roles import Principal, Role
from millstream.serve.data import ServedData
from millstream.serve.operations.masking import Masks

_MOST_SERDES = 1000
_VIEWER = Principal("viewer", Role.VIEWER)


class Schemas(NamedTuple):
    """The schemas of the keys and values of a topic, as `App.describe` has them; None: unknown."""

    key: Mapping[str, Any] | None = None
    value: Mapping[str, Any] | None = None


class Decoder:
    """Decodes records for a server. It may be used from any thread.

    Args:
        data: The data of the server.
    """

    def __init__(self, data: ServedData) -> None:
        self._data = data
        self.masks = Masks(data.reports)
        self._lock = threading.Lock()
        self._registry: SchemaRegistry | None = None
        self._reference: ApplicationRegistry | None = None
        self._serdes: dict[tuple[str, bool], Serde[Any]] = {}

    def schemas(self, topic: str) -> Schemas:
        """Returns the schemas of a topic, from the topology of an application that reads or writes it."""
        for application in self._data.reports.applications():
            for part in self._data.reports.topology(application).get("sub_topologies", ()):
                for node in part["nodes"]:
                    if topic in node["topics"]:
                        schema = node.get("schema") or {}
                        return Schemas(schema.get("key"), schema.get("value"))
                for store in part["stores"]:
                    if topic == store.get("changelog"):
                        return Schemas(store.get("key_schema"), store.get("value_schema"))
        return Schemas()

    def rows(
        self, topic: str, partition: int, rows: Sequence[Mapping[str, Any]], principal: Principal | None = None
    ) -> list[dict[str, Any]]:
        """Returns records of a partition as JSON objects, with the fields of ``consume --output json``.

        Args:
            topic: The topic.
            partition: The partition.
            rows: Its records, as the log returns them.
            principal: The sender of the request. Personal fields are hidden from viewers, and if it is not given.
        """
        return self.masks.records(principal or _VIEWER, topic, self._decoded(topic, partition, rows))

    def _decoded(self, topic: str, partition: int, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        keys, values = self.serdes(topic)
        decoded = []
        for row in rows:
            headers = decode_headers(row["headers"])
            record = {"partition": partition, "offset": row["offset"], "timestamp": row["timestamp"]}
            record |= as_field("key", row["key"], keys, headers) | as_field("value", row["value"], values, headers)
            if isinstance(headers, UnreadableHeaders):
                record["headers_error"] = headers.reason
            else:
                record["headers"] = as_headers(headers)
            decoded.append(record)
        return decoded

    def serdes(self, topic: str) -> tuple[Serde[Any], Serde[Any]]:
        """Returns the serdes of the keys and values of a topic."""
        schemas = self.schemas(topic)
        return self._serde(topic, schemas.key, is_key=True), self._serde(topic, schemas.value, is_key=False)

    def reference(self) -> ApplicationRegistry:
        """Returns the schema registry, as serdes refer to it."""
        self._open()
        assert self._reference is not None
        return self._reference

    def writers(self, topic: str) -> tuple[Serde[Any], Serde[Any]]:
        """Returns the serdes with which keys and values are written to a topic.

        A topic with a schema is written with the latest one of its subject.
        """
        schemas = self.schemas(topic)
        return self._writer(topic, schemas.key, is_key=True), self._writer(topic, schemas.value, is_key=False)

    def _writer(self, topic: str, schema: Mapping[str, Any] | None, *, is_key: bool) -> Serde[Any]:
        serde = self._serde(topic, schema, is_key=is_key)
        if not isinstance(serde, TextOrSchema):
            return serde
        subject = (schema or {}).get("subject") or f"{topic}-{'key' if is_key else 'value'}"
        try:
            return self._with_schema(topic, self._open().latest(subject).schema.type, is_key=is_key)
        except UnknownSchemaError:
            return serde

    def _serde(self, topic: str, schema: Mapping[str, Any] | None, *, is_key: bool) -> Serde[Any]:
        if schema is not None and schema.get("format") is None:
            try:
                return serde_for(schema["serde"])
            except ConfigError:  # a serde of the user's
                pass
        with self._lock:
            if len(self._serdes) >= _MOST_SERDES:  # dead letters may name topics that do not exist
                self._serdes.clear()
            return self._serdes.setdefault((topic, is_key), self._by_id(topic, is_key=is_key))

    def _by_id(self, topic: str, *, is_key: bool) -> Serde[Any]:
        return TextOrSchema(self._open, partial(self._with_schema, topic, is_key=is_key), is_key=is_key)

    def _with_schema(self, topic: str, type_: str, *, is_key: bool) -> Serde[Any]:
        """Returns the serde of a topic with schemas of a type: AVRO, PROTOBUF or JSON."""
        makers: dict[str, Callable[[], Serde[Any]]] = {
            "AVRO": millstream.avro,
            "PROTOBUF": millstream.protobuf,
            "JSON": millstream.json_schema,
        }
        self._open()
        return makers[type_]().bind(SerdeContext(topic, is_key, self._reference))

    def _open(self) -> SchemaRegistry:
        with self._lock:
            if self._registry is None:
                config = Config({**Config(from_environment()).explicit, **self._data.config.explicit})
                self._registry = open_registry(config, self._data.directory)
                self._reference = registry_for(self._registry, config)
            return self._registry

    def close(self) -> None:
        """Closes the registry."""
        if self._registry is not None and self._reference is not None:
            forget(self._reference)
            self._registry.close()
