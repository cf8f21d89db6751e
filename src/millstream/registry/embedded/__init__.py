"""The embedded registry: schemas in a file of the data directory."""

from __future__ import annotations

from millstream.registry.embedded.registry import EmbeddedRegistry

__all__ = ["EmbeddedRegistry"]
