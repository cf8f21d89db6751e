"""Serdes whose values have a schema: Avro, Protobuf and JSON Schema, with a schema registry or without one."""

from __future__ import annotations
