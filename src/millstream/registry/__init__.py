"""Schema registries: the one with Confluent's API, and the embedded one in the data directory."""

from __future__ import annotations

from millstream.registry.api import Reference, Registered, Schema, SchemaRegistry, SchemaType, open_registry

__all__ = ["Reference", "Registered", "Schema", "SchemaRegistry", "SchemaType", "open_registry"]
