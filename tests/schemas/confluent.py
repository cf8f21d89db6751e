"""confluent-kafka's registry in memory, as a registry of Millstream: both write the same ids."""

from __future__ import annotations

from typing import Any

from confluent_kafka.schema_registry import Schema as TheirSchema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from millstream.errors import UnknownSchemaError
from millstream.registry.api import Reference, Registered, Schema
from millstream.schemas.registries import ApplicationRegistry, registry_for
from millstream.serde import Serde, SerdeContext
from millstream.testing.registry import MemoryRegistry


class MockRegistry(MemoryRegistry):
    """The methods that serdes call, on confluent-kafka's mock client."""

    def __init__(self) -> None:
        super().__init__()
        self.client: Any = SchemaRegistryClient.new_client({"url": "mock://"})

    def schema(self, id: int, subject: str | None = None) -> Schema:
        try:
            return _ours(self.client.get_schema(id, subject))
        except SchemaRegistryError as error:
            raise UnknownSchemaError(str(error)) from error

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        return int(self.client.register_schema(subject, _theirs(schema), normalize_schemas=normalize))

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> Registered:
        found = self.client.lookup_schema(subject, _theirs(schema), normalize_schemas=normalize)
        return Registered(found.schema_id, subject, found.version, _ours(found.schema))

    def latest(self, subject: str) -> Registered:
        try:
            found = self.client.get_latest_version(subject)
        except SchemaRegistryError as error:
            raise UnknownSchemaError(str(error)) from error
        return Registered(found.schema_id, subject, found.version, _ours(found.schema))

    def version(self, subject: str, version: int) -> Registered:
        found = self.client.get_version(subject, version)
        return Registered(found.schema_id, subject, found.version, _ours(found.schema))


def _ours(schema: Any) -> Schema:
    references = tuple(Reference(r.name, r.subject, r.version) for r in schema.references or ())
    return Schema(schema.schema_str, schema.schema_type, references)


def _theirs(schema: Schema) -> TheirSchema:
    references = [SchemaReference(*reference) for reference in schema.references]
    return TheirSchema(schema.text, schema.type, references)


def bound(serde: Serde[Any], registry: Any, topic: str = "orders", *, is_key: bool = False) -> Any:
    """A serde as an application has it."""
    reference = registry if isinstance(registry, ApplicationRegistry) else registry_for(registry)
    return serde.bind(SerdeContext(topic, is_key, reference))


def value_of(topic: str = "orders") -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)
